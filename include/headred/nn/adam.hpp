// adam: Adam and AdamW over a list of parameters.
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <headred/backend/task_runner.hpp>
#include <headred/core/number_text.hpp>
#include <headred/nn/parameter_list.hpp>
#include <headred/simd/partial_pack.hpp>
#include <headred/simd/square_root.hpp>

namespace headred {

/// Settings of Adam and AdamW; the names are those of Kingma & Ba (2015).
struct adam_options {
  double beta1 = .9, beta2 = .999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  ///< AdamW: weights shrink by learning_rate weight_decay, the moments do not see it
  friend bool operator==(const adam_options&, const adam_options&) = default;
};

/// Parameters that are treated differently; each parameter belongs to the first group that holds its name.
struct adam_group {
  std::function<bool(const std::string& name)> holds;
  std::optional<double> weight_decay = {};   ///< instead of the options'
  double rate_factor = 1;                    ///< multiplies the learning rate of a step
  std::optional<double> learning_rate = {};  ///< instead of the step's
};

namespace detail {

/// What one step multiplies with, as PyTorch computes it: in double, then rounded.
template <class T>
struct adam_factors {
  T scale;         // of the gradient
  T decay;         // coupled: added times the weight
  T shrink;        // decoupled: 1 - rate decay
  T rest1;         // 1 - beta1
  T beta2, rest2;  // beta2, 1 - beta2
  T root;          // 1 / sqrt(1 - beta2^t)
  T epsilon;
  T step;  // rate / (1 - beta1^t)
};

template <class T, class Value, class Root>
HEADRED_INLINE void adam_update(const adam_factors<T>& f, Value& w, const Value& gradient, Value& m, Value& v,
                                const Root& root) {
  w = w * f.shrink;
  const Value g = gradient * f.scale + w * f.decay;
  m += (g - m) * f.rest1;
  v = v * f.beta2 + (g * g) * f.rest2;
  w -= (m * f.step) / (root(v) * f.root + f.epsilon);
}

/// One step on n entries; every entry goes through the same instructions wherever it stands.
template <bool Clear, class T>
void adam_block(const adam_factors<T>& f, index_t n, T* w, T* g, T* m, T* v) {
  constexpr int lanes = native_lanes<T>;
  using vec = pack<T, lanes>;
  const auto root = [](const vec& x) { return square_root<T, lanes>(x); };
  index_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    vec weight = load<vec>(w + i), first = load<vec>(m + i), second = load<vec>(v + i);
    adam_update(f, weight, load<vec>(g + i), first, second, root);
    store(w + i, weight);
    store(m + i, first);
    store(v + i, second);
    if constexpr (Clear) store(g + i, vec{});
  }
  if (i < n) {
    const index_t rest = n - i;
    vec weight = load_part<vec>(w + i, rest, T(0)), first = load_part<vec>(m + i, rest, T(0)),
        second = load_part<vec>(v + i, rest, T(0));
    adam_update(f, weight, load_part<vec>(g + i, rest, T(0)), first, second, root);
    store_part(w + i, weight, rest);
    store_part(m + i, first, rest);
    store_part(v + i, second, rest);
    if constexpr (Clear) store_part(g + i, vec{}, rest);
  }
}

template <class T>
struct adam_entry {
  adam_factors<T> factors;
  T *w, *g, *m, *v;
  bool clear;
  HEADRED_FUNCTION void operator()(index_t i) const {
    adam_update(factors, w[i], g[i], m[i], v[i], [](T x) { return std::sqrt(x); });
    if (clear) g[i] = T(0);
  }
};
template <class T>
struct zero_entry {
  T* x;
  HEADRED_FUNCTION void operator()(index_t i) const { x[i] = T(0); }
};

}  // namespace detail

/// Adam (Kingma & Ba 2015) and AdamW (Loshchilov & Hutter 2019), step for step as torch.optim.Adam and AdamW:
///   m += (1 - beta1) (g - m),  v = beta2 v + (1 - beta2) g^2,
///   w -= rate / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon),
/// with g + decay w instead of g (Adam), or w (1 - rate decay) before the step (AdamW).
/// The backend and the parameters must outlive it. Memory: two values for each trained one; a step allocates nothing.
template <class T, backend Backend>
class adam {
 public:
  /// Throws argument_error for an option out of range and for an empty list.
  adam(Backend& be, parameter_list<T, Backend> parameters, adam_options options = {},
       const std::vector<adam_group>& groups = {})
      : backend_(&be), parameters_(std::move(parameters)), options_(options) {
    require(options_.beta1 >= 0 && options_.beta1 < 1, "beta1", options_.beta1, "[0,1)");
    require(options_.beta2 >= 0 && options_.beta2 < 1, "beta2", options_.beta2, "[0,1)");
    require(options_.epsilon >= 0 && std::isfinite(options_.epsilon), "epsilon", options_.epsilon, "at least 0");
    if (parameters_.empty()) throw argument_error("adam: no parameter is trained, expected at least 1");
    for (const auto& group : groups)
      settings_.push_back({group.weight_decay.value_or(options_.weight_decay), group.rate_factor, group.learning_rate});
    settings_.push_back({options_.weight_decay, 1, {}});
    for (const auto& s : settings_) {
      require(s.decay >= 0 && std::isfinite(s.decay), "weight_decay", s.decay, "at least 0");
      require(s.factor >= 0 && std::isfinite(s.factor), "rate_factor", s.factor, "at least 0");
      if (s.rate) require(*s.rate >= 0 && std::isfinite(*s.rate), "learning_rate", *s.rate, "at least 0");
    }
    factors_.resize(settings_.size());
    index_t place = 0;
    for (const auto& p : parameters_) {
      std::size_t g = 0;
      while (g < groups.size() && !(groups[g].holds && groups[g].holds(p.name))) ++g;
      group_of_.push_back(g);
      ++settings_[g].members;
      places_.push_back(place);
      place += (p.size + 15) / 16 * 16;
    }
    for (auto* moments : {&first_, &second_}) {
      *moments = tensor<T, 1, Backend>(be, {place});
      if constexpr (!host_backend<Backend>) be.for_each(place, detail::zero_entry<T>{moments->data()});
    }
  }

