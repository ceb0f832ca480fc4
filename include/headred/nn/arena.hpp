// arena: memory of a backend handed out in order and taken back at once, so that a steady state allocates nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <headred/backend/tensor.hpp>

namespace headred {

/// Bump allocator on the memory of a backend, which must outlive it. What `take` returns stays valid until `clear`, or
/// until `rewind` to a mark made before it. After `clear` all memory is one piece, so that the same demands in the same
/// order are then met without an allocation. Throws std::bad_alloc (or the backend's own error) when memory is short.
template <backend Backend>
class arena {
 public:
  /// A place to rewind to.
  struct mark {
    std::size_t chunk = 0;
    std::size_t used = 0;
  };

  explicit arena(Backend& be) : backend_(&be) {}

  /// Uninitialised memory for n values, aligned to 64 bytes; nullptr for n = 0.
  template <class T>
  T* take(index_t n) {
    if (n < 0 || n > limit / static_cast<index_t>(sizeof(T))) throw shape_error("arena: the size overflows");
    if (n == 0) return nullptr;
    const std::size_t bytes = (static_cast<std::size_t>(n) * sizeof(T) + 63) / 64 * 64;
    while (position_.chunk < chunks_.size() && room() < bytes) position_ = {position_.chunk + 1, 0};
    if (position_.chunk == chunks_.size()) {
      const index_t size = static_cast<index_t>(std::max(bytes, std::max(least, this->bytes())));
      chunks_.emplace_back(*backend_, shape_t<1>{size});
    }
    std::byte* const p = chunks_[position_.chunk].data() + position_.used;
    position_.used += bytes;
    return reinterpret_cast<T*>(p);
  }

  /// Where the memory stands.
  mark here() const noexcept { return position_; }
  /// Gives back what was taken since.
  void rewind(mark to) noexcept { position_ = to; }

  /// Takes all memory back.
  void clear() {
    if (chunks_.size() > 1) {
      const index_t all = static_cast<index_t>(bytes());
      chunks_.clear();
      chunks_.emplace_back(*backend_, shape_t<1>{all});
    }
    position_ = {};
  }

  /// Bytes held from the backend.
  std::size_t bytes() const noexcept {
    std::size_t n = 0;
    for (const auto& chunk : chunks_) n += chunk.bytes();
    return n;
  }

 private:
  static constexpr index_t limit = index_t{1} << 46;
  static constexpr std::size_t least = std::size_t{1} << 20;

  std::size_t room() const noexcept { return chunks_[position_.chunk].bytes() - position_.used; }

  Backend* backend_;
  std::vector<tensor<std::byte, 1, Backend>> chunks_;
  mark position_;
};

}  // namespace headred
