// 20 steps from given weights, beside the losses and gradient norms that PyTorch's own layers gave
// (oracle/record_training.py).
#include <filesystem>
#include <headred/io/safetensors_file.hpp>

#include "nn/training_support.hpp"

using namespace training_test;

namespace {

hr::transformer_config recorded_config(bool pre) {
  hr::transformer_config c;
  c.kind = hr::architecture::encoder_decoder;
  c.width = 32;
  c.activation = pre ? hr::activation::gelu : hr::activation::relu;
  c.pre_norm = c.final_norm = pre;
  const auto positions = pre ? hr::positions::learned : hr::positions::sinusoidal_interleaved;
  const double scale = pre ? 1 : std::sqrt(32.);
  c.source = {29, 32, positions, 12, 0, scale, false};
  c.target = {31, 32, positions, 12, 0, scale, false};
  c.encoder.layers = {layer(4, 4, 8, 48), layer(4, 4, 8, 48)};
  c.decoder.layers = c.encoder.layers;
  c.output = hr::output_head::projection;
  c.tied_output = !pre;
  c.output_bias = pre;
  return c;
}

hr::corpus recorded_sentences(const hr::safetensors_file& file, const std::string& name) {
  const auto ids = file.view<std::int32_t, 1>(name), lengths = file.view<std::int32_t, 1>(name + "_lengths");
  hr::corpus all;
  const std::int32_t* next = ids.data();
  for (hr::index_t s = 0; s < lengths.extent(0); next += lengths(s++)) all.emplace_back(next, next + lengths(s));
  return all;
}

// Greatest relative difference of losses and of gradient norms.
template <class T>
std::pair<double, double> deviation(bool pre, bool adamw, int threads) {
  const hr::safetensors_file file(std::filesystem::path(__FILE__).parent_path() / "data/training_curve.safetensors");
  std::vector<hr::training_batch> batches(4);
  for (std::size_t b = 0; b < batches.size(); ++b) {
    const std::string name = "batch." + std::to_string(b);
    const auto sources = recorded_sentences(file, name + ".source"),
               targets = recorded_sentences(file, name + ".target");
    std::vector<hr::index_t> all;
    for (std::size_t s = 0; s < sources.size(); ++s) all.push_back(static_cast<hr::index_t>(s));
    hr::fill_pairs(batches[b], sources, targets, all, 1, 2);
  }
  hr::cpu be{{.threads = threads}};
  hr::transformer<T, hr::cpu> model(be, recorded_config(pre));
  hr::visit_parameters(model.weights(), [&](const std::string& name, auto& p) {
    constexpr int rank = std::remove_cvref_t<decltype(p)>::view_type::rank;
    p.value = file.load<T, rank>(be, name);
  });
  model.train();
  const hr::parameter_list<T, hr::cpu> list(model.weights());
  hr::adam<T, hr::cpu> optimizer(be, list,
                                 adamw ? hr::adam_options{.epsilon = 1e-6, .weight_decay = .1, .decoupled = true}
                                       : hr::adam_options{.beta2 = .98, .epsilon = 1e-9},
                                 {{.holds = hr::is_bias_or_norm, .weight_decay = 0.}});
  hr::trainer<T, hr::cpu> run(
      model, optimizer,
      {.rate = adamw ? hr::learning_rate::linear(4e-3, 0, 40) : hr::learning_rate::constant(5e-3, 5),
       .label_smoothing = adamw ? 0 : .1,
       .longest_gradient = adamw ? .5 : 0});
  const std::string curve =
      std::string(pre ? "pre" : "post") + (adamw ? ".adamw." : ".adam.") + (sizeof(T) == 8 ? "f64" : "f32");
  const auto losses = file.view<double, 1>("loss." + curve), norms = file.view<double, 1>("norm." + curve);
  std::pair<double, double> worst{0, 0};
  for (hr::index_t s = 1; s <= 20; ++s) {
    const auto step = static_cast<std::size_t>(s);
    std::vector<hr::training_batch> used;
    if (adamw)
      used = {batches[step % 2], batches[2 + step % 2]};
    else
      used = {batches[step % 4]};
    const auto done = run.step(used);
    REQUIRE(done.applied);
    worst.first = std::max(worst.first, std::abs(done.loss / losses(s - 1) - 1));
    worst.second = std::max(worst.second, std::abs(done.gradient_norm / norms(s - 1) - 1));
  }
  CHECK(losses(19) < losses(0));
  return worst;
}

}  // namespace

TEST_SUITE("nn") {
  TEST_CASE_TEMPLATE("training: PyTorch's loss curve of 20 steps", T, float, double) {
    for (const bool pre : {true, false})
      for (const bool adamw : {false, true}) {
        CAPTURE(pre);
        CAPTURE(adamw);
        const auto [loss, norm] = deviation<T>(pre, adamw, 2);
        CAPTURE(norm);
        CHECK(loss <= (sizeof(T) == 8 ? 1e-13 : 1e-6));
        CHECK(norm <= (sizeof(T) == 8 ? 1e-12 : 1e-5));
      }
  }
}
