// Adam and AdamW entry by entry in long double, as the papers write them.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace oracle {

struct adam_reference {
  long double beta1, beta2, epsilon, decay;
  bool decoupled;
  int t = 0;
  std::vector<long double> w, m, v;

  adam_reference(std::vector<long double> weights, long double b1, long double b2, long double eps, long double wd,
                 bool apart)
      : beta1(b1),
        beta2(b2),
        epsilon(eps),
        decay(wd),
        decoupled(apart),
        w(std::move(weights)),
        m(w.size()),
        v(w.size()) {}

  void step(const std::vector<long double>& gradient, long double rate) {
    ++t;
    for (std::size_t i = 0; i < w.size(); ++i) {
      long double g = gradient[i];
      if (decoupled)
        w[i] -= rate * decay * w[i];
      else
        g += decay * w[i];
      m[i] = beta1 * m[i] + (1 - beta1) * g;
      v[i] = beta2 * v[i] + (1 - beta2) * g * g;
      const long double first = m[i] / (1 - std::pow(beta1, static_cast<long double>(t)));
      const long double second = v[i] / (1 - std::pow(beta2, static_cast<long double>(t)));
      w[i] -= rate * first / (std::sqrt(second) + epsilon);
    }
  }
};

}  // namespace oracle
