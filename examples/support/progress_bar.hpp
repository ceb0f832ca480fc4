// A progress bar with rate and time left; silent unless standard error is a terminal.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

#if __has_include(<unistd.h>)
#include <unistd.h>
#endif

namespace examples {

class progress_bar {
 public:
  progress_bar(std::string what, long total) : what_(std::move(what)), total_(total) {
#if __has_include(<unistd.h>)
    shown_ = total > 0 && isatty(STDERR_FILENO) != 0;
#endif
    advance(0);
  }
  ~progress_bar() {
    if (shown_) std::fputs("\r\033[K", stderr);
  }
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;

  void advance(long done) {
    const auto now = clock::now();
    if (!shown_ || (done > 0 && now - last_ < std::chrono::milliseconds(100))) return;
    last_ = now;
    const auto filled = static_cast<std::size_t>(std::clamp(30.0 * double(done) / double(total_), 0., 30.));
    std::fprintf(stderr, "\r\033[K%s [%s%s] %ld/%ld", what_.c_str(), std::string(filled, '#').c_str(),
                 std::string(30 - filled, '.').c_str(), done, total_);
    const double seconds = std::chrono::duration<double>(now - start_).count();
    if (done > 0 && seconds > 0) {
      const double rate = double(done) / seconds;
      std::fprintf(stderr, ", %.3g/s, %.0f s left", rate, double(total_ - done) / rate);
    }
    std::fflush(stderr);
  }

 private:
  using clock = std::chrono::steady_clock;
  std::string what_;
  long total_;
  bool shown_ = false;
  clock::time_point start_ = clock::now(), last_ = start_;
};

}  // namespace examples
