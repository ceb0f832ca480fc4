// Ctrl-C and the like end a program between two steps, so that it leaves nothing half done.
#pragma once

#include <csignal>

namespace examples {
namespace detail {

inline volatile std::sig_atomic_t caught_signal = 0;

// The second signal of a kind ends the program at once.
extern "C" inline void remember_signal(int number) {
  caught_signal = number;
  std::signal(number, SIG_DFL);
}

}  // namespace detail

/// Thrown by stop_if_interrupted.
struct interrupted {
  int signal;
  /// Ends the program the way the signal would have, so that a calling script stops too.
  void pass_on() const {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
};

/// From here on SIGINT, SIGTERM and SIGHUP are kept for stop_if_interrupted, unless the caller had them ignored.
inline void catch_interrupts() {
  constexpr int numbers[] = {SIGINT, SIGTERM,
#ifdef SIGHUP
                             SIGHUP
#endif
  };
  for (const int number : numbers)
    if (std::signal(number, SIG_IGN) != SIG_IGN) std::signal(number, detail::remember_signal);
}

inline void stop_if_interrupted() {
  if (detail::caught_signal != 0) throw interrupted{detail::caught_signal};
}

}  // namespace examples
