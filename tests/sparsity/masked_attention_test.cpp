// Learned masks through attention and back to their parameters.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/core/as_view.hpp>
#include <headred/nn/op/attention.hpp>
#include <headred/sparsity.hpp>

#include "environment.hpp"
#include "oracle/gates.hpp"

namespace hr = headred;

namespace {

constexpr hr::index_t heads = 2, size = 3, longest = 6;

/// Sentences of 1, 4, 6 tokens, attention under a mask made of parameters, and a loss that is linear in its output.
struct masked_attention {
  hr::cpu be{{.threads = 2}};
  std::vector<hr::sequence> sentences{{0, 1}, {1, 4}, {5, 6}};
  std::vector<double> q, k, v, weight, out, context, probabilities;
  std::vector<double> mask = std::vector<double>(heads * longest * longest);
  hr::attention_workspace<double> workspace;
  hr::gumbel_sigmoid policy{.temperature = .8};
  hr::random_stream draws{5, 1};
  bool diagonal = true;

  masked_attention() {
    const hr::random_stream random(headred_test::seed());
    std::uint64_t n = 0;
    for (auto* m : {&q, &k, &v, &weight})
      for (int i = 0; i < 11 * heads * size; ++i) m->push_back(2 * random.uniform(n++) - 1);
    out.resize(q.size());
  }
  static hr::tensor_view<double, 2> rows(std::vector<double>& m) { return {m.data(), {11, heads * size}}; }
  hr::tensor_view<double, 3> mask_view() { return {mask.data(), {heads, longest, longest}}; }
  hr::attention_inputs<double> inputs() {
    hr::attention_inputs<double> in;
    in.shape = {heads, heads, size};
    in.options.mask_penalty = 3;
    in.queries = in.keys = sentences;
    in.q = rows(q);
    in.k = rows(k);
    in.v = rows(v);
    in.mask = mask_view();
    return in;
  }
  void make_mask(std::vector<double>& a, bool structured) {
    std::vector<double> sampled(a.size());
    hr::gumbel_sigmoid_sample(be, policy, hr::as_view(a), draws, hr::as_view(sampled));
    if (structured)
      hr::structured_mask(be, hr::tensor_view<double, 2>(sampled.data(), {heads, longest}), mask_view());
    else
      hr::unstructured_mask(be, hr::tensor_view<double, 3>(sampled.data(), {heads, longest, longest}), mask_view());
    if (!diagonal) hr::remove_diagonal(be, mask_view());
  }
  double loss(std::vector<double>& a, bool structured) {
    make_mask(a, structured);
    const auto in = inputs();
    probabilities.resize(static_cast<std::size_t>(hr::attention_probability_count(in.shape, in.queries, in.keys)));
    hr::attention_forward(be, in, rows(out), probabilities.data(), {}, workspace);
    double sum = .01 * hr::mask_penalty(be, mask_view());
    for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * weight[i];
    return sum;
  }
  std::vector<double> gradient(std::vector<double>& a, bool structured) {
    loss(a, structured);
    std::vector<double> dmask(mask.size(), .01), dsampled(a.size(), 0), da(a.size(), 0);
    hr::attention_gradients<double> d;
    const hr::tensor_view<double, 3> view(dmask.data(), {heads, longest, longest});
    d.mask = view;
    hr::attention_gradient(be, inputs(), probabilities.data(), {}, rows(weight), d, workspace);
    if (!diagonal) hr::remove_diagonal(be, view);
    if (structured)
      hr::structured_mask_gradient(be, view, hr::tensor_view<double, 2>(dsampled.data(), {heads, longest}));
    else
      hr::unstructured_mask_gradient(be, view, hr::tensor_view<double, 3>(dsampled.data(), {heads, longest, longest}));
    hr::gumbel_sigmoid_gradient(be, policy, hr::as_view(a), draws, hr::as_view(dsampled), hr::as_view(da));
    return da;
  }
};

}  // namespace

TEST_SUITE("sparsity") {
  TEST_CASE("masked attention: the gradient of mask parameters, by 4-point differences") {
    for (const bool structured : {true, false})
      for (const bool diagonal : {true, false}) {
        masked_attention m;
        m.diagonal = diagonal;
        std::vector<double> a(structured ? heads * longest : heads * longest * longest);
        for (std::size_t i = 0; i < a.size(); ++i) a[i] = m.draws.uniform(i) - .3;
        const auto found = m.gradient(a, structured);
        double worst = 0, largest = 0;
        for (std::size_t i = 0; i < a.size(); ++i) {
          const double at = a[i], h = 1e-3;
          const auto moved = [&](double by) {
            a[i] = at + by;
            return m.loss(a, structured);
          };
          const double slope = (moved(-2 * h) - 8 * moved(-h) + 8 * moved(h) - moved(2 * h)) / (12 * h);
          a[i] = at;
          worst = std::max(worst, std::abs(slope - found[i]));
          largest = std::max(largest, std::abs(slope));
        }
        CHECK(worst < 1e-9);
        CHECK(largest > .01);
      }
  }

  TEST_CASE("masked attention: without the diagonal a lone token sees nothing; masked places have probability 0") {
    masked_attention m;
    m.diagonal = false;
    m.policy.straight_through = true;
    std::vector<double> a(heads * longest, .4);
    m.loss(a, true);
    for (int c = 0; c < heads * size; ++c) CHECK(m.out[static_cast<std::size_t>(c)] == 0);
    const auto in = m.inputs();
    for (hr::index_t b = 0; b < 3; ++b) {
      const auto p = hr::attention_probabilities(m.probabilities.data(), in.shape, in.queries, in.keys, b);
      for (hr::index_t h = 0; h < heads; ++h)
        for (hr::index_t i = 0; i < p.extent(1); ++i) {
          double sum = 0, seen = 0;
          for (hr::index_t j = 0; j < p.extent(2); ++j) {
            if (m.mask_view()(h, i, j) == 0) CHECK(p(h, i, j) == 0);
            seen += m.mask_view()(h, i, j);
            sum += p(h, i, j);
          }
          CHECK(sum == doctest::Approx(seen > 0 ? 1 : 0));
        }
    }
    for (const double x : m.gradient(a, true)) CHECK(std::isfinite(x));
  }
}
