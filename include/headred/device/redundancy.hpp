// The mean of pair distances over sentences, kept on the device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <headred/core/head_layout.hpp>
#include <headred/device/any_redundancy.hpp>
#include <headred/device/pairwise.hpp>

namespace headred::device {
namespace detail {

/// sums += distances, as 128-bit numbers with 96 bits after the point: exact, so that the order of sentences does not
/// show.
struct add_distances {
  tensor_view<const double, 2, device_space> distances;
  std::uint64_t* sums;  // (N,N,2): high, low
  HEADRED_FUNCTION void operator()(index_t at) const {
    const index_t n = distances.extent(1);
    const double shifted = distances(at / n, at % n) * 0x1p32;
    const auto high = static_cast<std::uint64_t>(shifted);
    const auto low = static_cast<std::uint64_t>((shifted - static_cast<double>(high)) * 0x1p64);
    sums[2 * at + 1] += low;
    sums[2 * at] += high + (sums[2 * at + 1] < low ? 1 : 0);
  }
};

/// The 128-bit sums of another accumulator are added.
struct add_sums {
  const std::uint64_t* from;
  std::uint64_t* sums;
  HEADRED_FUNCTION void operator()(index_t at) const {
    const std::uint64_t low = from[2 * at + 1];
    sums[2 * at + 1] += low;
    sums[2 * at] += from[2 * at] + (sums[2 * at + 1] < low ? 1 : 0);
  }
};

struct clear_sum {
  std::uint64_t* sums;
  HEADRED_FUNCTION void operator()(index_t i) const { sums[i] = 0; }
};

}  // namespace detail
}  // namespace headred::device

namespace headred {

/// Redundancy matrix of the heads of one attention kind whose maps lie on a device: the mean over sentences of the
/// distance of each pair, with the calls of the accumulator for host backends (distance/redundancy.hpp):
///   add(attention)                  one sentence (L,H,T,S) on the device
///   add_batch(attention, lengths)   (B,L,H,T,S), padded
///   merge(other)                    exact: any order or split gives the same bits
///   matrix()                        (N,N) on the host, in [0,1], diagonal 0
/// Distances as of device::pairwise. Memory 24 N^2 bytes, N heads, beside what `pairwise` takes; from the second
/// sentence of a length on nothing is allocated. Bian et al. (NAACL 2021), section 3.
template <class Distance, device_backend Backend>
class redundancy<Distance, Backend, fixed_sum> {
 public:
  /// The backend must outlive it. Throws shape_error for less than one head, or layers of different numbers of heads.
  redundancy(Backend& be, head_layout layout, Distance distance = {})
      : backend_(&be), layout_(std::move(layout)), distance_(std::move(distance)) {
    const auto& heads = layout_.heads_per_layer();
    const index_t n = layout_.size();
    if (n < 1 || std::count(heads.begin(), heads.end(), heads.front()) != layout_.layers())
      throw shape_error("redundancy: " + std::to_string(layout_.layers()) + " layers with " + std::to_string(n) +
                        " heads in all, expected the same number of heads in each, at least one");
    sentence_ = tensor<double, 2, Backend>(be, {n, n});
    sums_ = tensor<std::uint64_t, 3, Backend>(be, {n, n, 2});
    be.for_each(sums_.size(), device::detail::clear_sum{sums_.data()});
  }
  redundancy(Backend& be, index_t layers, index_t heads) : redundancy(be, head_layout(layers, heads)) {}

  const head_layout& layout() const noexcept { return layout_; }
  const Distance& distance() const noexcept { return distance_; }
  /// Sentences in the mean.
  index_t sentences() const noexcept { return sentences_; }
  /// Sentences without a valid token, or with fewer than the distance needs.
  index_t skipped() const noexcept { return skipped_; }

