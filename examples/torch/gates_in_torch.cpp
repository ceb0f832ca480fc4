// A torch training loop with headred inside: gates that autograd differentiates; then distances between attention maps
// and relevance through a torch layer. Each is checked: against finite differences, against torch's own operations.
#include <torch/torch.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <iostream>

#include <headred/headred.hpp>
#include <headred/interop/torch.hpp>
#include <headred/lrp/rule_policies.hpp>
#include <headred/nn/op/linear.hpp>

#include "hard_concrete_gate.hpp"

namespace {

namespace hr = headred;
using examples::gate_context;
using examples::hard_concrete_gate;
using examples::open_gates;

bool all_well = true;

void check(const char* what, double error, double allowed) {
  const bool well = error <= allowed;  // false for NaN
  std::cout << (well ? "ok    " : "WRONG ") << what << ": " << error << '\n';
  all_well = all_well && well;
}

/// Greatest difference between autograd's gradient of f at x and central differences.
double against_differences(const torch::Tensor& x, const std::function<torch::Tensor(const torch::Tensor&)>& f) {
  const torch::Tensor at = x.detach().clone().requires_grad_();
  f(at).backward();
  const double h = 1e-6;
  double worst = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    torch::Tensor up = x.detach().clone(), down = x.detach().clone();
    up[i] += h;
    down[i] -= h;
    const double slope = (f(up).item<double>() - f(down).item<double>()) / (2 * h);
    worst = std::max(worst, std::abs(slope - at.grad()[i].item<double>()));
  }
  return worst;
}

/// Attention heads that stand already: head h reads a sentence (B,T,D) with value column h where query column h looks.
struct attention_heads {
  torch::Tensor query, value;  // (D,H)

  torch::Tensor maps(const torch::Tensor& x) const { return torch::softmax(x.matmul(query), 1); }        // (B,T,H)
  torch::Tensor operator()(const torch::Tensor& x) const { return (maps(x) * x.matmul(value)).sum(1); }  // (B,H)
};

constexpr std::int64_t heads = 6, useful = 3, tokens = 6, width = 8, batch = 64;

void gradients(gate_context& context) {
  const torch::Tensor log_a = torch::tensor({-1.5, -.4, 0., .3, 1., 2.}, torch::kDouble),
                      worth = torch::tensor({1., -2., .5, 3., -.7, 1.1}, torch::kDouble);
  double worst = 0;
  for (std::int64_t step = 0; step < 50; ++step)
    worst = std::max(worst, against_differences(log_a, [&](const torch::Tensor& a) {
                       return (hard_concrete_gate::apply(a, context, 7, step) * worth).sum() +
                              .3 * open_gates::apply(a, context);
                     }));
  check("autograd through the gates against finite differences", worst, 1e-7);

  // the same probability from torch's operations
  const torch::Tensor open = torch::sigmoid(log_a - .33 * std::log(.1 / 1.1)).sum();
  check("penalty against torch", std::abs((open - open_gates::apply(log_a, context)).item<double>()), 1e-12);
}

void training(gate_context& context) {
  const auto uniform = [](at::IntArrayRef shape) { return 3.4 * (torch::rand(shape, torch::kDouble) - .5); };
  const attention_heads model{uniform({width, heads}), uniform({width, heads})};
  torch::Tensor weight = torch::zeros({heads}, torch::kDouble).requires_grad_(),
                log_a = torch::ones({heads}, torch::kDouble).requires_grad_();
  torch::optim::SGD for_weight({weight}, .05), for_gates({log_a}, 1.);
  for (std::int64_t step = 1; step <= 1500; ++step) {
    const torch::Tensor says = model(uniform({batch, tokens, width})),
                        target = says.slice(1, 0, useful).sum(1);  // the other heads are not asked
    const torch::Tensor gates = hard_concrete_gate::apply(log_a, context, 1, step);
    const torch::Tensor loss =
        .5 * (says.matmul(gates * weight) - target).square().mean() + .05 * open_gates::apply(log_a, context);
    for_weight.zero_grad();
    for_gates.zero_grad();
    loss.backward();
    for_weight.step();
    for_gates.step();
  }
  torch::Tensor gates = torch::empty({heads}, torch::kDouble);
  hr::hard_concrete_evaluate(context.be, context.policy, hr::torch_view<const double, 1>(log_a),
                             hr::torch_view<double, 1>(gates));
  const torch::Tensor expected = torch::cat({torch::ones({useful}), torch::zeros({heads - useful})}).to(torch::kDouble);
  std::cout << "gates:";
  for (std::int64_t h = 0; h < heads; ++h) std::cout << ' ' << gates[h].item<double>();
  std::cout << '\n';
  check("gates of heads that say nothing new are 0, the others 1", (gates - expected).abs().max().item<double>(), 0);
}

void distances(gate_context& context) {
  // (L,H,T,S) as torch leaves it after a transpose: strides are followed, nothing is copied
  const torch::Tensor maps = torch::softmax(3 * torch::randn({2, 12, 12, 4}), 2).permute({0, 3, 1, 2});
  const hr::matrix d = hr::pairwise<double>(context.be, hr::torch_view<const float, 4>(maps), hr::cosine{});
  // torch's own: 1 - cosine of each pair of rows, mean over rows; rows of maps sum to 1 over axis 3 after this
  const torch::Tensor rows = maps.to(torch::kDouble).reshape({8, 12, 12});
  const torch::Tensor unit = rows / rows.norm(2, 2, true);
  const torch::Tensor expected = 1 - torch::einsum("its,jts->ij", {unit, unit}) / 12;
  hr::matrix mine = d;
  const torch::Tensor out = hr::to_torch(std::move(mine));  // torch owns it now
  check("distances on a torch::Tensor against torch", (out - expected).abs().max().item<double>(), 1e-6);
}

void relevance(gate_context& context) {
  torch::nn::Linear linear(torch::nn::LinearOptions(16, 5));
  linear->to(torch::kDouble);
  const torch::Tensor x = torch::randn({32, 16}, torch::kDouble), y = linear(x).detach();
  const torch::Tensor relevance_out = y.abs();
  torch::Tensor relevance_in = torch::empty_like(x);
  hr::relevance_workspace<double> workspace;
  hr::linear_relevance<double>(
      context.be, hr::torch_view<const double, 2>(x), hr::torch_view<const double, 2>(linear->weight),
      hr::torch_view<const double, 1>(linear->bias), hr::torch_view<const double, 2>(y),
      hr::epsilon_rule{.epsilon = 1e-5, .bias = hr::bias_mode::absorbed},
      hr::torch_view<const double, 2>(relevance_out), hr::torch_view<double, 2>(relevance_in), workspace);
  // torch's own: R_in = x (R_out / (y + eps sgn y)) W
  const torch::Tensor sign = torch::where(y < 0, -torch::ones_like(y), torch::ones_like(y));
  const torch::Tensor expected = x * (relevance_out / (y + 1e-5 * sign)).matmul(linear->weight.detach());
  check("relevance through torch's linear against torch", (relevance_in - expected).abs().max().item<double>(), 1e-12);
}

}  // namespace

int main() {
  torch::manual_seed(1);
  gate_context context;
  gradients(context);
  training(context);
  distances(context);
  relevance(context);
  return all_well ? EXIT_SUCCESS : EXIT_FAILURE;
}
