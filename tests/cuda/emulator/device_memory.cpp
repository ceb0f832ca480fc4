#include "device_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>

#include "emulator.hpp"
#include "state.hpp"

namespace headred_emulator {
namespace {

struct allocation {
  std::byte* mapping;  // with a page before and a page after
  std::size_t mapped;  // without them
  std::size_t bytes;
  std::size_t tail;  // from the end of the bytes to the page after
};

std::map<const std::byte*, allocation>& allocations() {
  static std::map<const std::byte*, allocation> all;
  return all;
}
int opened = 0;
constexpr int nan_byte = 0xff, guard_byte = 0xa5;

std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

void protect_all(int protection) {
  for (const auto& [p, a] : allocations()) mprotect(a.mapping + page(), a.mapped, protection);
}

}  // namespace

void* allocate_device_memory(std::size_t bytes, int) {
  const std::lock_guard lock(device_mutex());
  auto& to_go = device_behaviour().allocations_to_go;
  if (to_go == 0 || bytes > (std::size_t{1} << 36)) return nullptr;
  if (to_go > 0) --to_go;
  const std::size_t aligned = (bytes + 255) / 256 * 256, mapped = (aligned + page() - 1) / page() * page();
  void* const mapping = mmap(nullptr, mapped + 2 * page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(mapping);
  std::byte* const p = first + page() + (mapped - aligned);  // the end, not the beginning, at the unreachable page
  mprotect(first + page(), mapped, PROT_READ | PROT_WRITE);
  std::memset(p, nan_byte, bytes);
  std::memset(p + bytes, guard_byte, aligned - bytes);
  if (opened == 0) mprotect(first + page(), mapped, PROT_NONE);
  allocations()[p] = {first, mapped, bytes, aligned - bytes};
  auto& now = census_now();
  ++now.allocations;
  ++now.all_allocations;
  now.bytes += static_cast<index_t>(bytes);
  return p;
}

bool free_device_memory(void* p) {
  const std::lock_guard lock(device_mutex());
  const auto found = allocations().find(static_cast<std::byte*>(p));
  if (found == allocations().end()) return false;
  const allocation a = found->second;
  mprotect(a.mapping + page(), a.mapped, PROT_READ | PROT_WRITE);
  const auto* const end = static_cast<const std::byte*>(p) + a.bytes;
  for (std::size_t i = 0; i < a.tail; ++i)
    if (end[i] != std::byte{guard_byte}) {
      record_fault("device memory: byte " + std::to_string(i) + " behind an allocation of " + std::to_string(a.bytes) +
                   " bytes was written");
      break;
    }
  munmap(a.mapping, a.mapped + 2 * page());
  allocations().erase(found);
  auto& now = census_now();
  --now.allocations;
  now.bytes -= static_cast<index_t>(a.bytes);
  return true;
}

bool is_device_memory(const void* p, std::size_t bytes) {
  const std::lock_guard lock(device_mutex());
  const auto* const at = static_cast<const std::byte*>(p);
  auto next = allocations().upper_bound(at);
  if (next == allocations().begin()) return false;
  const auto& [begin, a] = *--next;
  const auto offset = static_cast<std::size_t>(at - begin);
  return offset <= a.bytes && bytes <= a.bytes - offset;
}

bool touches_device_memory(const void* p, std::size_t bytes) {
  const std::lock_guard lock(device_mutex());
  const auto* const at = static_cast<const std::byte*>(p);
  for (const auto& [begin, a] : allocations())
    if (at < begin + a.bytes && begin < at + bytes) return true;
  return false;
}

open_device_memory::open_device_memory() {
  device_mutex().lock();
  if (opened++ == 0) protect_all(PROT_READ | PROT_WRITE);
}
open_device_memory::~open_device_memory() {
  if (--opened == 0) protect_all(PROT_NONE);
  device_mutex().unlock();
}

}  // namespace headred_emulator
