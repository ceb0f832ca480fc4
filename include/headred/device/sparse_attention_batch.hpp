// The ones of a binary attention mask as lists in a device's memory, and where the sentences of a batch meet them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <headred/device/attention.hpp>

namespace headred::device {
namespace detail {

/// What the kernels see: sparsity/sparse_mask.hpp says what the lists hold.
struct sparse_table {
  const index_t *row_begin, *col_begin;  // (heads, rows) + 1, (heads, cols) + 1
  const std::int32_t *keys, *queries, *places;
  index_t heads, rows, cols;  // of the mask
  const index_t* offsets;     // (sentences, attention heads): of the probabilities
  index_t attention_heads;
  bool causal;

  HEADRED_FUNCTION static index_t count_below(const std::int32_t* list, index_t n, index_t limit) {
    index_t low = 0, high = n;
    while (low < high) {
      const index_t middle = (low + high) / 2;
      if (list[middle] < limit)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
  /// Row `first` of the mask is that of query `blind` of a sentence; those before see nothing.
  HEADRED_FUNCTION index_t first(const attention_sentence& s) const {
    return causal && s.queries < s.keys ? s.keys - s.queries : 0;
  }
  HEADRED_FUNCTION index_t blind(const attention_sentence& s) const {
    return causal && s.keys < s.queries ? s.queries - s.keys : 0;
  }
  /// Where the rows, or columns, of head h begin.
  HEADRED_FUNCTION const index_t* of_head(const index_t* begin, index_t h, index_t each) const {
    return begin + (heads == 1 ? 0 : h * each);
  }

  /// Some ones: of a query the keys, of a key the mask's rows and their places among the ones of the head.
  struct list {
    const std::int32_t *numbers, *places;
    index_t count;
    index_t offset;  // of the first probability; of a key to be added to its places
  };
  /// What query i of a sentence, number n of the table, sees in head h.
  HEADRED_FUNCTION list seen(const attention_sentence& s, index_t n, index_t h, index_t i) const {
    if (s.keys == 0 || i < blind(s)) return {keys, nullptr, 0, 0};
    const index_t row = first(s) + i - blind(s), *const begin = of_head(row_begin, h, rows);
    const std::int32_t* const own = keys + begin[row];
    return {own, nullptr, count_below(own, begin[row + 1] - begin[row], causal ? row + 1 : s.keys),
            offsets[n * attention_heads + h] + begin[row] - begin[first(s)]};
  }
  /// Which rows see key j of that sentence in head h.
  HEADRED_FUNCTION list seeing(const attention_sentence& s, index_t n, index_t h, index_t j) const {
    const index_t *const begin = of_head(col_begin, h, cols), *const of_rows = of_head(row_begin, h, rows);
    const index_t from = first(s), end = from + s.queries - blind(s), all = begin[j + 1] - begin[j];
    const std::int32_t* const own = queries + begin[j];
    const index_t skip = count_below(own, all, causal && from < j ? j : from);
    return {own + skip, places + begin[j] + skip, count_below(own, all, end) - skip,
            offsets[n * attention_heads + h] + of_rows[0] - of_rows[from]};
  }
};

}  // namespace detail

/// A batch of sentences under a fixed mask, for sparse_attention_forward and its gradient: made once for a batch and a
/// mask, used by each layer with as many heads.
template <device_backend Backend>
class sparse_attention_batch {
 public:
  /// Takes the lists of a mask (heads or 1, T, S): a headred::sparse_mask, which lies on the host, or what has its
  /// functions. `batch` must outlive this object, and stay as it is. Throws shape_error for a mask that is too small.
  /// Cost: one upload of 12 bytes a one.
  template <class Mask>
  sparse_attention_batch(Backend& be, const attention_batch<Backend>& batch, const Mask& mask, index_t heads,
                         bool causal)
      : batch_(&batch) {
    const index_t rows = causal ? batch.greatest_keys() : batch.greatest_queries();
    if ((mask.heads() != 1 && mask.heads() != heads) || mask.rows() < rows || mask.cols() < batch.greatest_keys())
      throw shape_error("sparse_attention_batch: the mask is " +
                        shape_text(shape_t<3>{mask.heads(), mask.rows(), mask.cols()}) + ", expected " +
                        shape_text(shape_t<3>{heads, rows, batch.greatest_keys()}) + " at least, or 1 for the heads");
    std::vector<index_t> row_begin, col_begin{0};
    std::vector<std::int32_t> keys, queries, places;
    const auto append = [](auto& to, std::span<const std::int32_t> more) {
      to.insert(to.end(), more.begin(), more.end());
    };
    for (index_t h = 0; h < mask.heads(); ++h) {
      for (index_t i = 0; i < mask.rows(); ++i) {
        row_begin.push_back(static_cast<index_t>(keys.size()));
        append(keys, mask.keys(h, i));
      }
      for (index_t j = 0; j < mask.cols(); ++j) {
        const auto column = mask.seen_by(h, j);
        append(queries, column.rows);
        append(places, column.places);
        col_begin.push_back(static_cast<index_t>(queries.size()));
      }
    }
    row_begin.push_back(static_cast<index_t>(keys.size()));
    table_ = {nullptr,     nullptr,     nullptr, nullptr, nullptr, mask.heads(),
              mask.rows(), mask.cols(), nullptr, heads,   causal};
    std::vector<index_t> offsets;
    for (const detail::attention_sentence& s : batch.sentences_on_host())
      for (index_t h = 0; h < heads; ++h) {
        offsets.push_back(probabilities_);
        if (s.keys == 0) continue;
        const index_t* const begin = table_.of_head(row_begin.data(), h, mask.rows());
        const index_t first = table_.first(s);
        probabilities_ += begin[first + s.queries - table_.blind(s)] - begin[first];
      }
    const auto put = [&](auto& to, const auto& from) {
      using element = typename std::remove_cvref_t<decltype(from)>::value_type;
      to = tensor<element, 1, Backend>(be, {static_cast<index_t>(from.size())});
      if (!from.empty()) be.upload(to.data(), from.data(), from.size() * sizeof(element));
      return to.data();
    };
    table_.row_begin = put(row_begin_, row_begin);
    table_.col_begin = put(col_begin_, col_begin);
    table_.keys = put(keys_, keys);
    table_.queries = put(queries_, queries);
    table_.places = put(places_, places);
    table_.offsets = put(offsets_, offsets);
  }

  const attention_batch<Backend>& batch() const noexcept { return *batch_; }
  index_t heads() const noexcept { return table_.attention_heads; }
  bool causal() const noexcept { return table_.causal; }
  /// How many probabilities are kept: one sentence after the other, head after head, query after query, each as many as
  /// its row of the mask has ones. Ones that a sentence does not reach have room.
  index_t probability_count() const noexcept { return probabilities_; }
  /// For the kernels.
  const detail::sparse_table& table() const noexcept { return table_; }

 private:
  const attention_batch<Backend>* batch_;
  tensor<index_t, 1, Backend> row_begin_, col_begin_, offsets_;
  tensor<std::int32_t, 1, Backend> keys_, queries_, places_;
  detail::sparse_table table_{};
  index_t probabilities_ = 0;
};

}  // namespace headred::device