  /// One step down gradient_scale times the gradients, which are then set to zero if `clear` says so. Throws
  /// argument_error for a rate below 0 or one that is not finite, before anything is changed.
  void step(double learning_rate, double gradient_scale = 1, bool clear = false) {
    require(learning_rate >= 0 && std::isfinite(learning_rate), "learning_rate", learning_rate, "at least 0");
    ++steps_;
    for (std::size_t g = 0; g < settings_.size(); ++g)
      factors_[g] = factors(settings_[g], learning_rate, gradient_scale);
    if constexpr (host_backend<Backend>) {
      const auto blocks = parameters_.blocks();
      task_runner<Backend>(*backend_).run(static_cast<index_t>(blocks.size()), [&](index_t task, int) {
        const parameter_block& b = blocks[static_cast<std::size_t>(task)];
        const auto& p = parameters_[b.parameter];
        const index_t at = places_[static_cast<std::size_t>(b.parameter)] + b.begin;
        const auto run = clear ? detail::adam_block<true, T> : detail::adam_block<false, T>;
        run(factors_[group_of_[static_cast<std::size_t>(b.parameter)]], b.size, p.value + b.begin, p.gradient + b.begin,
            first_.data() + at, second_.data() + at);
      });
    } else {
      for (index_t i = 0; i < parameters_.size(); ++i) {
        const auto& p = parameters_[i];
        const index_t at = places_[static_cast<std::size_t>(i)];
        backend_->for_each(p.size, detail::adam_entry<T>{factors_[group_of_[static_cast<std::size_t>(i)]], p.value,
                                                         p.gradient, first_.data() + at, second_.data() + at, clear});
      }
    }
  }

  Backend& backend() const noexcept { return *backend_; }
  const parameter_list<T, Backend>& parameters() const noexcept { return parameters_; }
  const adam_options& options() const noexcept { return options_; }
  /// Steps taken.
  index_t steps() const noexcept { return steps_; }
  /// Goes on from a checkpoint. Throws argument_error for a negative number.
  void set_steps(index_t steps) {
    if (steps < 0) throw argument_error("adam: " + std::to_string(steps) + " steps, expected at least 0");
    steps_ = steps;
  }

  /// f(name, values : (n)) for each tensor of state, for checkpoints: "moment1.NAME" and "moment2.NAME".
  template <class Visitor>
  void visit_state(Visitor&& f) {
    for (index_t i = 0; i < parameters_.size(); ++i) {
      const auto& p = parameters_[i];
      const index_t at = places_[static_cast<std::size_t>(i)];
      using view = tensor_view<T, 1, typename Backend::space>;
      f("moment1." + p.name, view(first_.data() + at, {p.size}));
      f("moment2." + p.name, view(second_.data() + at, {p.size}));
    }
  }

  /// All settings in one line: two optimisers with the same text take the same steps.
  std::string description() const {
    std::string text = options_.decoupled ? "adamw" : "adam";
    text += " beta1 " + number_text(options_.beta1) + " beta2 " + number_text(options_.beta2) + " epsilon " +
            number_text(options_.epsilon);
    for (const auto& s : settings_) {
      if (s.members == 0) continue;
      text += ", " + std::to_string(s.members) + (s.members == 1 ? " parameter" : " parameters") + ": weight_decay " +
              number_text(s.decay);
      if (s.rate)
        text += " learning_rate " + number_text(*s.rate);
      else if (s.factor != 1)
        text += " rate_factor " + number_text(s.factor);
    }
    return text;
  }

 private:
  struct setting {
    double decay = 0, factor = 1;
    std::optional<double> rate;
    index_t members = 0;
  };

  static void require(bool right, const char* name, double value, const char* expected) {
    if (!right)
      throw argument_error(std::string("adam: ") + name + " is " + number_text(value) + ", expected " + expected);
  }

  detail::adam_factors<T> factors(const setting& s, double learning_rate, double gradient_scale) const {
    const double rate = s.rate ? *s.rate : learning_rate * s.factor;
    const double t = static_cast<double>(steps_);
    return {static_cast<T>(gradient_scale),
            static_cast<T>(options_.decoupled ? 0 : s.decay),
            static_cast<T>(options_.decoupled ? 1 - rate * s.decay : 1),
            static_cast<T>(1 - options_.beta1),
            static_cast<T>(options_.beta2),
            static_cast<T>(1 - options_.beta2),
            static_cast<T>(1 / std::sqrt(1 - std::pow(options_.beta2, t))),
            static_cast<T>(options_.epsilon),
            static_cast<T>(rate / (1 - std::pow(options_.beta1, t)))};
  }

  Backend* backend_;
  parameter_list<T, Backend> parameters_;
  adam_options options_;
  std::vector<setting> settings_;
  std::vector<detail::adam_factors<T>> factors_;
  std::vector<std::size_t> group_of_;
  std::vector<index_t> places_;
  tensor<T, 1, Backend> first_, second_;
  index_t steps_ = 0;
};

}  // namespace headred
