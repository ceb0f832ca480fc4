// A progress bar with rate and time left; silent unless standard error is a terminal.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#if __has_include(<unistd.h>)
#include <unistd.h>
#endif

namespace examples {

class progress_bar {
 public:
  progress_bar(std::string what, long total) : what_(std::move(what)), total_(total) {
#if __has_include(<unistd.h>)
    shown_ = isatty(STDERR_FILENO) != 0;
#endif
  }
  ~progress_bar() {
    if (drawn_) std::fputs("\r\033[K", stderr);
  }
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;

  void advance(long done) {
    const auto now = clock::now();
    if (!shown_ || (drawn_ && now - last_ < std::chrono::milliseconds(100))) return;
    last_ = now;
    drawn_ = true;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
    const double left = rate > 0 ? static_cast<double>(total_ - done) / rate : 0;
    const int filled = total_ > 0 ? static_cast<int>(30 * done / total_) : 0;
    const std::string bar = std::string(static_cast<std::size_t>(filled), '#') + std::string(static_cast<std::size_t>(30 - filled), '.');
    std::fprintf(stderr, "\r\033[K%s [%s] %ld/%ld, %.1f/s, %.0f s left", what_.c_str(), bar.c_str(), done, total_, rate, left);
    std::fflush(stderr);
  }

 private:
  using clock = std::chrono::steady_clock;
  std::string what_;
  long total_;
  bool shown_ = false, drawn_ = false;
  clock::time_point start_ = clock::now(), last_ = start_;
};

}  // namespace examples
