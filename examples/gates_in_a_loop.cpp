// Gates in a training loop of one's own: model, gradients and descent are plain Eigen; headred draws the gates, prices
// them and takes their gradient back to what is learned. Of six attention heads three say nothing new: they close.
// run: 1
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include <Eigen/Core>

#include <headred/core/random.hpp>
#include <headred/headred.hpp>
#include <headred/sparsity.hpp>

namespace hr = headred;

namespace {

constexpr int heads = 6, useful = 3, tokens = 6, width = 8, batch = 64, steps = 1500;

/// Attention heads that stand already: head h looks with query column h and reads with value column h.
struct attention_heads {
  Eigen::MatrixXd query, value;  // (D,H)

  /// What each head says about a sentence (T,D): softmax(X q_h) . (X v_h).
  Eigen::VectorXd operator()(const Eigen::MatrixXd& sentence) const {
    Eigen::MatrixXd attention = (sentence * query).array().exp();  // (T,H), divided by its sums:
    attention.array().rowwise() /= attention.colwise().sum().eval().array();
    return (attention.array() * (sentence * value).array()).colwise().sum().transpose();
  }
};

Eigen::MatrixXd uniform(const hr::random_stream& random, std::uint64_t& drawn, int rows, int cols) {
  return Eigen::MatrixXd::NullaryExpr(rows, cols, [&] { return 3.4 * (random.uniform(drawn++) - .5); });  // variance 1
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  hr::cpu be;
  const hr::hard_concrete policy;
  const hr::random_stream random(seed);
  std::uint64_t drawn = 0;
  const attention_heads model{uniform(random, drawn, width, heads), uniform(random, drawn, width, heads)};

  Eigen::VectorXd weight = Eigen::VectorXd::Zero(heads), log_a = Eigen::VectorXd::Constant(heads, 1);
  Eigen::VectorXd gates(heads), of_weight(heads), of_gates(heads), of_log_a(heads);
  for (std::uint64_t step = 1; step <= steps; ++step) {
    // one sample of the gates for the whole batch
    const hr::random_stream draws(seed, step);
    hr::hard_concrete_sample(be, policy, hr::as_view(log_a), draws, hr::as_view(gates));

    // loss = 1/2 (sum of g_h w_h o_h - target)^2, and its gradients by hand
    of_weight.setZero();
    of_gates.setZero();
    for (int i = 0; i < batch; ++i) {
      const Eigen::VectorXd says = model(uniform(random, drawn, tokens, width));
      const double target = says.head(useful).sum();  // the other heads are not asked
      const double error = (gates.array() * weight.array() * says.array()).sum() - target;
      of_weight.array() += error * gates.array() * says.array() / batch;
      of_gates.array() += error * weight.array() * says.array() / batch;
    }

    // the way back through the gates, the price of those that are open, and a step of descent
    of_log_a.setZero();
    hr::hard_concrete_gradient(be, policy, hr::as_view(log_a), draws, hr::as_view(of_gates), hr::as_view(of_log_a));
    hr::hard_concrete_penalty_gradient(be, policy, hr::as_view(log_a), .05, hr::as_view(of_log_a));
    weight -= .05 * of_weight;
    log_a -= of_log_a;
  }

  hr::hard_concrete_evaluate(be, policy, hr::as_view(log_a), hr::as_view(gates));
  bool as_planted = true;
  for (int h = 0; h < heads; ++h) {
    std::cout << "head " << h << ": gate " << gates[h] << (h < useful ? "" : ", says nothing new") << '\n';
    as_planted = as_planted && gates[h] == (h < useful ? 1 : 0);
  }
  return as_planted ? EXIT_SUCCESS : EXIT_FAILURE;
}
