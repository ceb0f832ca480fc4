// One line that is written over and over; silent unless standard error is a terminal.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#if __has_include(<unistd.h>)
#include <unistd.h>
#endif

namespace examples {

class status_line {
 public:
  status_line() {
#if __has_include(<unistd.h>)
    shown_ = isatty(STDERR_FILENO) != 0;
#endif
  }
  ~status_line() { clear(); }
  status_line(const status_line&) = delete;
  status_line& operator=(const status_line&) = delete;

  void show(const std::string& text) {
    const auto now = std::chrono::steady_clock::now();
    if (!shown_ || now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    std::fprintf(stderr, "\r\033[K%s", text.c_str());
    std::fflush(stderr);
  }
  void clear() {
    if (shown_) std::fputs("\r\033[K", stderr);
  }

 private:
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace examples
