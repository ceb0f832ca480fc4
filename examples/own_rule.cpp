// A relevance rule of one's own: the library has none that gives only what agrees in sign with the output.
#include <algorithm>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/lrp.hpp>
#include <headred/nn/op/linear.hpp>
#include <headred/nn/op/relu.hpp>
#include <headred/nn/start_relevance.hpp>

namespace {

using headred::index_t;

/// R_i = sum_o R_o z_oi / s_o over the contributions z_oi = weight_oi x_i that have the sign of y_o, s_o being their sum.
headred::relevance_terms agreeing(const headred::relevance_operands<double>& op) {
  headred::relevance_terms lost;
  for (index_t r = 0; r < op.x.extent(0); ++r) {
    for (index_t i = 0; i < op.x.extent(1); ++i) op.relevance_in(r, i) = 0;
    for (index_t o = 0; o < op.y.extent(1); ++o) {
      const auto agrees = [&](double z) { return op.y(r, o) < 0 ? z < 0 : z > 0; };
      double sum = 0;
      for (index_t i = 0; i < op.x.extent(1); ++i)
        if (const double z = op.weight(o, i) * op.x(r, i); agrees(z)) sum += z;
      if (sum == 0) lost.eps += op.relevance_out(r, o);
      if (sum == 0) continue;
      for (index_t i = 0; i < op.x.extent(1); ++i)
        if (const double z = op.weight(o, i) * op.x(r, i); agrees(z))
          op.relevance_in(r, i) += op.relevance_out(r, o) * z / sum;
    }
  }
  return lost;
}

headred::parameter<double, 2, headred::cpu> weights(headred::cpu& be, index_t out, index_t in,
                                                    const std::vector<double>& values) {
  headred::parameter<double, 2, headred::cpu> w(be, {out, in});
  std::copy(values.begin(), values.end(), w.value.data());
  return w;
}

}  // namespace

int main() {
  headred::cpu be;
  auto first = weights(be, 3, 2, {1, -1, 2, .5, -1, 3}), second = weights(be, 2, 3, {1, 1, -1, -.5, 2, 1});
  headred::tape<double, headred::cpu> t(be);
  const headred::slot x = t.add(1, 2);
  t.value(x)(0, 0) = 2;
  t.value(x)(0, 1) = 1;
  const headred::slot logits = linear(t, relu(t, linear(t, x, first, nullptr)), second, nullptr);

  headred::relevance_rules<double> rules(headred::relevance_rule::of_epsilon());
  rules.set_own(headred::relevance_op::linear, agreeing);
  headred::relevance_ledger ledger;
  const headred::relevance_start top[] = {{0}};
  headred::start_relevance<double>(t, logits, top);
  t.sweep(rules, &ledger);

  std::cout << std::fixed << std::setprecision(6);
  for (index_t i = 0; i < 2; ++i) std::cout << "relevance of input " << i << ": " << t.relevance(x)(0, i) << '\n';
  for (const headred::ledger_entry& e : ledger.entries)
    std::cout << to_string(e.op) << ": " << e.out << " arrives, " << e.in << " is handed on\n";
  return ledger.worst_residual() < 1e-9 ? EXIT_SUCCESS : EXIT_FAILURE;
}
