// sinusoidal_positions: positions as sines and cosines of falling frequencies, a table that needs no training.
#pragma once

#include <cmath>
#include <string>

#include <headred/core/error.hpp>
#include <headred/core/view.hpp>

namespace headred {

/// Where sines and cosines stand and which frequencies they have; j counts pairs of one sine and one cosine.
enum class sinusoid_form {
  interleaved,     ///< sin, cos, sin, cos, ...; frequency 10000^(-2j/D), positions from 0 (Vaswani et al. 2017, 3.5)
  split,           ///< all sines, then all cosines; the same frequencies, positions from 0 (Hugging Face's Marian)
  split_from_one,  ///< all sines, then all cosines; frequency 10000^(-j/(D/2-1)), positions from 1 (tensor2tensor)
};

/// table[p][d] = sin or cos of position times frequency, computed in double.
/// table : (P,D) in host memory, any strides; an odd D has one sine more than cosines. Throws argument_error for
/// split_from_one with odd D.
template <class T>
void sinusoidal_positions(tensor_view<T, 2> table, sinusoid_form form) {
  const index_t width = table.extent(1), half = width / 2, sines = width - half;
  const bool from_one = form == sinusoid_form::split_from_one;
  if (from_one && half != sines)
    throw argument_error("sinusoidal_positions: the width is " + std::to_string(width) + ", expected an even number");
  const auto exponent = [&](index_t j) {
    if (!from_one) return 2. * static_cast<double>(j) / static_cast<double>(width);
    return j == 0 ? 0. : static_cast<double>(j) / static_cast<double>(half - 1);
  };
  for (index_t j = 0; j < sines; ++j) {
    const double frequency = std::exp(-exponent(j) * std::log(10000.));
    const index_t sine = form == sinusoid_form::interleaved ? 2 * j : j;
    const index_t cosine = form == sinusoid_form::interleaved ? 2 * j + 1 : sines + j;
    for (index_t p = 0; p < table.extent(0); ++p) {
      const double angle = static_cast<double>(from_one ? p + 1 : p) * frequency;
      table(p, sine) = static_cast<T>(std::sin(angle));
      if (j < half) table(p, cosine) = static_cast<T>(std::cos(angle));
    }
  }
}

}  // namespace headred
