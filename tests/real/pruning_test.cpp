// The models of the shared folder, pruned for real.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include <headred/io/load_transformer.hpp>
#include <headred/nn/model_cost.hpp>
#include <headred/prune/apply.hpp>
#include <headred/prune/random_tokens.hpp>
#include <headred/prune/zero_shot.hpp>

#include "environment.hpp"
#include "oracle/plan_sets.hpp"
#include "prune/small_models.hpp"

namespace hr = headred;
using headred_test::difference;
using headred_test::logits_of;
using hr::attention_kind;
using hr::cpu;
using hr::index_t;

namespace {

std::filesystem::path model_folder(const std::string& name) {
  const auto folder = headred_test::shared_dir() / "data" / name;
  return std::filesystem::exists(folder / "model.safetensors") ? folder : std::filesystem::path();
}

/// Against the model with closed gates, for random plans.
template <class T>
void check_model(const std::filesystem::path& folder, double tolerance) {
  cpu be;
  auto loaded = hr::load_transformer<T>(be, folder);
  hr::transformer<T, cpu> model(be, loaded.config, std::move(loaded.weights));
  const auto tokens = hr::random_tokens(model.config(), {.sentences = 4, .max_length = 24});
  const hr::plan_layout layout = hr::model_layout(model.config());
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const auto plan = headred_test::oracle::random_units(layout, hr::prune_unit::head, seed);
    hr::model_gates<T, cpu> gates(be, model.config());
    for (const auto kind : layout.kinds())
      for (index_t l = 0; l < layout.heads(kind).layers(); ++l)
        for (index_t h = 0; h < layout.heads(kind).heads(l); ++h)
          if (!plan.is_kept(kind, {l, h})) gates.of(kind, l).value(h) = 0;
    auto pruned = hr::apply(plan, model, {.shared = hr::shared_layers::untie});
    const auto expected = logits_of(model, tokens.source, tokens.target, &gates);
    CHECK(difference(logits_of(pruned, tokens.source, tokens.target), expected) < tolerance);
    CHECK(hr::forward_flops(pruned.config(), std::vector<index_t>{24},
                            std::vector<index_t>(model.config().has_cross() ? 1 : 0, 24))
              .total() < hr::forward_flops(model.config(), std::vector<index_t>{24},
                                           std::vector<index_t>(model.config().has_cross() ? 1 : 0, 24))
                             .total());
  }
}

}  // namespace

TEST_SUITE("real") {
  TEST_CASE("pruned real models compute what closed gates make of them") {
    for (const char* name : {"marian_aren_transliteration", "albert_rxnmapper"}) {
      CAPTURE(name);
      const auto folder = model_folder(name);
      if (folder.empty()) return headred_test::skip(std::string(name) + " is not there");
      check_model<double>(folder, 1e-12);
      check_model<float>(folder, 2e-5);
    }
  }

  TEST_CASE("zero-shot plans of the transliteration model are the same for any number of threads") {
    const auto folder = model_folder("marian_aren_transliteration");
    if (folder.empty()) return headred_test::skip("marian_aren_transliteration is not there");
    std::vector<hr::prune_plan> plans;
    for (const int threads : {1, 3}) {
      cpu be{{.threads = threads}};
      auto loaded = hr::load_transformer<float>(be, folder);
      hr::transformer<float, cpu> model(be, loaded.config, std::move(loaded.weights));
      const auto tokens = hr::random_tokens(model.config(), {.sentences = 12, .max_length = 40});
      plans.push_back(hr::zero_shot_plan(model, tokens.source, tokens.target, {.ratio = 0.5}).plan);
      CHECK(plans.back().count() == 72);
      for (const auto kind : plans.back().layout().kinds()) CHECK(plans.back().count(kind) == 24);
    }
    CHECK(plans[0] == plans[1]);
  }
}
