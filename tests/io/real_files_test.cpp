// The readers on files that other programs wrote: BERT's attention maps and NumPy's reference matrices.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include <headred/backend/cpu.hpp>
#include <headred/io/npy.hpp>
#include <headred/io/safetensors.hpp>

#include "environment.hpp"
#include "io_support.hpp"

using headred::index_t;

TEST_SUITE("real") {
  TEST_CASE("real files: BERT's attention maps, mapped and streamed") {
    const auto path = headred_test::shared_dir() / "data/bert_base_sst2/attention.safetensors";
    if (!std::filesystem::exists(path)) return headred_test::skip("no " + path.filename().string());
    headred::cpu be{{.threads = 1}};
    const headred::safetensors_file file(path);
    CHECK(file.names().size() == 40);
    CHECK(file.scale() == 0.0001);
    CHECK(file.view<std::uint16_t, 4>("attn.63")(3, 4, 5, 6) == 106);
    CHECK(file.view<std::uint16_t, 4>("attn.21")(11, 11, 25, 25) == 1245);
    CHECK(file.load<double, 4>(be, "attn.63", file.scale())(0, 0, 0, 0) == 166 * 0.0001);

    std::ifstream in(path, std::ios::binary);
    headred::safetensors_stream stream(in, path.string());
    std::uint64_t sum = 0;
    double worst = 0;
    while (stream.next()) {
      const auto t = stream.load<std::uint16_t, 4>(be);
      const auto mapped = file.bytes(stream.info().name);
      CHECK(mapped.size() == t.bytes());
      CHECK(std::memcmp(mapped.data(), t.data(), t.bytes()) == 0);
      for (index_t row = 0; row < t.size() / t.extent(3); ++row) {
        unsigned total = 0;
        for (index_t key = 0; key < t.extent(3); ++key) total += t.data()[row * t.extent(3) + key];
        sum += total;
        worst = std::max(worst, std::abs(total * 1e-4 - 1));
      }
    }
    CHECK(sum == 1864742410);  // as NumPy adds them up
    CHECK(worst < 1e-3);
  }

  TEST_CASE("real files: NumPy's reference matrices, and written again without a difference") {
    const auto folder = headred_test::shared_dir() / "oracles/bert_base_sst2/four";
    if (!std::filesystem::exists(folder)) return headred_test::skip("no reference matrices");
    headred::cpu be{{.threads = 1}};
    const struct {
      const char* name;
      double twins, corner;
    } references[] = {{"jensen_shannon", 0.024156398810749047, 0.4136284485779305},
                      {"procrustes", 0.0020800059911345314, 0.7079060074676208}};
    for (const auto& reference : references) {
      const auto path = folder / (std::string(reference.name) + ".npy");
      const auto header = headred::read_npy_header(path);
      CHECK(header.type == headred::dtype::f64);
      CHECK(header.rank() == 2);
      const auto m = headred::load_npy<double, 2>(be, path);
      REQUIRE(m.shape() == headred::shape_t<2>{144, 144});
      CHECK(m(24, 33) == reference.twins);
      CHECK(m(0, 143) == reference.corner);
      const headred_test::temporary_folder out;
      headred::save_npy(out / "m.npy", m);
      const auto again = headred::load_npy<double, 2>(be, out / "m.npy");
      CHECK(std::memcmp(again.data(), m.data(), m.bytes()) == 0);
    }
  }
}