  /// Adds one sentence, (L,H,T,S) on the device; false if it was skipped. What it throws leaves the mean as it was:
  /// errors of `pairwise`, shape_error for another number of layers or heads.
  template <device::maps_on_device Attention>
  bool add(Attention&& attention, const device::sentence_options& options = {}) {
    const auto maps = device::detail::valid_maps(attention, options);
    const index_t layers = layout_.layers(), heads = layout_.size() / layers;
    if (maps.extent(0) != layers || maps.extent(1) != heads)
      throw shape_error("redundancy: attention is " + shape_text(maps.shape()) + ", expected " +
                        std::to_string(layers) + " layers of " + std::to_string(heads) + " heads");
    if (maps.empty() || maps.extent(2) < device::detail::least_tokens(distance_)) {
      ++skipped_;
      return false;
    }
    device::pairwise(*backend_, maps, distance_, sentence_.view(), options.sum_tolerance);
    backend_->for_each(sentence_.size(), device::detail::add_distances{sentence_.view(), sums_.data()});
    ++sentences_;
    return true;
  }

  /// Adds B sentences (B,L,H,T,S) of lengths[b] valid tokens each (empty: all). Returns how many were not skipped.
  template <class T>
  index_t add_batch(tensor_view<T, 5, device_space> attention, std::span<const index_t> lengths = {},
                    const device::sentence_options& options = {}) {
    if (!lengths.empty() && static_cast<index_t>(lengths.size()) != attention.extent(0))
      throw shape_error("redundancy: " + std::to_string(lengths.size()) + " lengths for a batch " +
                        shape_text(attention.shape()));
    index_t added = 0;
    for (index_t b = 0; b < attention.extent(0); ++b) {
      device::sentence_options one = options;
      if (!lengths.empty()) one.length = lengths[static_cast<std::size_t>(b)];
      added += add(attention[b], one) ? 1 : 0;
    }
    return added;
  }

  /// Adds what another accumulator of the same distance, layout and device has seen. Throws argument_error for another
  /// layout or distance, and above 2^32 sentences.
  void merge(const redundancy& other) {
    if (other.layout_ != layout_) throw argument_error("redundancy: merge of accumulators with different layouts");
    if constexpr (requires { distance_.unbiased; }) {
      if (other.distance_.unbiased != distance_.unbiased)
        throw argument_error("redundancy: merge of accumulators with different distances");
    }
    constexpr index_t most = index_t{1} << 32;  // what the sums hold
    if (sentences_ > most - other.sentences_ || skipped_ > most - other.skipped_)
      throw argument_error("redundancy: merge to more than 2^32 sentences");
    other.backend_->synchronize();
    backend_->for_each(sentence_.size(), device::detail::add_sums{other.sums_.data(), sums_.data()});
    if (other.backend_ != backend_) backend_->synchronize();  // the other's next sentence is added on its own stream
    sentences_ += other.sentences_;
    skipped_ += other.skipped_;
  }

  /// Distances of the sentence added last, (N,N), on the host. Throws argument_error if no sentence was added.
  headred::matrix last() const {
    require_a_sentence();
    headred::matrix one(sentence_.extent(0), sentence_.extent(1));
    backend_->download(one.data(), sentence_.data(), sentence_.bytes());
    return one;
  }

  /// The mean so far, (N,N), on the host. Throws argument_error if no sentence was added.
  headred::matrix matrix() const {
    require_a_sentence();
    const index_t n = layout_.size();
    std::vector<std::uint64_t> sums(static_cast<std::size_t>(sums_.size()));
    backend_->download(sums.data(), sums_.data(), sums_.bytes());
    headred::matrix mean(n, n);
    for (index_t i = 0; i < n * n; ++i) {
      const auto at = static_cast<std::size_t>(2 * i);
      mean.data()[i] = (static_cast<double>(sums[at]) * 0x1p-32 + static_cast<double>(sums[at + 1]) * 0x1p-96) /
                       static_cast<double>(sentences_);
    }
    return mean;
  }

 private:
  void require_a_sentence() const {
    if (sentences_ == 0) throw argument_error("redundancy: no sentence was added");
  }

  Backend* backend_;
  head_layout layout_;
  Distance distance_;
  index_t sentences_ = 0, skipped_ = 0;
  tensor<double, 2, Backend> sentence_;
  tensor<std::uint64_t, 3, Backend> sums_;
};

template <class Distance, device_backend Backend>
redundancy(Backend&, head_layout, Distance) -> redundancy<Distance, Backend>;

namespace device {

/// The accumulator of a device, by the name it has had in this namespace.
template <class Distance, device_backend Backend>
using redundancy = headred::redundancy<Distance, Backend>;

}  // namespace device
}  // namespace headred
