// Memory and cut of the work of sparse attention, kept from call to call; what a sentence reads of the lists.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <headred/backend/task_runner.hpp>
#include <headred/core/grow_buffer.hpp>
#include <headred/nn/op/attention_forward.hpp>
#include <headred/sparsity/sparse_mask.hpp>

namespace headred {

namespace detail {

/// Which rows of a mask serve the queries of a sentence: query i reads row first + i - blind; the first `blind` queries
/// of a causal sentence with more queries than keys see nothing.
struct sentence_rows {
  index_t first = 0, blind = 0, count = 0;

  sentence_rows(bool causal, index_t queries, index_t keys)
      : first(causal ? std::max<index_t>(0, keys - queries) : 0),
        blind(causal ? std::max<index_t>(0, queries - keys) : 0),
        count(queries - blind) {}
  index_t row(index_t i) const { return first + i - blind; }
};

/// The head of the mask that serves head h.
inline index_t mask_head(const sparse_mask& mask, index_t h) { return mask.heads() == 1 ? 0 : h; }

/// Numbers below `limit` at the beginning of an ascending list.
inline index_t count_below(std::span<const std::int32_t> list, index_t limit) {
  if (list.empty() || list.back() < limit) return static_cast<index_t>(list.size());
  return std::lower_bound(list.begin(), list.end(), limit) - list.begin();
}

}  // namespace detail

/// Scratch memory of sparse attention, the caller's: calls with masks and sentences that were seen before allocate
/// nothing. One call at a time may use it.
template <class T>
class sparse_attention_workspace {
 public:
  /// Bytes held.
  std::size_t bytes() const noexcept {
    std::size_t n =
        gates_.bytes() + tasks_.capacity() * sizeof(detail::attention_task) + offsets_.capacity() * sizeof(index_t);
    for (const auto& buffer : workers_) n += buffer.bytes();
    return n + listed_.rows.bytes() + listed_.dense.bytes() +
           (listed_.queries.capacity() + listed_.keys.capacity()) * sizeof(sequence);
  }

  /// For the kernels: n values for each worker.
  void reserve(int workers, index_t n) {
    if (workers_.size() < static_cast<std::size_t>(workers)) workers_.resize(static_cast<std::size_t>(workers));
    for (auto& buffer : workers_) buffer.get(n);
  }
  T* scratch(int worker) { return workers_[static_cast<std::size_t>(worker)].get(0); }
  T* gates(index_t n) { return gates_.get(n); }
  /// For relevance, which goes to dense attention with a sentence for each query: the keys that it sees.
  struct listed_rows {
    grow_buffer<T> rows;
    std::vector<sequence> queries, keys;
    attention_workspace<T> dense;
  };
  listed_rows& listed() noexcept { return listed_; }

  std::span<const detail::attention_task> tasks() const noexcept { return tasks_; }
  /// Where the probabilities of head h of a sentence begin.
  index_t offset(index_t sentence, index_t h) const {
    return offsets_[static_cast<std::size_t>(sentence * heads_ + h)];
  }
  index_t probabilities() const noexcept { return offsets_.empty() ? 0 : offsets_.back(); }
  /// The most ones that a head of a sentence has.
  index_t most() const noexcept { return most_; }
  /// How many tasks are worth being handed out at once.
  index_t bundle() const noexcept { return bundle_; }

  /// Cuts the work by its own size: never by the number of workers, so that results do not depend on it.
  void cut(const attention_shape& shape, bool causal, std::span<const sequence> queries, std::span<const sequence> keys,
           const sparse_mask& mask, bool cut_rows) {
    constexpr index_t worth = index_t{1} << 16, few = 16, least_rows = 64;
    tasks_.clear();
    offsets_.clear();
    heads_ = shape.heads;
    most_ = 0;
    index_t total = 0, at = 0;
    const index_t units = static_cast<index_t>(queries.size()) * shape.kv_heads;
    for (std::size_t b = 0; b < queries.size(); ++b) {
      const index_t rows = queries[b].length, cols = keys[b].length, before = at;
      const detail::sentence_rows seen(causal, rows, cols);
      for (index_t h = 0; h < shape.heads; ++h) {
        offsets_.push_back(at);
        const index_t head = detail::mask_head(mask, h);
        const index_t n =
            rows == 0 || cols == 0 ? 0 : mask.begin(head, seen.first + seen.count) - mask.begin(head, seen.first);
        most_ = std::max(most_, n);
        at += n;
      }
      if (rows == 0) continue;
      total += (at - before + shape.heads * rows) * (2 * shape.head_size + 8);
      const index_t pieces = cut_rows && units > 0 ? std::max<index_t>(1, few / units) : 1;
      const index_t at_once = std::max(least_rows, (rows + pieces - 1) / pieces);
      for (index_t g = 0; g < shape.kv_heads; ++g)
        for (index_t i = 0; i < rows; i += at_once)
          tasks_.push_back({static_cast<index_t>(b), g, 1, i, std::min(at_once, rows - i)});
    }
    offsets_.push_back(at);
    bundle_ = std::max<index_t>(1, worth * static_cast<index_t>(tasks_.size()) / std::max<index_t>(1, total));
  }

 private:
  std::vector<grow_buffer<T>> workers_;
  grow_buffer<T> gates_;
  listed_rows listed_;
  std::vector<detail::attention_task> tasks_;
  std::vector<index_t> offsets_;
  index_t heads_ = 0, most_ = 0, bundle_ = 1;
};

namespace detail {

/// Throws shape_error or argument_error unless operands and lists fit together.
template <class T>
attention_extent require_sparse_attention(const char* op, const attention_inputs<T>& in, const sparse_mask& mask) {
  const auto extent = require_attention(op, in);
  if (in.mask.values.data() != nullptr || in.bias.data() != nullptr)
    throw argument_error(std::string(op) + ": there is a " + (in.bias.data() != nullptr ? "bias" : "dense mask") +
                         ", expected the lists alone");
  if ((mask.heads() != 1 && mask.heads() != in.shape.heads) || mask.rows() < extent.rows || mask.cols() < extent.cols)
    throw shape_error(std::string(op) + ": the mask is " +
                      shape_text(shape_t<3>{mask.heads(), mask.rows(), mask.cols()}) + ", expected " +
                      shape_text(shape_t<3>{in.shape.heads, extent.rows, extent.cols}) +
                      " at least, or 1 for the heads");
  return extent;
}

/// Runs kernel(task, scratch) for all tasks of the workspace.
template <class T, class Backend, class Kernel>
void run_sparse_attention(Backend& be, sparse_attention_workspace<T>& workspace, index_t scratch,
                          const Kernel& kernel) {
  task_runner<Backend> runner(be);
  workspace.reserve(runner.workers(), scratch);
  const auto tasks = workspace.tasks();
  const index_t n = static_cast<index_t>(tasks.size()), bundle = workspace.bundle();
  runner.run((n + bundle - 1) / bundle, [&](index_t i, int worker) {
    for (index_t t = i * bundle; t < std::min(n, (i + 1) * bundle); ++t)
      kernel(tasks[static_cast<std::size_t>(t)], workspace.scratch(worker));
  });
}

}  // namespace detail
}  // namespace headred
