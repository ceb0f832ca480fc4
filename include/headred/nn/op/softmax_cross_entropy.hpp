// softmax_cross_entropy: what a distribution given by logits costs on the true classes.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include <headred/core/number_text.hpp>
#include <headred/nn/op/softmax.hpp>

namespace headred {

namespace detail {

/// Throws unless there is a target for each row, all in [-1, classes), and the smoothing is in [0,1].
inline void require_targets(std::string_view op, std::span<const std::int32_t> targets, index_t rows, index_t classes,
                            double label_smoothing) {
  if (static_cast<index_t>(targets.size()) != rows)
    throw shape_error(std::string(op) + ": " + std::to_string(targets.size()) + " targets, expected " +
                      std::to_string(rows));
  for (std::size_t r = 0; r < targets.size(); ++r)
    if (targets[r] < -1 || targets[r] >= classes)
      throw argument_error(std::string(op) + ": target " + std::to_string(targets[r]) + " of row " + std::to_string(r) +
                           ", expected [0," + std::to_string(classes) + ") or -1 for none");
  if (!(label_smoothing >= 0 && label_smoothing <= 1))
    throw argument_error(std::string(op) + ": the label smoothing is " + number_text(label_smoothing) +
                         ", expected [0,1]");
}

/// Sum of f over the packs of a row, lanes beyond the row read as `fill`; blocks are added up in double.
template <class T, class F>
HEADRED_INLINE double blocked_sum(const T* x, index_t n, T fill, const F& f) {
  constexpr int lanes = native_lanes<T>;
  using vec = pack<T, lanes>;
  constexpr index_t block = 1024;
  double total = 0;
  for (index_t begin = 0; begin < n; begin += block) {
    const index_t end = std::min(n, begin + block);
    vec sum{}, sum2{};
    index_t i = begin;
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      sum += f(load<vec>(x + i));
      sum2 += f(load<vec>(x + i + lanes));
    }
    for (; i + lanes <= end; i += lanes) sum += f(load<vec>(x + i));
    if (i < end) sum2 += f(load_part<vec>(x + i, end - i, fill));
    total += static_cast<double>(lane_total<T, lanes>(sum + sum2));
  }
  return total;
}

}  // namespace detail

/// losses_r = log_sums_r - (1 - e) (x_rt - m_r) - e mean_v (x_rv - m_r), t = targets_r, e = label_smoothing,
/// log_sums_r = ln sum_v e^(x_rv - m_r), m_r the greatest logit of the row, so that large logits cost no digits:
/// cross-entropy with the distribution that gives t the weight 1 - e and spreads e evenly over all classes.
/// logits x : (R,V), targets : (R) in [0,V), or -1 for a row that does not count -> losses, log_sums : (R), in nats;
/// losses are 0 in rows that do not count and infinite where a class that has weight has probability 0. Throws
/// shape_error; argument_error for a target or smoothing out of range, before anything is written.
/// Cost: two passes over the logits. Source: Szegedy et al. 2016, section 7.
template <class T, host_backend Backend>
void softmax_cross_entropy_forward(Backend& be, std::type_identity_t<tensor_view<const T, 2>> logits,
                                   std::span<const std::int32_t> targets, double label_smoothing,
                                   tensor_view<T, 1> losses, std::type_identity_t<tensor_view<T, 1>> log_sums) {
  const index_t rows = logits.extent(0), cols = logits.extent(1);
  detail::require_matrix("softmax_cross_entropy", "logits", logits, rows, cols);
  detail::require_vector("softmax_cross_entropy", "losses", losses, rows);
  detail::require_vector("softmax_cross_entropy", "log_sums", log_sums, rows);
  detail::require_targets("softmax_cross_entropy", targets, rows, cols, label_smoothing);
  detail::for_row_blocks(be, rows, cols, [&](index_t begin, index_t end) {
    using vec = detail::pack<T, native_lanes<T>>;
    constexpr T lowest = -std::numeric_limits<T>::infinity();
    for (index_t r = begin; r < end; ++r) {
      const T* const x = logits.data() + r * logits.stride(0);
      const index_t target = targets[static_cast<std::size_t>(r)];
      if (target < 0) {
        losses.data()[r] = log_sums.data()[r] = T(0);
        continue;
      }
      const T most = detail::greatest(x, cols);
      if (most == lowest) {
        losses.data()[r] = -lowest;
        log_sums.data()[r] = lowest;
        continue;
      }
      const double log_sum = std::log(detail::blocked_sum(
          x, cols, lowest, [most](const vec& v) { return detail::exp_of<native_lanes<T>>(v - most); }));
      double loss = log_sum;
      if (label_smoothing < 1)
        loss -= (1 - label_smoothing) * (static_cast<double>(x[target]) - static_cast<double>(most));
      if (label_smoothing > 0)
        loss -= label_smoothing / static_cast<double>(cols) *
                detail::blocked_sum(x, cols, most, [most](const vec& v) { return v - most; });
      losses.data()[r] = static_cast<T>(loss);
      log_sums.data()[r] = static_cast<T>(log_sum);
    }
  });
}

