// Headred's Hard-Concrete gates as functions that torch's autograd knows.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include <headred/backend/cpu.hpp>
#include <headred/interop/torch.hpp>
#include <headred/sparsity/hard_concrete.hpp>

namespace examples {

namespace hr = headred;
using T = double;  // of log_a and the gates

/// What the two functions below share: where they run, and the settings of the gates. It must outlive torch's graph.
struct gate_context {
  hr::cpu be{{.threads = 1}};
  hr::hard_concrete policy;
};

/// gates = one sample for log_a (H); the same seed and step draw the same noise.
struct hard_concrete_gate : torch::autograd::Function<hard_concrete_gate> {
  static torch::Tensor forward(torch::autograd::AutogradContext* ctx, const torch::Tensor& log_a, gate_context& context,
                               std::int64_t seed, std::int64_t step) {
    ctx->save_for_backward({log_a});
    ctx->saved_data["context"] = reinterpret_cast<std::int64_t>(&context);
    ctx->saved_data["seed"] = seed;
    ctx->saved_data["step"] = step;
    torch::Tensor gates = torch::empty_like(log_a);
    hr::hard_concrete_sample(context.be, context.policy, hr::torch_view<const T, 1>(log_a), draws(seed, step),
                             hr::torch_view<T, 1>(gates));
    return gates;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& of_gates) {
    auto& context = *reinterpret_cast<gate_context*>(ctx->saved_data["context"].toInt());
    const torch::Tensor log_a = ctx->get_saved_variables()[0];
    torch::Tensor of_log_a = torch::zeros_like(log_a);
    hr::hard_concrete_gradient(context.be, context.policy, hr::torch_view<const T, 1>(log_a),
                               draws(ctx->saved_data["seed"].toInt(), ctx->saved_data["step"].toInt()),
                               hr::torch_view<const T, 1>(of_gates[0]), hr::torch_view<T, 1>(of_log_a));
    return {of_log_a, {}, {}, {}};
  }

 private:
  static hr::random_stream draws(std::int64_t seed, std::int64_t step) {
    return hr::random_stream(static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(step));
  }
};

/// How many gates are expected to be open, for log_a (H).
struct open_gates : torch::autograd::Function<open_gates> {
  static torch::Tensor forward(torch::autograd::AutogradContext* ctx, const torch::Tensor& log_a,
                               gate_context& context) {
    ctx->save_for_backward({log_a});
    ctx->saved_data["context"] = reinterpret_cast<std::int64_t>(&context);
    return torch::full(
        {},
        hr::hard_concrete_penalty<hr::cpu, const T, 1>(context.be, context.policy, hr::torch_view<const T, 1>(log_a)),
        log_a.options());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& of_penalty) {
    auto& context = *reinterpret_cast<gate_context*>(ctx->saved_data["context"].toInt());
    const torch::Tensor log_a = ctx->get_saved_variables()[0];
    torch::Tensor of_log_a = torch::zeros_like(log_a);
    hr::hard_concrete_penalty_gradient(context.be, context.policy, hr::torch_view<const T, 1>(log_a),
                                       of_penalty[0].item<double>(), hr::torch_view<T, 1>(of_log_a));
    return {of_log_a, {}};
  }
};

}  // namespace examples
