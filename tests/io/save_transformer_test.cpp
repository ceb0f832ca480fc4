#include <headred/io/save_transformer.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <limits>
#include <string>

#include <headred/backend/cpu.hpp>
#include <headred/io/load_transformer.hpp>
#include <headred/prune/random_plan.hpp>

#include "environment.hpp"
#include "io_support.hpp"
#include "model_samples.hpp"

#if __has_include(<sys/resource.h>)
#include <sys/resource.h>

#include <csignal>
#endif

namespace hr = headred;
using headred_test::bits_of;
using headred_test::file_error_text;
using headred_test::read_text;
using headred_test::temporary_folder;

namespace {

template <class T>
hr::transformer_weights<T, hr::cpu> weights_of(hr::cpu& be, const hr::transformer_config& config, std::uint64_t seed) {
  hr::transformer_weights<T, hr::cpu> weights(be, config);
  headred_test::fill<T>(weights, seed);
  return weights;
}

}  // namespace

TEST_SUITE("io") {
  TEST_CASE_TEMPLATE("save_transformer: what is loaded again is the same to the last bit", T, float, double) {
    hr::cpu be{{.threads = 1}};
    for (const auto& config :
         {headred_test::uneven_config(), headred_test::small_encoder(false), headred_test::small_encoder(true)}) {
      const temporary_folder folder;
      auto weights = weights_of<T>(be, config, headred_test::seed());
      weights.encoder[0].norm.scale.value(0) = -T(0);
      weights.encoder[0].norm.scale.value(1) = std::numeric_limits<T>::quiet_NaN();
      weights.encoder[0].norm.scale.value(2) = std::numeric_limits<T>::denorm_min();
      hr::save_transformer(folder / "new" / "model", config, weights);
      auto again = hr::load_transformer<T>(be, folder / "new" / "model");
      CHECK(again.config == config);
      CHECK_FALSE(again.plan);
      CHECK(bits_of(again.weights) == bits_of(weights));
      CHECK(std::distance(std::filesystem::directory_iterator(folder / "new" / "model"), {}) == 2);
      hr::save_transformer(be, folder / "again", again.config, again.weights);
      for (const char* name : {"config.json", "model.safetensors"})
        CHECK(read_text(folder / "again" / name) == read_text(folder / "new" / "model" / name));
    }
  }

  TEST_CASE("save_transformer: a layer without heads keeps the shapes of what is left") {
    const temporary_folder folder;
    hr::cpu be{{.threads = 1}};
    const auto config = headred_test::uneven_config();
    hr::save_transformer(folder.path(), config, weights_of<float>(be, config, 1));
    const hr::safetensors_file file(folder / "model.safetensors");
    CHECK(file.info("encoder.1.self.query.weight").shape == std::vector<hr::index_t>{0, 6});
    CHECK(file.info("encoder.1.self.output.weight").shape == std::vector<hr::index_t>{6, 0});
    CHECK(file.info("encoder.1.self.output.bias").shape == std::vector<hr::index_t>{6});
    CHECK(file.info("encoder.2.self.query.weight").shape == std::vector<hr::index_t>{10, 6});
    CHECK_FALSE(file.contains("encoder.1.self.query.bias"));
    CHECK(file.metadata().at("format") == "headred");
    const auto again = hr::load_transformer<float>(be, folder.path());
    CHECK(again.weights.encoder[1].self.query.weight.value.shape() == hr::shape_t<2>{0, 6});
    CHECK(again.weights.encoder[1].self.query.bias.value.shape() == hr::shape_t<1>{0});
  }

  TEST_CASE("save_transformer: the plan goes along") {
    const temporary_folder folder;
    hr::cpu be{{.threads = 1}};
    const auto config = headred_test::small_encoder(false);
    const auto plan = hr::random_plan(hr::head_layout(3, 2), 4, 1);
    hr::save_transformer(folder.path(), config, weights_of<float>(be, config, 1), plan);
    const auto again = hr::load_transformer<float>(be, folder.path());
    REQUIRE(again.plan);
    CHECK(*again.plan == plan);
  }

  TEST_CASE("save_transformer: memory of a device is copied to the host and back") {
    const temporary_folder folder;
    hr::cpu be{{.threads = 1}};
    headred_test::pretended_device device;
    const auto config = headred_test::uneven_config();
    auto weights = weights_of<float>(be, config, 5);
    hr::save_transformer(folder / "a", config, weights);
    const auto there = hr::load_transformer<float>(device, folder / "a");
    hr::save_transformer(device, folder / "b", config, there.weights);
    for (const char* name : {"config.json", "model.safetensors"})
      CHECK(read_text(folder / "a" / name) == read_text(folder / "b" / name));
  }

  TEST_CASE("save_transformer: weights of another configuration are refused, and nothing is written") {
    const temporary_folder folder;
    hr::cpu be{{.threads = 1}};
    const auto config = headred_test::small_encoder(false);
    auto other = config;
    other.encoder.layers[1].self.heads = other.encoder.layers[1].self.kv_heads = 1;
    CHECK_THROWS_WITH_AS(
        hr::save_transformer(folder / "m", other, weights_of<float>(be, config, 1)),
        "save_transformer: encoder.1.self.query.weight has shape (8,8), expected (4,8) by the configuration",
        hr::shape_error);
    other = config;
    other.pooler = false;
    CHECK_THROWS_WITH_AS(hr::save_transformer(folder / "m", other, weights_of<float>(be, config, 1)),
                         "save_transformer: the weights are not those of the configuration: found pooler.weight, "
                         "expected nothing more",
                         hr::shape_error);
    other.width = 0;
    CHECK_THROWS_AS(hr::save_transformer(folder / "m", other, weights_of<float>(be, config, 1)), hr::argument_error);
    CHECK(folder.count() == 0);
  }

  TEST_CASE("save_transformer: config and weights of two saves are told apart") {
    const temporary_folder folder;
    hr::cpu be{{.threads = 1}};
    const auto config = headred_test::small_encoder(false);
    hr::save_transformer(folder / "a", config, weights_of<float>(be, config, 1));
    hr::save_transformer(folder / "b", config, weights_of<float>(be, config, 2));
    const std::string text = read_text(folder / "b" / "config.json");
    // what a crash between the two renames leaves: new weights beside the old config
    std::filesystem::copy_file(folder / "a" / "config.json", folder / "b" / "config.json",
                               std::filesystem::copy_options::overwrite_existing);
    const std::string message = (folder / "b" / "config.json").string() + ": is not of the save that wrote " +
                                (folder / "b" / "model.safetensors").string() + ", which may have been interrupted";
    const auto load = [&] { hr::load_transformer<float>(be, folder / "b"); };
    CHECK(file_error_text(load) == message);
    const std::size_t at = text.find("  \"saved\"");
    headred_test::write_text(
        folder / "b" / "config.json",
        std::string(text).erase(at - 2, text.find('\n', at) - at + 2));  // with the comma before it
    CHECK(file_error_text(load) == message);
    // settings of training may be edited
    std::string edited = text;
    edited.replace(edited.find("\"dropout\": 0"), 12, "\"dropout\": 0.5");
    headred_test::write_text(folder / "b" / "config.json", edited);
    CHECK(hr::load_transformer<float>(be, folder / "b").config.dropout == 0.5);
  }

  TEST_CASE("save_transformer: where one file cannot be replaced, the other is not") {
    const temporary_folder folder;
    hr::cpu be{{.threads = 1}};
    const auto config = headred_test::small_encoder(false);
    const auto weights = weights_of<float>(be, config, 1);
    const auto save = [&] { hr::save_transformer(folder.path(), config, weights); };
    std::filesystem::create_directories(folder / "config.json" / "in the way");
    CHECK(file_error_text(save).starts_with((folder / "config.json").string() + ": cannot be replaced: "));
    CHECK(folder.count() == 1);
    headred_test::write_text(folder / "model.safetensors", "old");
    CHECK(file_error_text(save).starts_with((folder / "config.json").string() + ": cannot be replaced: "));
    CHECK(read_text(folder / "model.safetensors") == "old");
    CHECK(folder.count() == 2);
    headred_test::write_text(folder / "file", "x");
    CHECK(file_error_text([&] {
            hr::save_transformer(folder / "file", config, weights);
          }).starts_with((folder / "file").string() + ": is no folder and cannot be made one"));
  }

#if __has_include(<sys/resource.h>)
  TEST_CASE("save_transformer: a full disk leaves the old model and nothing else") {
    const temporary_folder folder;
    hr::cpu be{{.threads = 1}};
    const auto config = headred_test::small_encoder(false);
    hr::save_transformer(folder / "old", config, weights_of<float>(be, config, 1));
    const std::string text = read_text(folder / "old" / "config.json");
    const std::string bytes = read_text(folder / "old" / "model.safetensors");
    const auto weights = weights_of<double>(be, config, 2);
    struct limit {
      limit(::rlim_t size) : handler(std::signal(SIGXFSZ, SIG_IGN)) {
        ::getrlimit(RLIMIT_FSIZE, &before);
        ::rlimit now = before;
        now.rlim_cur = size;
        ::setrlimit(RLIMIT_FSIZE, &now);
      }
      ~limit() {
        ::setrlimit(RLIMIT_FSIZE, &before);
        std::signal(SIGXFSZ, handler);
      }
      ::rlimit before{};
      void (*handler)(int);
    };
    for (const ::rlim_t room : {0, 100, 5000}) {
      for (const char* name : {"old", "new"}) {
        std::string message;
        {
          const limit full(room);
          message = file_error_text([&] { hr::save_transformer(folder / name, config, weights); });
        }
        CHECK(message.starts_with((folder / name / "model.safetensors").string() + ": cannot be written: "));
      }
      CHECK(read_text(folder / "old" / "config.json") == text);
      CHECK(read_text(folder / "old" / "model.safetensors") == bytes);
      CHECK(std::distance(std::filesystem::directory_iterator(folder / "old"), {}) == 2);
      CHECK_FALSE(std::filesystem::exists(folder / "new"));
    }
  }
#endif
}
