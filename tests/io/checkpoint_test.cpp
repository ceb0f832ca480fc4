#include <filesystem>
#include <fstream>
#include <headred/io/checkpoint.hpp>
#include <iterator>

#include "io/io_support.hpp"
#include "nn/training_support.hpp"

#if __has_include(<unistd.h>) && __has_include(<sys/wait.h>)
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#define HEADRED_TEST_FORK 1
#endif

using namespace training_test;

namespace {

hr::transformer_config dropping_config() {
  auto c = small_config();
  c.dropout = .2;
  c.attention_dropout = .1;
  return c;
}

// A run with all it needs, as a program would build it anew.
template <class T>
struct whole_run {
  hr::corpus sources = small_corpus(30, 11, 5), targets = small_corpus(30, 13, 6);
  hr::cpu be;
  hr::transformer_config config;
  hr::transformer<T, hr::cpu> model;
  hr::model_gates<T, hr::cpu> gates;
  hr::adam<T, hr::cpu> optimizer;
  hr::trainer<T, hr::cpu> trainer;
  hr::batch_order order;
  hr::training_batch batch;

  explicit whole_run(std::uint64_t weights = 1, hr::adam_options o = {.weight_decay = .01, .decoupled = true},
                     const hr::transformer_config& c = dropping_config(), hr::index_t tokens = 20, int threads = 1)
      : be({.threads = threads}),
        config(c),
        model(seeded_model<T>(be, c, weights)),
        gates(be, c),
        optimizer(be, parameters(), o),
        trainer(model, optimizer,
                {.rate = hr::learning_rate::noam(8, 4),
                 .label_smoothing = .1,
                 .longest_gradient = 1,
                 .seed = 11,
                 .forward = {.gates = &gates}}),
        order(hr::pair_lengths(sources, targets), {.tokens = tokens, .seed = 7}) {}

  void train(int steps) {
    for (int i = 0; i < steps; ++i) {
      hr::fill_pairs(batch, sources, targets, order.next(), 1, 2);
      trainer.step(batch);
    }
  }
  std::vector<T> state() {
    std::vector<T> all;
    for (const auto& t : hr::detail::checkpoint_tensors<T>(trainer)) all.insert(all.end(), t.values, t.values + t.size);
    return all;
  }

 private:
  hr::parameter_list<T, hr::cpu> parameters() {
    gates.train();
    hr::parameter_list<T, hr::cpu> list(model.weights());
    list.add_gates(gates, config);
    return list;
  }
};

using folder = headred_test::temporary_folder;

template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const hr::file_error& problem) {
    return problem.what();
  }
  return "";
}

