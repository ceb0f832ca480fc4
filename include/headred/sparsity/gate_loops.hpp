// Loops over gates: a block of 32 at a time in vector registers on the host, one by one elsewhere.
#pragma once

#include <algorithm>
#include <array>
#include <type_traits>

#include <headred/sparsity/element_loops.hpp>
#include <headred/sparsity/gate_math.hpp>
#include <headred/sparsity/gate_noise.hpp>

namespace headred::detail {

// What is done to a gate is a named struct F with
//   noises                            noise numbers a gate: 0, 1 or 2
//   V operator()(const V* x, const V* u)   for numbers and for packs, x the inputs, u the noise

/// F's result for element i.
template <class F, class T, int Rank, class Space, std::size_t Inputs>
struct one_gate {
  F f;
  gate_noise noise;
  std::array<tensor_view<const T, Rank, Space>, Inputs> in;

  HEADRED_FUNCTION T operator()(index_t i) const {
    T x[Inputs], u[2] = {};
    for (std::size_t k = 0; k < Inputs; ++k) x[k] = element(in[k], i);
    if constexpr (F::noises == 1) {
      u[0] = noise.one<T>(static_cast<std::uint64_t>(i));
    } else if constexpr (F::noises == 2) {
      const auto both = noise.two<T>(static_cast<std::uint64_t>(i));
      u[0] = both[0];
      u[1] = both[1];
    }
    return f(static_cast<const T*>(x), static_cast<const T*>(u));
  }
};
template <bool Add, class Gate, class T, int Rank, class Space>
struct write_gate {
  Gate gate;
  tensor_view<T, Rank, Space> out;
  HEADRED_FUNCTION void operator()(index_t i) const {
    const T y = gate(i);
    element(out, i) = Add ? element(out, i) + y : y;
  }
};
template <class Gate>
struct gate_term {
  Gate gate;
  HEADRED_FUNCTION double operator()(index_t i) const { return static_cast<double>(gate(i)); }
};

/// F's results for block b: `count` of them are right, those beyond are finite.
template <class F, class T, int Rank, class Space, std::size_t Inputs>
struct gate_block {
  static constexpr index_t size = gate_noise::block;

  F f;
  gate_noise noise;
  std::array<tensor_view<const T, Rank, Space>, Inputs> in;
  std::array<bool, Inputs> dense;
  index_t n;

  gate_block(const F& what, const gate_noise& draws,
             const std::array<tensor_view<const T, Rank, Space>, Inputs>& inputs)
      : f(what), noise(draws), in(inputs), n(inputs[0].size()) {
    for (std::size_t k = 0; k < Inputs; ++k) dense[k] = in[k].contiguous();
  }

  index_t blocks() const { return (n + size - 1) / size; }
  index_t count(index_t b) const { return std::min(size, n - b * size); }

  void operator()(index_t b, T* y) const {
    constexpr int lanes = native_lanes<T>;
    using vec = pack<T, lanes>;
    T x[Inputs][size], u[2][size];
    const index_t first = b * size, some = count(b);
    const T* from[Inputs];
    for (std::size_t k = 0; k < Inputs; ++k) {
      from[k] = dense[k] && some == size ? in[k].data() + first : x[k];
      if (from[k] != x[k]) continue;
      for (index_t i = 0; i < some; ++i) x[k][i] = element(in[k], first + i);
      std::fill(x[k] + some, x[k] + size, T(0));
    }
    if constexpr (F::noises > 0) noise.draw_block<F::noises>(static_cast<std::uint64_t>(b), u);
    for (index_t i = 0; i < size; i += lanes) {
      vec xs[Inputs], us[2] = {};
      for (std::size_t k = 0; k < Inputs; ++k) xs[k] = load<vec>(from[k] + i);
      for (int k = 0; k < F::noises; ++k) us[k] = load<vec>(u[k] + i);
      store(y + i, f(static_cast<const vec*>(xs), static_cast<const vec*>(us)));
    }
  }
};
template <bool Add, class Block, class T, int Rank, class Space>
struct write_block {
  Block block;
  tensor_view<T, Rank, Space> out;
  bool dense;
  void operator()(index_t b) const {
    T y[Block::size];
    block(b, y);
    const index_t first = b * Block::size, some = block.count(b);
    if (dense) {
      T* const to = out.data() + first;
      for (index_t i = 0; i < some; ++i) to[i] = Add ? to[i] + y[i] : y[i];
    } else {
      for (index_t i = 0; i < some; ++i) {
        T& to = element(out, first + i);
        to = Add ? to + y[i] : y[i];
      }
    }
  }
};
template <class Block, class T>
struct block_term {
  Block block;
  double operator()(index_t b) const {
    T y[Block::size];
    block(b, y);
    if (block.count(b) < Block::size) std::fill(y + block.count(b), y + Block::size, T(0));
    constexpr index_t lanes = native_lanes<double>;
    using doubles = pack<double, lanes>;
    doubles columns[8 / lanes] = {};
    for (index_t i = 0; i < Block::size; i += 8)
      for (index_t c = 0; c < 8 / lanes; ++c) columns[c] += load_converted<doubles>(y + i + c * lanes);
    double sums[8];
    for (index_t c = 0; c < 8 / lanes; ++c) store(sums + c * lanes, columns[c]);
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  }
};

/// out_i = f(inputs_i, noise_i), or with Add out_i += that. All views have the shape of out.
template <bool Add = false, backend Backend, class F, class T, int Rank, class Space, std::size_t Inputs>
void map_gates(Backend& be, const F& f, const gate_noise& noise,
               const std::array<tensor_view<const T, Rank, Space>, Inputs>& in,
               const tensor_view<T, Rank, Space>& out) {
  if constexpr (host_backend<Backend>) {
    const gate_block<F, T, Rank, Space, Inputs> block(f, noise, in);
    be.for_each(block.blocks(),
                write_block<Add, std::remove_const_t<decltype(block)>, T, Rank, Space>{block, out, out.contiguous()});
  } else {
    using gate = one_gate<F, T, Rank, Space, Inputs>;
    be.for_each(out.size(), write_gate<Add, gate, T, Rank, Space>{gate{f, noise, in}, out});
  }
}

/// sum of f(inputs_i, noise_i), in double, in an order that depends on the number of gates alone.
template <backend Backend, class F, class T, int Rank, class Space, std::size_t Inputs>
double sum_gates(Backend& be, const F& f, const gate_noise& noise,
                 const std::array<tensor_view<const T, Rank, Space>, Inputs>& in) {
  if constexpr (host_backend<Backend>) {
    const gate_block<F, T, Rank, Space, Inputs> block(f, noise, in);
    return fold_elements(be, block.blocks(), 0., block_term<std::remove_const_t<decltype(block)>, T>{block}, plus{});
  } else {
    using gate = one_gate<F, T, Rank, Space, Inputs>;
    return fold_elements(be, in[0].size(), 0., gate_term<gate>{gate{f, noise, in}}, plus{});
  }
}

/// map_gates of one input whose shape and numbers are checked first. Throws shape_error, argument_error for a NaN.
template <backend Backend, class T, int Rank, class F>
void each_gate(Backend& be, const char* op, const char* name,
               const tensor_view<const T, Rank, typename Backend::space>& a, const F& f, const random_stream& draws,
               const tensor_view<T, Rank, typename Backend::space>& to) {
  require_same_shape(op, "the result", to, a);
  require_no_nan(be, op, name, a);
  map_gates(be, f, gate_noise(draws), std::array{a}, to);
}

}  // namespace headred::detail
