// A program of its own, since it counts every operator new: from the second step with a shape of batch on, training
// allocates nothing.
#include <cstdio>

#include <headred/backend/cpu.hpp>
#include <headred/nn/training_step.hpp>

#include "counting_new.hpp"

namespace {

namespace hr = headred;

hr::transformer_config config_of(hr::architecture kind) {
  hr::transformer_config c;
  c.kind = kind;
  c.width = 16;
  c.pre_norm = c.final_norm = kind != hr::architecture::encoder;
  c.source = {40, 16, hr::positions::learned, 32, kind == hr::architecture::encoder ? 2 : 0, 1, false};
  if (c.has_cross()) c.target = {40, 16, hr::positions::sinusoidal_interleaved, 32, 0, 1, false};
  const hr::layer_config layer{{4, 2, 4, {}}, {4, 4, 4, {}}, 24};
  if (c.has_encoder()) c.encoder.layers = {layer, layer};
  if (c.has_decoder()) c.decoder.layers = {layer, layer};
  c.output = kind == hr::architecture::encoder ? hr::output_head::masked_lm : hr::output_head::projection;
  c.dropout = c.attention_dropout = .1;
  return c;
}

long allocations_of(hr::architecture kind, int threads) {
  const hr::transformer_config config = config_of(kind);
  hr::cpu be{{.threads = threads}};
  hr::transformer<float, hr::cpu> model(be, config);
  std::vector<hr::model_stack> stacks;
  for (const auto stack : {hr::model_stack::encoder, hr::model_stack::decoder})
    if (hr::find_stack(config, stack) != nullptr) stacks.push_back(stack);
  hr::model_gates<float, hr::cpu> gates(be, config, {stacks, stacks});
  for (const auto stack : stacks) gates.layers(stack).value(1) = .5f;
  std::uint64_t k = 0;
  hr::visit_parameters(model.weights(), [&](const std::string&, auto& p) {
    for (hr::index_t i = 0; i < p.value.size(); ++i)
      p.value.data()[i] = static_cast<float>(hr::random_stream(1).uniform(k++) - .5);
  });
  model.train();
  gates.train();
  hr::parameter_list<float, hr::cpu> list(model.weights());
  list.add_gates(gates, config);
  hr::adam<float, hr::cpu> optimizer(be, list, {}, {{.holds = hr::is_bias_or_norm, .weight_decay = 0.}});
  std::vector<hr::attention_record<float>> trace;
  hr::trainer<float, hr::cpu> trainer(model, optimizer,
                                      {.rate = hr::learning_rate::noam(16, 10),
                                       .label_smoothing = .1,
                                       .longest_gradient = 1,
                                       .forward = {.gates = &gates, .keep_attention_gradients = true, .trace = &trace},
                                       .before_step = [](hr::index_t) {},
                                       .extra_loss = [](auto&, const auto&, double) { return 0.; },
                                       .before_update = [](hr::index_t) {}});
  hr::corpus texts;
  for (int s = 0; s < 60; ++s) texts.emplace_back(static_cast<std::size_t>(2 + s % 20), 3 + s % 30);
  hr::batch_order order(hr::pair_lengths(texts, texts), {.tokens = 150});
  const hr::masking_options masking{.mask_id = 3, .vocabulary = 40, .never = {1, 2}};
  std::vector<hr::training_batch> batches(2);
  const auto epoch = [&] {
    for (hr::index_t n = 0; n < order.batches() / 2; ++n) {
      for (auto& batch : batches) {
        const hr::index_t number = order.position().epoch;
        const auto sentences = order.next();
        if (kind == hr::architecture::encoder)
          hr::fill_masked(batch, texts, sentences, masking, number % 2);
        else if (kind == hr::architecture::decoder)
          hr::fill_causal(batch, texts, sentences, 1, 2);
        else
          hr::fill_pairs(batch, texts, texts, sentences, 1, 2);
      }
      trainer.step(batches);
      trainer.evaluate(batches[0]);
    }
    order.seek({order.position().epoch, 0});
  };
  // Two passes over the same epochs: afterwards every shape has been seen by every buffer.
  for (int warm = 0; warm < 3; ++warm)
    for (const hr::index_t e : {0, 1}) {
      order.seek({e, 0});
      epoch();
    }
  const long before = allocations;
  counting = true;
  for (const hr::index_t e : {0, 1}) {
    order.seek({e, 0});
    epoch();
  }
  counting = false;
  return allocations - before;
}

}  // namespace

int main() {
  counting = true;
  std::vector<int>* const seen = new std::vector<int>(1);
  counting = false;
  delete seen;
  if (allocations != 2) {
    std::printf("operator new is not counted: %ld, expected 2\n", allocations.load());
    return 1;
  }
  int failed = 0;
  for (const auto kind : {hr::architecture::encoder, hr::architecture::encoder_decoder, hr::architecture::decoder})
    for (const int threads : {1, 3}) {
      const long found = allocations_of(kind, threads);
      if (found == 0) continue;
      std::printf("architecture %d, %d threads: %ld allocations, expected 0\n", static_cast<int>(kind), threads, found);
      failed = 1;
    }
  return failed;
}
