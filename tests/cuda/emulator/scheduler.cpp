// The threads of a block, each in a fiber. A thread runs until it waits; who runs when is the order's choice, and no
// choice may change a result.
#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "emulator.hpp"

namespace headred_emulator {
namespace context = boost::context;

namespace {

/// Stacks are used again: most threads of most kernels never wait and run on the same warm one.
struct stack_pool {
  context::protected_fixedsize_stack source{std::size_t{1} << 16};
  std::vector<context::stack_context> free;
  ~stack_pool() {
    for (auto& stack : free) source.deallocate(stack);
  }
};

struct pooled_stack {
  stack_pool* pool;
  context::stack_context allocate() {
    if (pool->free.empty()) return pool->source.allocate();
    const context::stack_context stack = pool->free.back();
    pool->free.pop_back();
    return stack;
  }
  void deallocate(context::stack_context& stack) { pool->free.push_back(stack); }
};

enum { running, at_barrier, at_shuffle, ended };

struct thread_state {
  context::fiber fiber;
  int doing = running, line = 0, mask = 0;
  std::size_t bytes = 0;
  bool started = false;
  alignas(16) unsigned char value[16] = {};
};

std::string lines(int a, int b) { return std::to_string(a) + " and " + std::to_string(b); }

}  // namespace

struct fibers {
  std::vector<thread_state> threads;
  context::fiber scheduler;
  std::string fault;

  void resume(block_run& run, int t, void (*body)(void*, int), void* data);
  void release(block_run& run);
  void shuffle_warp(std::size_t first);
};

void fibers::resume(block_run& run, int t, void (*body)(void*, int), void* data) {
  static thread_local stack_pool pool;
  thread_state& thread = threads[static_cast<std::size_t>(t)];
  run.thread_ = t;
  if (!thread.started) {
    thread.started = true;
    thread.fiber =
        context::fiber(std::allocator_arg, pooled_stack{&pool}, [this, t, body, data](context::fiber&& from) {
          scheduler = std::move(from);
          try {
            body(data, t);
          } catch (const kernel_fault& e) {
            if (fault.empty()) fault = e.what();
          }
          threads[static_cast<std::size_t>(t)].doing = ended;
          return std::move(scheduler);
        });
  }
  thread.fiber = std::move(thread.fiber).resume();
}

void fibers::shuffle_warp(std::size_t first) {
  thread_state* const lane = &threads[first];
  for (int l = 0; l < 32; ++l) {
    if (lane[l].doing != at_shuffle)
      throw kernel_fault("shuffle: lane " + std::to_string(l) + " of the warp of thread " + std::to_string(first) +
                         " does not take part");
    if (lane[l].line != lane[0].line)
      throw kernel_fault("shuffle: lanes of one warp are at lines " + lines(lane[0].line, lane[l].line));
  }
  unsigned char values[32][16];
  for (int l = 0; l < 32; ++l) std::memcpy(values[l], lane[l].value, 16);
  for (int l = 0; l < 32; ++l) {
    const int other = l ^ lane[l].mask;
    if (other < 0 || other > 31) throw kernel_fault("shuffle: the mask is " + std::to_string(lane[l].mask));
    std::memcpy(lane[l].value, values[other], 16);
    lane[l].doing = running;
  }
}

/// Nobody runs any more: lets through those who wait, or finds out why they wait forever.
void fibers::release(block_run& run) {
  bool shuffled = false;
  for (std::size_t first = 0; first < threads.size(); first += 32)
    if (std::any_of(threads.begin() + static_cast<index_t>(first), threads.begin() + static_cast<index_t>(first) + 32,
                    [](const thread_state& t) { return t.doing == at_shuffle; })) {
      shuffle_warp(first);
      shuffled = true;
    }
  if (shuffled) return;
  std::size_t waiting = 0, someone = 0;
  for (std::size_t t = 0; t < threads.size(); ++t)
    if (threads[t].doing == at_barrier) {
      ++waiting;
      someone = t;
    }
  if (waiting < threads.size())
    throw kernel_fault("barrier: " + std::to_string(threads.size() - waiting) + " of " +
                       std::to_string(threads.size()) + " threads ended while thread " + std::to_string(someone) +
                       " waits at line " + std::to_string(threads[someone].line));
  for (const thread_state& t : threads)
    if (t.line != threads[0].line)
      throw kernel_fault("barrier: threads of one block wait at lines " + lines(threads[0].line, t.line));
  for (thread_state& t : threads) t.doing = running;
  ++run.epoch_;
}

void block_run::run(void (*body)(void*, int), void* data) {
  fibers all;
  all.threads.resize(static_cast<std::size_t>(threads_));
  fibers_ = &all;
  block_run* const before = std::exchange(current_, this);
  std::vector<int> order(static_cast<std::size_t>(threads_));
  std::iota(order.begin(), order.end(), 0);
  const thread_order kind = device_behaviour().order;
  if (kind == thread_order::reverse) std::reverse(order.begin(), order.end());
  std::mt19937 random(static_cast<unsigned>(block_) * 977u + 5u);
  try {
    while (true) {
      if (kind == thread_order::shuffled) std::shuffle(order.begin(), order.end(), random);
      for (const int t : order)
        if (all.threads[static_cast<std::size_t>(t)].doing == running) {
          all.resume(*this, t, body, data);
          if (!all.fault.empty()) throw kernel_fault(all.fault);
        }
      if (std::all_of(all.threads.begin(), all.threads.end(), [](const auto& t) { return t.doing == ended; })) break;
      all.release(*this);
    }
  } catch (...) {
    all.threads.clear();  // unwinds the fibers while they still are in this block
    current_ = before;
    fibers_ = nullptr;
    throw;
  }
  current_ = before;
  fibers_ = nullptr;
}

void block_run::wait(int kind, int line) {
  const int own = thread_;
  thread_state& thread = fibers_->threads[static_cast<std::size_t>(own)];
  thread.doing = kind;
  thread.line = line;
  fibers_->scheduler = std::move(fibers_->scheduler).resume();
}

void block_run::sync(int line) { wait(at_barrier, line); }

void block_run::exchange(void* value, std::size_t bytes, int mask, int line) {
  thread_state& thread = fibers_->threads[static_cast<std::size_t>(thread_)];
  if (bytes > sizeof thread.value) throw kernel_fault("shuffle: " + std::to_string(bytes) + " bytes, at most 16 fit");
  std::memcpy(thread.value, value, bytes);
  thread.mask = mask;
  wait(at_shuffle, line);
  std::memcpy(value, thread.value, bytes);
}

}  // namespace headred_emulator
