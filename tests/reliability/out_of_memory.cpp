// A program of its own, since it replaces operator new: every allocation of every operation fails once, alone and with all
// that follow it. The operation then ends in std::bad_alloc or headred::error, nothing is leaked, no half of a file is left,
// and the object is as documented: used again, it gives the bits that it would have given.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/cluster/silhouette.hpp>
#include <headred/cluster/spectral.hpp>
#include <headred/distance/distance_correlation.hpp>
#include <headred/distance/jensen_shannon.hpp>
#include <headred/distance/procrustes.hpp>
#include <headred/distance/redundancy.hpp>
#include <headred/io/load_transformer.hpp>
#include <headred/io/npy.hpp>
#include <headred/io/plan_json.hpp>
#include <headred/io/save_transformer.hpp>
#include <headred/nn/training_step.hpp>
#include <headred/prune/apply.hpp>
#include <headred/prune/keep_representatives.hpp>
#include <headred/prune/random_plan.hpp>

#include "counting_new.hpp"
#include "oracle/attention_samples.hpp"

namespace {

namespace hr = headred;
namespace fs = std::filesystem;
using hr::index_t;

int failures = 0;

void report(const std::string& what, long n, bool for_good, const char* problem) {
  if (++failures > 20) return;
  std::printf("%s, allocation %ld fails%s: %s\n", what.c_str(), n, for_good ? " with all that follow" : "", problem);
}

enum class shortage { once_and_lasting, once };

// make() builds what is used; use(it) is starved; after(it, failed) says whether the state is right, with memory again.
template <class Make, class Use, class After>
void starve(const std::string& what, const Make& make, const Use& use, const After& after,
            shortage kind = shortage::once_and_lasting) {
  long attempts = 0;
  {  // what is made once in a program (locales, buffers of streams) is made now
    auto subject = make();
    use(subject);
    if (!after(subject, false)) return report(what, -1, false, "with enough memory the answer is wrong");
  }
  for (const bool for_good : {false, true}) {
    if (for_good && kind == shortage::once) break;
    for (long n = 0;; ++n, ++attempts) {
      const long before = living;
      bool failed = false;
      {
        auto subject = make();
        lasting = for_good;
        before_failure = n;
        try {
          use(subject);
        } catch (const std::bad_alloc&) {
          failed = true;
        } catch (const hr::error&) {
          failed = true;
        } catch (...) {
          failed = true;
          before_failure = never;
          report(what, n, for_good, "ends in neither std::bad_alloc nor headred::error");
        }
        const bool reached = before_failure < 0;
        before_failure = never;
        if (!after(subject, failed)) report(what, n, for_good, "what is left is not as it should be");
        if (!reached) {
          if (failed) report(what, n, for_good, "an error although no allocation failed");
          break;
        }
      }
      if (living != before) report(what, n, for_good, ("leaks " + std::to_string(living - before)).c_str());
    }
  }
  std::printf("%-44s %6ld attempts\n", what.c_str(), attempts);
}

constexpr auto always = [](const auto&, bool) { return true; };

// ---- distances and clusters

template <class Distance>
void starve_redundancy(hr::cpu& be, const Distance& distance) {
  using headred_test::make_sample;
  using headred_test::sample_kind;
  const auto first = make_sample(sample_kind::random, 2, 3, 6, 6, 1),
             second = make_sample(sample_kind::twins_1e9, 2, 3, 9, 9, 2);
  const hr::head_layout layout{2, 3};
  using accumulator = hr::redundancy<Distance, hr::cpu>;
  const auto make = [&] {
    auto red = std::make_unique<accumulator>(be, layout, distance);
    red->template add<float>(first.view());
    return red;
  };
  const auto whole = make();
  const hr::matrix before = whole->matrix();
  whole->template add<float>(second.view());
  const hr::matrix expected = whole->matrix();
  starve(
      std::string(Distance::name) + ", " + std::to_string(be.workers()) + " threads", make,
      [&](auto& red) {
        red->template add<float>(second.view());
        red->matrix();
      },
      [&](auto& red, bool) {
        if (red->sentences() == 1) {
          if (!(red->matrix() == before)) return false;
          red->template add<float>(second.view());
        }
        return red->sentences() == 2 && red->matrix() == expected;
      });
}

void starve_clusters(hr::cpu& be) {
  const auto sample = headred_test::make_sample(headred_test::sample_kind::random, 2, 4, 7, 7, 3);
  hr::redundancy red{be, hr::head_layout{2, 4}, hr::jensen_shannon{}};
  red.add(sample.view());
  const hr::matrix d = red.matrix();
  const auto find = [&] {
    const auto clusters = hr::spectral_clusters(be, d, {.count = 3});
    return hr::keep_representatives(clusters, hr::silhouette(be, d, clusters), red.layout());
  };
  const hr::prune_plan expected = find();
  starve(
      "spectral clusters, silhouettes, plan", [] { return std::optional<hr::prune_plan>(); },
      [&](auto& plan) { plan = find(); },
      [&](auto& plan, bool failed) { return (failed ? find() : *plan) == expected; });
}

// ---- files

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// All files below a folder with what is in them; folders as such do not count, but leftover temporary ones do.
std::map<std::string, std::string> contents_of(const fs::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    all[entry.path().lexically_relative(folder).string()] = entry.is_directory() ? "folder" : text_of(entry.path());
  return all;
}

// write(folder) leaves either what was there or all that it writes, in an empty folder and over other files.
template <class Write, class Other>
void starve_writer(const std::string& what, const fs::path& folder, const Write& write, const Other& write_other) {
  const auto empty = [&] {
    fs::remove_all(folder);
    fs::create_directories(folder);
  };
  empty();
  write(folder);
  const auto whole = contents_of(folder);
  empty();
  write_other(folder);
  const auto other = contents_of(folder);
  for (const bool over_files : {false, true})
    starve(
        what + (over_files ? ", over another" : ""),
        [&] {
          empty();
          if (over_files) write_other(folder);
          return 0;
        },
        [&](int) { write(folder); },
        [&](int, bool failed) {
          const auto left = contents_of(folder);
          if (!failed) return left == whole;
          if (left == whole) return true;  // complete, and then something failed: nothing is half
          return over_files ? left == other : left.empty();
        });
}

hr::transformer_config config() {
  hr::transformer_config c;
  c.width = 4;
  c.source = {7, 4, hr::positions::learned, 8, 0, 1, false};
  c.encoder.layers.assign(1, {{2, 2, 2, {}}, {}, 5});
  c.output = hr::output_head::masked_lm;
  return c;
}

hr::transformer<float, hr::cpu> model_of(hr::cpu& be, std::uint64_t seed) {
  hr::transformer<float, hr::cpu> model(be, config());
  std::uint64_t k = 0;
  hr::visit_parameters(model.weights(), [&](const std::string&, auto& p) {
    for (index_t i = 0; i < p.value.size(); ++i)
      p.value.data()[i] = static_cast<float>(hr::random_stream(seed).uniform(k++) - .5);
  });
  return model;
}

std::vector<float> values_of(const hr::transformer<float, hr::cpu>& model) {
  std::vector<float> all;
  hr::visit_parameters(model.weights(), [&](const std::string&, auto& p) {
    all.insert(all.end(), p.value.data(), p.value.data() + p.value.size());
  });
  return all;
}

void starve_files(hr::cpu& be, const fs::path& folder) {
  fs::create_directories(folder / "in");
  const auto sample = headred_test::make_sample(headred_test::sample_kind::random, 1, 2, 5, 5, 4);
  const auto model = model_of(be, 1), another = model_of(be, 2);
  const hr::prune_plan plan = hr::random_plan(hr::model_layout(config()), 1, 3);
  const hr::prune_plan all(hr::model_layout(config()));
  hr::save_npy(folder / "in/maps.npy", sample.view());
  hr::save_plan_json(folder / "in/plan.json", plan);
  hr::save_transformer(folder / "in/model", model.config(), model.weights());

  const auto nothing = [] { return 0; };
  starve(
      "load_npy", nothing, [&](int) { hr::load_npy<double, 4>(be, folder / "in/maps.npy"); }, always);
  starve(
      "safetensors_file", nothing,
      [&](int) {
        const hr::safetensors_file file(folder / "in/model/model.safetensors");
        for (const auto& name : file.names())
          if (file.info(name).shape.size() == 2) file.load<float, 2>(be, name);
      },
      always);
  // A half-parsed document asks for memory when it is destroyed, by nlohmann-json's own destructor: once more it must get it.
  starve(
      "load_plan_json", nothing, [&](int) { hr::load_plan_json(folder / "in/plan.json"); }, always, shortage::once);
  starve(
      "load_transformer", nothing, [&](int) { hr::load_transformer<float>(be, folder / "in/model"); }, always,
      shortage::once);

  const fs::path out = folder / "out";
  starve_writer(
      "save_npy", out, [&](const fs::path& to) { hr::save_npy(to / "a.npy", sample.view()); },
      [&](const fs::path& to) { hr::write_file_atomically(to / "a.npy", "old"); });
  starve_writer(
      "save_plan_json", out, [&](const fs::path& to) { hr::save_plan_json(to / "p.json", plan); },
      [&](const fs::path& to) { hr::save_plan_json(to / "p.json", all); });
  const auto smaller = hr::apply(plan, model);
  const auto expected = values_of(smaller);
  starve(
      "apply", nothing, [&](int) { hr::apply(plan, model); },
      [&](int, bool failed) { return !failed || values_of(hr::apply(plan, model)) == expected; });
  starve_writer(
      "save_transformer", out,
      [&](const fs::path& to) { hr::save_transformer(to / "m", smaller.config(), smaller.weights(), plan); },
      [&](const fs::path& to) { hr::save_transformer(to / "m", another.config(), another.weights()); });
}

// ---- training

void starve_training(hr::cpu& be) {
  struct run {
    hr::transformer<float, hr::cpu> model;
    hr::adam<float, hr::cpu> optimizer;
    hr::trainer<float, hr::cpu> trainer;
    explicit run(hr::cpu& backend)
        : model(model_of(backend, 1)),
          optimizer(backend, hr::parameter_list<float, hr::cpu>((model.train(), model.weights()))),
          trainer(model, optimizer, {.rate = hr::learning_rate::constant(1e-2), .longest_gradient = 1}) {}
  };
  const hr::corpus texts{{3, 4, 5}, {6, 3}, {5, 4, 3, 6}};
  hr::training_batch batch;
  hr::fill_masked(batch, texts, std::vector<index_t>{0, 1, 2}, {.mask_id = 3, .vocabulary = 7}, 0);
  const auto make = [&] { return std::make_unique<run>(be); };
  const auto whole = make();
  const auto before = values_of(whole->model);
  whole->trainer.step(batch);
  const auto expected = values_of(whole->model);
  starve(
      "a training step, " + std::to_string(be.workers()) + " threads", make, [&](auto& r) { r->trainer.step(batch); },
      [&](auto& r, bool failed) {
        if (failed) {
          if (values_of(r->model) != before || r->trainer.steps() != 0) return false;
          r->trainer.step(batch);
        }
        return values_of(r->model) == expected && r->trainer.steps() == 1;
      });
}

}  // namespace

int main() {
  hr::cpu one{{.threads = 1}}, three{{.threads = 3}};
  starve(
      "a backend of three threads", [] { return 0; },
      [](int) {
        hr::cpu be{{.threads = 3}};
        be.for_each(100, [](index_t) {});
      },
      always);
  for (hr::cpu* be : {&one, &three}) {
    starve_redundancy(*be, hr::jensen_shannon{});
    starve_redundancy(*be, hr::distance_correlation{});
    starve_redundancy(*be, hr::procrustes{});
    starve_training(*be);
  }
  starve_clusters(one);
  // in memory where that is: files are flushed thousands of times
  const fs::path place = fs::is_directory("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path();
  const fs::path folder = place / ("headred-oom-" + std::to_string(std::random_device{}()));
  starve_files(one, folder);
  fs::remove_all(folder);
  if (failures > 0) std::printf("%d failures\n", failures);
  return failures > 0 ? 1 : 0;
}