/// dlogits_rv += row_scale (softmax(x_r)_v - (1 - e) [v = t] - e / V); nothing in rows that do not count.
/// log_sums as softmax_cross_entropy_forward left them; an empty dlogits is not wanted. Throws what it throws.
/// Cost: two passes over the logits, one over dlogits.
template <class T, host_backend Backend>
void softmax_cross_entropy_gradient(Backend& be, std::type_identity_t<tensor_view<const T, 2>> logits,
                                    std::span<const std::int32_t> targets, double label_smoothing,
                                    std::type_identity_t<tensor_view<const T, 1>> log_sums,
                                    std::type_identity_t<T> row_scale, tensor_view<T, 2> dlogits) {
  if (dlogits.data() == nullptr) return;
  const index_t rows = logits.extent(0), cols = logits.extent(1);
  detail::require_matrix("softmax_cross_entropy_gradient", "logits", logits, rows, cols);
  detail::require_vector("softmax_cross_entropy_gradient", "log_sums", log_sums, rows);
  detail::require_matrix("softmax_cross_entropy_gradient", "dlogits", dlogits, rows, cols);
  detail::require_targets("softmax_cross_entropy_gradient", targets, rows, cols, label_smoothing);
  const T even = row_scale * static_cast<T>(label_smoothing / static_cast<double>(std::max<index_t>(1, cols)));
  const T point = row_scale * static_cast<T>(1 - label_smoothing);
  detail::for_row_blocks(be, rows, cols, [&](index_t begin, index_t end) {
    using vec = detail::pack<T, native_lanes<T>>;
    for (index_t r = begin; r < end; ++r) {
      const index_t target = targets[static_cast<std::size_t>(r)];
      if (target < 0) continue;
      const T* const x = logits.data() + r * logits.stride(0);
      T* const dx = dlogits.data() + r * dlogits.stride(0);
      // a row of -infinity has no distribution: its softmax counts as zero
      const T most = detail::greatest(x, cols);
      const bool none = most == -std::numeric_limits<T>::infinity();
      const T shift = none ? T(0) : most, log_sum = none ? T(0) : log_sums.data()[r];
      detail::map_row(
          cols, dx,
          [=](const vec& before, const vec& v) {
            return before + (row_scale * detail::exp_of<native_lanes<T>>((v - shift) - log_sum) - even);
          },
          static_cast<const T*>(dx), x);
      dx[target] -= point;
    }
  });
}

namespace detail {

template <class T, backend Backend>
struct softmax_cross_entropy_node {
  static constexpr const char* name = "softmax_cross_entropy";
  static constexpr bool relevance_by_sweep = true;
  slot logits, total;
  const std::int32_t* targets;
  T* log_sums;
  double label_smoothing;
  T weight;
  void gradient(tape<T, Backend>& t) const {
    if (!t.has_gradient(total)) return;
    const index_t rows = t.rows(logits);
    softmax_cross_entropy_gradient<T>(t.backend(), t.input(logits), {targets, static_cast<std::size_t>(rows)},
                                      label_smoothing, {log_sums, {rows}}, weight * *t.gradient(total).data(),
                                      t.gradient(logits));
  }
  // Relevance starts at logits; a loss above them has none.
  void relevance(tape<T, Backend>& t, relevance_sweep<T, Backend>&) const {
    if (t.has_relevance(total))
      throw argument_error("sweep: softmax_cross_entropy has no relevance, expected a start at the logits");
  }
};

}  // namespace detail

/// What softmax_cross_entropy adds to a tape.
struct cross_entropy_slots {
  slot losses;  ///< (R,1), per row, to look at; its gradient is not used
  slot total;   ///< (1,1), weight times the sum of the losses: seed its gradient
};

/// The loss of a model that gives logits : (R,V), its weight for example one over the number of targets that count. The
/// targets are copied.
template <class T, host_backend Backend>
cross_entropy_slots softmax_cross_entropy(tape<T, Backend>& t, slot logits, std::span<const std::int32_t> targets,
                                          double label_smoothing, std::type_identity_t<T> weight) {
  const index_t rows = t.rows(logits);
  const cross_entropy_slots made{t.add(rows, 1), t.add(1, 1)};
  T* const losses = t.value(made.losses).data();
  T* const log_sums = t.keep(rows);
  softmax_cross_entropy_forward<T>(t.backend(), t.input(logits), targets, label_smoothing, {losses, {rows}},
                                   {log_sums, {rows}});
  double sum = 0;
  for (index_t r = 0; r < rows; ++r) sum += static_cast<double>(losses[r]);
  *t.value(made.total).data() = static_cast<T>(static_cast<double>(weight) * sum);
  if (!t.recording()) return made;
  std::int32_t* const kept = t.template keep<std::int32_t>(rows);
  std::copy(targets.begin(), targets.end(), kept);
  t.record(detail::softmax_cross_entropy_node<T, Backend>{logits, made.total, kept, log_sums, label_smoothing, weight});
  return made;
}

}  // namespace headred
