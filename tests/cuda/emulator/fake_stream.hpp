#pragma once

#include <deque>
#include <functional>

/// The runtime's own opaque type.
struct CUstream_st {
  int device;
  std::deque<std::function<void()>> work;  // waiting, in lazy mode
};

namespace headred_emulator {

/// Does the work, now or when somebody waits for the stream.
void issue(CUstream_st* stream, std::function<void()> work);
bool is_stream(CUstream_st* stream);
int device_of_thread();

}  // namespace headred_emulator
