// All seven distances on real BERT-base maps against the float64 references.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include <headred/io/safetensors.hpp>

#include "distance/every_distance.hpp"
#include "environment.hpp"
#include "oracle/npy_matrix.hpp"

namespace hr = headred;
using namespace headred_test;

namespace {

double worst_difference(const hr::matrix& a, const hr::matrix& b) {
  REQUIRE(a.rows() == b.rows());
  double worst = 0;
  for (hr::index_t i = 0; i < a.rows() * a.cols(); ++i) worst = std::max(worst, std::abs(a.data()[i] - b.data()[i]));
  return worst;
}

template <class Real>
void check(const std::filesystem::path& shared, const std::string& set, double limit) {
  const hr::safetensors_file file(shared / "data/bert_base_sst2/attention.safetensors");
  std::vector<std::string> names = file.names();
  if (set == "four") names = {"attn.63", "attn.71", "attn.123", "attn.302"};
  hr::cpu be;
  for_every_distance([&](const auto& policy) {
    hr::redundancy<std::decay_t<decltype(policy)>, hr::cpu> red{be, {12, 12}};
    for (const auto& name : names) red.template add<Real>(file.view<std::uint16_t, 4>(name), {.scale = 1e-4});
    CHECK(red.sentences() == static_cast<hr::index_t>(names.size()));
    const auto reference = oracle::npy_matrix(shared / "oracles/bert_base_sst2" / set / (name_of(policy) + ".npy"));
    const double worst = worst_difference(red.matrix(), reference);
    MESSAGE(name_of(policy), ", ", set, ", ", sizeof(Real) == 8 ? "f64" : "f32", ": ", worst);
    CHECK(worst <= limit);
    if (sizeof(Real) == 8) CHECK(red.matrix()(24, 33) == doctest::Approx(reference(24, 33)).epsilon(1e-9));
  });
}

}  // namespace

TEST_SUITE("real") {
  TEST_CASE("BERT-base, four sentences, f64 to 1e-10 and f32 to 2e-6") {
    const auto shared = shared_dir();
    if (shared.empty()) return skip("no folder with real data");
    check<double>(shared, "four", 1e-10);
    check<float>(shared, "four", 2e-6);
  }

  TEST_CASE("BERT-base, all forty sentences, f64 to 1e-10 and f32 to 2e-6") {
    const auto shared = shared_dir();
    if (shared.empty()) return skip("no folder with real data");
    check<double>(shared, "all", 1e-10);
    check<float>(shared, "all", 2e-6);
  }
}