std::string after(const std::string& message, const std::filesystem::path& file) {
  const std::string start = file.string() + ": ";
  return message.starts_with(start) ? message.substr(start.size()) : "not of " + file.string() + ": " + message;
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The file with one piece of its header exchanged for another of the same length.
void exchange(const std::filesystem::path& path, const std::string& from, const std::string& to) {
  REQUIRE(from.size() == to.size());
  std::string bytes = bytes_of(path);
  const auto at = bytes.find(from);
  REQUIRE(at != std::string::npos);
  bytes.replace(at, from.size(), to);
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace

TEST_SUITE("io") {
  TEST_CASE_TEMPLATE("checkpoint: stopped and resumed anywhere, training ends with the same bits", T, float, double) {
    const folder files;
    const auto path = files / "run.ckpt";
    whole_run<T> through;
    through.train(12);
    CHECK(through.order.position().epoch > 0);  // beyond an epoch's end
    for (const int stop : {0, 5, 11}) {
      {
        whole_run<T> first;
        first.train(stop);
        hr::save_checkpoint(path, first.trainer, first.order);
      }
      whole_run<T> second(99, {.weight_decay = .01, .decoupled = true}, dropping_config(), 20, 2);
      second.trainer.settings().seed = 1;  // replaced by the file's
      second.trainer.settings().rate = hr::learning_rate::constant(1);
      const auto state = hr::load_checkpoint(path, second.trainer, second.order);
      CHECK(state.steps == stop);
      CHECK(second.trainer.steps() == stop);
      CHECK(second.optimizer.steps() == stop);
      CHECK(second.trainer.settings().rate == hr::learning_rate::noam(8, 4));
      second.train(12 - stop);
      CHECK(same_bits(through.state(), second.state()));
      CHECK(second.order.position() == through.order.position());
    }
  }

  TEST_CASE("checkpoint: equal runs give equal files; the state can be read alone") {
    const folder files;
    whole_run<float> a, b;
    a.train(3);
    b.train(3);
    hr::save_checkpoint(files / "a", a.trainer, a.order);
    hr::save_checkpoint(files / "b", b.trainer, b.order);
    CHECK(bytes_of(files / "a") == bytes_of(files / "b"));
    const auto state = hr::read_checkpoint_state(files / "a");
    CHECK(state.steps == 3);
    CHECK(state.skipped == 0);
    CHECK(state.position == a.order.position());
    CHECK(state.seed == 11);
    CHECK(state.label_smoothing == .1);
    CHECK(state.longest_gradient == 1);
    hr::save_checkpoint(files / "c", a.trainer, hr::epoch_position{4, 2});  // data of the user's own
    CHECK(hr::load_checkpoint(files / "c", b.trainer).position == hr::epoch_position{4, 2});
    const hr::safetensors_file file(files / "a");
    CHECK(file.contains("model.encoder.0.self.query.weight"));
    CHECK(file.contains("more.gates.cross.1"));
    CHECK(file.contains("optimizer.moment2.gates.cross.1"));
  }

  TEST_CASE("checkpoint: another model, optimiser, type or data is refused by name, and nothing changes") {
    const folder files;
    const auto path = files / "run.ckpt";
    whole_run<float> saved;
    saved.train(2);
    hr::save_checkpoint(path, saved.trainer, saved.order);
    const auto refused = [&](auto& r, const std::string& why) {
      const auto before = r.state();
      CHECK(after(message_of([&] { hr::load_checkpoint(path, r.trainer, r.order); }), path) == why);
      CHECK(same_bits(before, r.state()));
      CHECK(r.trainer.steps() == 0);
    };
    auto other = dropping_config();
    other.encoder.layers[1].feed_forward = 9;
    whole_run<float> wider(1, {.weight_decay = .01, .decoupled = true}, other);
    const std::string text = message_of([&] { hr::load_checkpoint(path, wider.trainer, wider.order); });
    CHECK(text.find("is a checkpoint of another model: it has \"feed_forward: 8}\", expected \"feed_forward: 9}\"") !=
          std::string::npos);
    whole_run<float> plain(1, {});
    refused(plain,
            "is a checkpoint of optimizer \"adamw beta1 0.9 beta2 0.999 epsilon 1e-08, 98 parameters: weight_decay "
            "0.01\", expected \"adam beta1 0.9 beta2 0.999 epsilon 1e-08, 98 parameters: weight_decay 0\"");
    whole_run<double> precise;
    refused(precise, "tensor \"model.source.tokens\" is float32(11,8), expected float64(11,8)");
    whole_run<float> shorter(1, {.weight_decay = .01, .decoupled = true}, dropping_config(), 30);
    const std::string data = message_of([&] { hr::load_checkpoint(path, shorter.trainer, shorter.order); });
    CHECK(data.find("was trained on \"30 sentences in ") != std::string::npos);
    CHECK(data.find("batches of 20 tokens, seed 7, lengths ") != std::string::npos);
    CHECK(data.find("\", expected \"30 sentences in ") != std::string::npos);
    CHECK(data.find("batches of 30 tokens, seed 7, lengths ") != std::string::npos);
  }

  TEST_CASE("checkpoint: a run's further states are kept, all of them or none") {
    const folder files;
    const auto path = files / "run.ckpt";
    whole_run<float> r;
    r.train(1);
    double price = .1;
    std::vector<double> list{1. / 3, -2, 1e300};
    const auto register_states = [&](whole_run<float>& run) {
      run.trainer.settings().states = {{"a.price", [&] { return std::vector<double>{price}; },
                                        [&](std::span<const double> v) {
                                          if (v.size() != 1) throw hr::argument_error("price: not one number");
                                          price = v[0];
                                        }},
                                       {"b", [&] { return list; },
                                        [&](std::span<const double> v) {
                                          if (v.empty()) throw hr::argument_error("b: nothing there");
                                          list.assign(v.begin(), v.end());
                                        }}};
    };
    register_states(r);
    hr::save_checkpoint(path, r.trainer, r.order);
    const auto kept = list;
    price = 7;
    list = {};
    whole_run<float> other(2);
    register_states(other);
    hr::load_checkpoint(path, other.trainer, other.order);
    CHECK(price == .1);
    CHECK(list == kept);
    CHECK(same_bits(other.state(), r.state()));

    // a file that the second state refuses leaves the first, the place in the data and the weights as they were
    list = {};
    hr::save_checkpoint(path, r.trainer, r.order);
    list = {5};
    price = 3;
    other.train(2);
    const auto before = other.state();
    const auto place = other.order.position();
    const auto refused = [&](whole_run<float>& run, const std::string& why) {
      CHECK(after(message_of([&] { hr::load_checkpoint(path, run.trainer, run.order); }), path) == why);
    };
    refused(other, "b: nothing there");
    CHECK(price == 3);
    CHECK(list == std::vector<double>{5});
    CHECK(other.order.position().batch == place.batch);
    CHECK(same_bits(other.state(), before));
    whole_run<float> without;
    refused(without, "holds \"state.a.price\", which is no state of this run");
    exchange(path, "\"state.a.price\":\"0.1\"", "\"state.a.price\":\"0,1\"");
    refused(other, "metadata \"state.a.price\" holds \"0,1\", expected finite numbers");
    exchange(path, "state.a.price", "State.a.price");
    refused(other, "holds no \"state.a.price\", which is a state of this run");
    hr::save_checkpoint(path, without.trainer, without.order);
    refused(other, "holds no \"state.a.price\", which is a state of this run");
    r.trainer.settings().states[1].name = "a.price";
    CHECK_THROWS_WITH_AS(hr::save_checkpoint(path, r.trainer, r.order),
                         "save_checkpoint: there are two states a.price, expected names of their own",
                         hr::argument_error);
  }

  TEST_CASE("checkpoint: damaged files are refused") {
    const folder files;
    const auto path = files / "run.ckpt";
    whole_run<float> r;
    r.train(2);
    const auto damaged = [&](const std::string& from, const std::string& to, const std::string& why) {
      hr::save_checkpoint(path, r.trainer, r.order);
      exchange(path, from, to);
      const auto before = r.state();
      CHECK(after(message_of([&] { hr::load_checkpoint(path, r.trainer, r.order); }), path) == why);
      CHECK(same_bits(before, r.state()));
    };
    damaged("\"steps\":\"2\"", "\"steps\":\"x\"", "metadata \"steps\" is \"x\", expected a whole number of at least 0");
    damaged("\"skipped\":\"0\"", "\"skipped\":\"3\"", "metadata \"skipped\" is 3, expected at most 2 steps");
    damaged("\"epoch\":", "\"epocH\":", "metadata \"epoch\" is missing: it is not a headred checkpoint");
    damaged("\"schema\":\"1\"", "\"schema\":\"9\"", "metadata \"schema\" is \"9\", expected \"1\" or \"2\"");
    damaged("\"rate\":\"noam\"", "\"rate\":\"moan\"",
            "metadata \"rate\" is \"moan\", expected constant, noam, linear or cosine");
    damaged("headred checkpoint", "headred checkpaint",
            "metadata \"format\" is \"headred checkpaint\", expected \"headred checkpoint\"");
    damaged("model.output.bias", "model.output.bais", "tensor \"model.output.bias\" is not in the file");
    damaged("\"label_smoothing\":\"0.1\"", "\"label_smoothing\":\"1.1\"",
            "metadata \"label_smoothing\" is 1.1, expected [0,1)");
    damaged("\"batch\":\"2\"", "\"batch\":\"9\"",
            "batch_order: batch 9 of epoch 0, expected [0," + std::to_string(r.order.batches()) + ")");
    hr::save_checkpoint(path, r.trainer, r.order);
    const std::string bytes = bytes_of(path);
    for (const std::size_t keep : {std::size_t{0}, std::size_t{7}, bytes.size() / 2, bytes.size() - 1}) {
      std::ofstream(path, std::ios::binary) << bytes.substr(0, keep);
      CHECK(message_of([&] { hr::load_checkpoint(path, r.trainer, r.order); }) != "");
    }
    CHECK(message_of([&] { hr::load_checkpoint(files / "absent", r.trainer); }).find("absent") != std::string::npos);
    CHECK(message_of([&] { hr::save_checkpoint(files / "no/such/folder", r.trainer); }).find("no/such/folder") !=
          std::string::npos);
  }

#if defined(HEADRED_TEST_FORK)
  TEST_CASE("checkpoint: a process killed while saving leaves one from which the run goes on") {
    const folder files;
    const auto path = files / "run.ckpt";
    whole_run<float> through;
    std::vector<std::vector<float>> states{through.state()};
    std::set<hr::index_t> found;
    for (int round = 0; round < 12; ++round) {
      const pid_t child = fork();
      REQUIRE(child >= 0);
      if (child == 0) {  // trains and saves after every step until it is killed
        whole_run<float> r;
        if (std::filesystem::exists(path)) hr::load_checkpoint(path, r.trainer, r.order);
        for (;;) {
          r.train(1);
          hr::save_checkpoint(path, r.trainer, r.order);
        }
      }
      usleep(static_cast<useconds_t>(15000 + 3701 * round));
      kill(child, SIGKILL);
      int status = 0;
      waitpid(child, &status, 0);
      REQUIRE(WIFSIGNALED(status));
      CHECK(WTERMSIG(status) == SIGKILL);
      if (!std::filesystem::exists(path)) continue;
      whole_run<float> r(5);
      const auto state = hr::load_checkpoint(path, r.trainer, r.order);
      while (static_cast<hr::index_t>(states.size()) <= state.steps) {
        through.train(1);
        states.push_back(through.state());
      }
      CHECK(same_bits(r.state(), states[static_cast<std::size_t>(state.steps)]));
      found.insert(state.steps);
    }
    CHECK(found.size() > 1);
  }
#endif
}
