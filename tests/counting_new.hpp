// Replaces operator new of a program by one that counts, and fails when told to; for one source file of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

std::atomic<bool> counting{false};
std::atomic<long> allocations{0};
std::atomic<long> living{0};  // obtained and not yet returned, whether counting or not

// How many more allocations succeed; the one after them fails, and if `lasting` all later ones too.
constexpr long never = std::numeric_limits<long>::max();
std::atomic<long> before_failure{never};
std::atomic<bool> lasting{false};

bool is_to_fail() noexcept {
  if (before_failure.load(std::memory_order_relaxed) == never) return false;
  const long left = before_failure.fetch_sub(1);
  return left == 0 || (left < 0 && lasting.load(std::memory_order_relaxed));
}

void* obtain_or_null(std::size_t bytes, std::size_t alignment) noexcept {
  if (is_to_fail()) return nullptr;
  living.fetch_add(1, std::memory_order_relaxed);
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
  if (bytes == 0) bytes = 1;
  return alignment <= alignof(std::max_align_t)
             ? std::malloc(bytes)
             : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
void* obtain(std::size_t bytes, std::size_t alignment) {
  void* const p = obtain_or_null(bytes, alignment);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
void give_back(void* p) noexcept {
  if (p != nullptr) living.fetch_sub(1, std::memory_order_relaxed);
  std::free(p);
}

}  // namespace

// All of them, so that memory of one kind never meets another kind's delete.
void* operator new(std::size_t n) { return obtain(n, 0); }
void* operator new[](std::size_t n) { return obtain(n, 0); }
void* operator new(std::size_t n, std::align_val_t a) { return obtain(n, static_cast<std::size_t>(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return obtain(n, static_cast<std::size_t>(a)); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return obtain_or_null(n, 0); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return obtain_or_null(n, 0); }
void operator delete(void* p) noexcept { give_back(p); }
void operator delete[](void* p) noexcept { give_back(p); }
void operator delete(void* p, std::size_t) noexcept { give_back(p); }
void operator delete[](void* p, std::size_t) noexcept { give_back(p); }
void operator delete(void* p, std::align_val_t) noexcept { give_back(p); }
void operator delete[](void* p, std::align_val_t) noexcept { give_back(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { give_back(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { give_back(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { give_back(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { give_back(p); }
