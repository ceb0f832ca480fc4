// The mean of pair distances over sentences, kept on the device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <headred/core/head_layout.hpp>
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

struct clear_sum {
  std::uint64_t* sums;
  HEADRED_FUNCTION void operator()(index_t i) const { sums[i] = 0; }
};

}  // namespace detail

/// Redundancy matrix of the heads of one attention kind whose maps lie on a device: the mean over sentences of the
/// distance of each pair. The device's counterpart of headred::redundancy, with the same calls and the distances of
/// `rule_of`; sums are exact, any order of sentences gives the same bits. Memory 24 N^2 bytes, N heads, beside what
/// `pairwise` takes; from the second sentence of a length on nothing is allocated. Bian et al. (NAACL 2021), section 3.
template <class Distance, device_backend Backend>
class redundancy {
 public:
  /// The backend must outlive it. Throws shape_error for less than one head, or layers of different numbers of heads.
  redundancy(Backend& be, const head_layout& layout) : backend_(&be), layers_(layout.layers()) {
    const auto& heads = layout.heads_per_layer();
    if (layout.size() < 1 || std::count(heads.begin(), heads.end(), heads.front()) != layers_)
      throw shape_error("redundancy: " + std::to_string(layers_) + " layers with " + std::to_string(layout.size()) +
                        " heads in all, expected the same number of heads in each, at least one");
    heads_ = heads.front();
    const index_t n = layout.size();
    sentence_ = tensor<double, 2, Backend>(be, {n, n});
    sums_ = tensor<std::uint64_t, 3, Backend>(be, {n, n, 2});
    be.for_each(sums_.size(), detail::clear_sum{sums_.data()});
  }
  redundancy(Backend& be, index_t layers, index_t heads) : redundancy(be, head_layout(layers, heads)) {}

  /// Adds one sentence, (L,H,T,S) on the device; false if it has no valid token. What it throws leaves the mean as it
  /// was: errors of `pairwise`, shape_error for another number of layers or heads.
  template <maps_on_device Attention>
  bool add(Attention&& attention, const sentence_options& options = {}) {
    const auto maps = detail::valid_maps(attention, options);
    if (maps.extent(0) != layers_ || maps.extent(1) != heads_)
      throw shape_error("redundancy: attention is " + shape_text(maps.shape()) + ", expected " +
                        std::to_string(layers_) + " layers of " + std::to_string(heads_) + " heads");
    if (maps.empty()) {
      ++skipped_;
      return false;
    }
    device::pairwise(*backend_, maps, Distance{}, sentence_.view(), options.sum_tolerance);
    backend_->for_each(sentence_.size(), detail::add_distances{sentence_.view(), sums_.data()});
    ++sentences_;
    return true;
  }

  /// Sentences in the mean.
  index_t sentences() const noexcept { return sentences_; }
  /// Sentences without a valid token.
  index_t skipped() const noexcept { return skipped_; }

  /// The mean so far, (N,N), on the host. Throws argument_error if no sentence was added.
  headred::matrix matrix() const {
    if (sentences_ == 0) throw argument_error("redundancy: no sentence was added");
    const index_t n = layers_ * heads_;
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
  Backend* backend_;
  index_t layers_ = 0, heads_ = 0, sentences_ = 0, skipped_ = 0;
  tensor<double, 2, Backend> sentence_;
  tensor<std::uint64_t, 3, Backend> sums_;
};

}  // namespace headred::device
