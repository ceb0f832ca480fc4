// Memory and cut of the work of attention, kept from call to call.
#pragma once

#include <span>
#include <vector>

#include <headred/backend/task_runner.hpp>
#include <headred/core/grow_buffer.hpp>
#include <headred/nn/op/attention_inputs.hpp>

namespace headred {

namespace detail {

/// Some queries of one sentence, in some groups of heads.
struct attention_task {
  index_t sentence = 0;
  index_t group = 0;
  index_t groups = 0;
  index_t row = 0;
  index_t rows = 0;
};

}  // namespace detail

/// Scratch memory of attention, the caller's: calls with sentences that were seen before allocate nothing. One call at a
/// time may use it.
template <class T>
class attention_workspace {
 public:
  /// Bytes held.
  std::size_t bytes() const noexcept {
    std::size_t n = scores_.bytes() + gates_.bytes() + tasks_.capacity() * sizeof(detail::attention_task) +
                    offsets_.capacity() * sizeof(index_t);
    for (const auto& buffer : workers_) n += buffer.bytes();
    return n;
  }

  /// For the kernels: n values for each worker.
  void reserve(int workers, index_t n) {
    if (workers_.size() < static_cast<std::size_t>(workers)) workers_.resize(static_cast<std::size_t>(workers));
    for (auto& buffer : workers_) buffer.get(n);
  }
  T* scratch(int worker) { return workers_[static_cast<std::size_t>(worker)].get(0); }
  T* scores(index_t n) { return scores_.get(n); }
  T* gates(index_t n) { return gates_.get(n); }

  std::span<const detail::attention_task> tasks() const noexcept { return tasks_; }
  /// Where the probabilities of a sentence begin.
  index_t offset(index_t sentence) const { return offsets_[static_cast<std::size_t>(sentence)]; }
  index_t probabilities() const noexcept { return offsets_.empty() ? 0 : offsets_.back(); }
  /// How many tasks are worth being handed out at once.
  index_t bundle() const noexcept { return bundle_; }

  /// Cuts the work by its own size: never by the number of workers, so that results do not depend on it.
  void cut(const attention_shape& shape, std::span<const sequence> queries, std::span<const sequence> keys,
           bool cut_rows) {
    constexpr index_t worth = index_t{1} << 16, large = index_t{1} << 22, rows_at_once = 64;
    tasks_.clear();
    offsets_.assign(1, 0);
    index_t total = 0;
    for (std::size_t b = 0; b < queries.size(); ++b) {
      const index_t rows = queries[b].length, cols = keys[b].length, n = static_cast<index_t>(b);
      offsets_.push_back(offsets_.back() + shape.heads * rows * cols);
      if (rows == 0 || shape.heads == 0) continue;
      const index_t cost = shape.heads / shape.kv_heads * rows * (cols + 1) * (2 * shape.head_size + 8);
      total += cost * shape.kv_heads;
      if (cut_rows && cost > large) {
        for (index_t g = 0; g < shape.kv_heads; ++g)
          for (index_t i = 0; i < rows; i += rows_at_once)
            tasks_.push_back({n, g, 1, i, std::min(rows_at_once, rows - i)});
        continue;
      }
      const index_t groups = std::max<index_t>(1, worth / cost);
      for (index_t g = 0; g < shape.kv_heads; g += groups)
        tasks_.push_back({n, g, std::min(groups, shape.kv_heads - g), 0, rows});
    }
    bundle_ = std::max<index_t>(1, worth * static_cast<index_t>(tasks_.size()) / std::max<index_t>(1, total));
  }

 private:
  std::vector<grow_buffer<T>> workers_;
  grow_buffer<T> scores_, gates_;
  std::vector<detail::attention_task> tasks_;
  std::vector<index_t> offsets_;
  index_t bundle_ = 1;
};

namespace detail {

/// Runs kernel(task, offset, scratch) for all tasks of the workspace.
template <class T, class Backend, class Kernel>
void run_attention(Backend& be, attention_workspace<T>& workspace, index_t scratch, const Kernel& kernel) {
  task_runner<Backend> runner(be);
  workspace.reserve(runner.workers(), scratch);
  const auto tasks = workspace.tasks();
  const index_t n = static_cast<index_t>(tasks.size()), bundle = workspace.bundle();
  runner.run((n + bundle - 1) / bundle, [&](index_t i, int worker) {
    for (index_t t = i * bundle; t < std::min(n, (i + 1) * bundle); ++t) {
      const attention_task& task = tasks[static_cast<std::size_t>(t)];
      kernel(task, workspace.offset(task.sentence), workspace.scratch(worker));
    }
  });
}

}  // namespace detail
}  // namespace headred
