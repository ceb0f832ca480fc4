// progress: how fast training goes and how long it will take.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>

#include <headred/core/config.hpp>

namespace headred {

/// Plain values for whoever shows them.
struct progress_values {
  index_t step = 0;
  index_t steps = 0;             ///< in all; 0 if that is not known
  double seconds = 0;            ///< since the beginning
  double tokens_per_second = 0;  ///< lately
  double seconds_left = 0;       ///< at the present speed; 0 if the end is not known
};

/// Watches a run. Speed is a running mean in which a step counts half after `memory` further ones.
class progress {
 public:
  using clock = std::chrono::steady_clock;

  /// `first` steps were taken before (a resumed run).
  explicit progress(index_t steps, index_t first = 0, clock::time_point now = clock::now(), double memory = 20)
      : keep_(std::exp2(-1 / (memory > 0 ? memory : 1))), begin_(now), last_(now) {
    values_.steps = steps;
    values_.step = first;
  }

  /// A step is done.
  const progress_values& add(index_t tokens, clock::time_point now = clock::now()) {
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    ++values_.step;
    tokens_ = keep_ * tokens_ + static_cast<double>(tokens);
    time_ = keep_ * time_ + seconds;
    count_ = keep_ * count_ + 1;
    values_.seconds = std::chrono::duration<double>(now - begin_).count();
    values_.tokens_per_second = time_ > 0 ? tokens_ / time_ : 0;
    const index_t left = values_.steps - values_.step;
    values_.seconds_left = left > 0 ? static_cast<double>(left) * time_ / count_ : 0;
    return values_;
  }
  const progress_values& values() const noexcept { return values_; }

 private:
  double keep_;
  clock::time_point begin_, last_;
  double tokens_ = 0, time_ = 0, count_ = 0;
  progress_values values_;
};

/// "1:05:09", "4:07": hours only where there are any.
inline std::string duration_text(double seconds) {
  const auto whole = seconds > 0 ? static_cast<long long>(std::min(seconds + .5, 1e15)) : 0;
  char text[48];
  if (whole >= 3600)
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  else
    std::snprintf(text, sizeof text, "%lld:%02lld", whole / 60, whole % 60);
  return text;
}

/// "step 120/1000  loss 3.4120  rate 7.1e-04  10.4 k tokens/s  0:48 left".
inline std::string progress_line(const progress_values& p, double loss, double learning_rate) {
  char text[160];
  const bool known = p.steps > 0;
  std::string line = "step " + std::to_string(p.step) + (known ? "/" + std::to_string(p.steps) : std::string());
  const bool thousands = p.tokens_per_second >= 1000;
  std::snprintf(text, sizeof text, "  loss %.4f  rate %.1e  %.*f%s tokens/s", loss, learning_rate, thousands ? 1 : 0,
                thousands ? p.tokens_per_second / 1000 : p.tokens_per_second, thousands ? " k" : "");
  line += text;
  if (known) line += "  " + duration_text(p.seconds_left) + " left";
  return line;
}

}  // namespace headred
