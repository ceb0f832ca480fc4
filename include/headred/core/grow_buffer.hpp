// Scratch memory that grows to what was ever asked of it and is then reused: steady states allocate nothing.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <headred/core/config.hpp>

namespace headred {

/// Uninitialised values of a trivial type, aligned to 64 bytes. `get(n)` keeps the content only while n has not grown.
template <class T>
class grow_buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  grow_buffer() = default;
  grow_buffer(grow_buffer&& other) noexcept
      : memory_(std::move(other.memory_)), capacity_(std::exchange(other.capacity_, 0)) {}
  grow_buffer& operator=(grow_buffer&& other) noexcept {
    memory_ = std::move(other.memory_);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }

  /// Room for n values; what was there may be lost. Allocates only beyond the most ever asked for.
  T* get(index_t n) {
    if (n > capacity_) {
      if (n > std::numeric_limits<index_t>::max() / static_cast<index_t>(sizeof(T))) throw std::bad_alloc();
      memory_.reset();
      capacity_ = 0;
      memory_.reset(static_cast<T*>(::operator new(sizeof(T) * static_cast<std::size_t>(n), alignment)));
      capacity_ = n;
    }
    return memory_.get();
  }
  std::size_t bytes() const noexcept { return sizeof(T) * static_cast<std::size_t>(capacity_); }

 private:
  static constexpr std::align_val_t alignment{64};
  struct release {
    void operator()(T* p) const noexcept { ::operator delete(p, alignment); }
  };
  std::unique_ptr<T, release> memory_;
  index_t capacity_ = 0;
};

}  // namespace headred
