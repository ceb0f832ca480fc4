// The device's distances on real BERT-base maps, against the float64 references; emulated.
#include <headred/device/redundancy.hpp>
#include <headred/io/safetensors.hpp>

#include "device.hpp"

#include "../oracle/npy_matrix.hpp"

using namespace headred_test;

namespace {

template <class T, class Rule>
void check(const std::filesystem::path& shared, double limit) {
  const hr::safetensors_file file(shared / "data/bert_base_sst2/attention.safetensors");
  hr::cuda be;
  hr::device::redundancy<Rule, hr::cuda> red(be, 12, 12);
  for (const char* name : {"attn.63", "attn.71", "attn.123", "attn.302"}) {
    const auto stored = file.view<std::uint16_t, 4>(name);  // in units of 1e-4
    REQUIRE(stored.contiguous());
    std::vector<T> maps;
    for (hr::index_t i = 0; i < stored.size(); ++i) maps.push_back(static_cast<T>(stored.data()[i] * 1e-4));
    auto x = put<T, 4>(be, maps, stored.shape());
    red.add(x.view());
  }
  const auto reference =
      oracle::npy_matrix(shared / "oracles/bert_base_sst2/four" / (std::string(Rule::name) + ".npy"));
  const auto found = red.matrix();
  double worst = 0;
  for (hr::index_t i = 0; i < found.rows() * found.cols(); ++i)
    worst = std::max(worst, std::fabs(found.data()[i] - reference.data()[i]));
  MESSAGE(std::string(Rule::name), sizeof(T) == 8 ? ", f64: " : ", f32: ", worst);
  CHECK(worst <= limit);
}

}  // namespace

TEST_SUITE("cuda") {
  // The emulator takes ten seconds for each distance: one tabulated and one plain product stand for all.
  TEST_CASE("BERT-base, four sentences, f32 to 2e-6, on the device") {
    const auto shared = shared_dir();
    if (shared.empty()) return skip("no folder with real data");
    check<float, hr::device::jensen_shannon>(shared, 2e-6);
    check<float, hr::device::cosine>(shared, 2e-6);
  }
}
