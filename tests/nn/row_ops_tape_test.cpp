#include <headred/nn/op/add.hpp>
#include <headred/nn/op/dropout.hpp>
#include <headred/nn/op/embedding.hpp>
#include <headred/nn/op/gelu.hpp>
#include <headred/nn/op/layer_norm.hpp>
#include <headred/nn/op/linear.hpp>
#include <headred/nn/op/relu.hpp>
#include <headred/nn/op/sinusoidal_positions.hpp>
#include <headred/nn/op/softmax_cross_entropy.hpp>

#include "nn/op_support.hpp"

namespace hr = headred;
using op_test::gapped;

namespace {

template <class T>
using weights = hr::parameter<T, 2, hr::cpu>;
template <class T>
using vector_weights = hr::parameter<T, 1, hr::cpu>;

/// Every row-wise op once, in a net of one hidden layer.
template <class T>
struct small_net {
  static constexpr hr::index_t words = 7, width = 6, hidden = 9;
  const std::vector<std::int32_t> ids{3, 1, 3, 6, 0}, types{0, 1, 1, 0, 1}, positions{0, 1, 2, 0, 1},
      wanted{2, -1, 6, 0, 3};

  hr::cpu& be;
  weights<T> tokens{be, {words, width}}, kinds{be, {2, width}}, in{be, {hidden, width}}, out{be, {words, width}},
      down{be, {width, hidden}};
  vector_weights<T> scale{be, {width}}, shift{be, {width}}, in_bias{be, {hidden}}, down_bias{be, {width}};
  hr::tensor<T, 2, hr::cpu> place{be, {3, width}};

  explicit small_net(hr::cpu& backend) : be(backend) {
    std::uint64_t seed = 1;
    const auto fill = [&](auto& p) {
      const hr::random_stream draws(seed++);
      for (hr::index_t i = 0; i < p.value.size(); ++i)
        p.value.data()[i] = static_cast<T>(draws.uniform(static_cast<std::uint64_t>(i)) - .5);
    };
    for (auto* p : {&tokens, &kinds, &in, &out, &down}) fill(*p);
    for (auto* p : {&scale, &shift, &in_bias, &down_bias}) fill(*p);
    hr::sinusoidal_positions(place.view(), hr::sinusoid_form::split_from_one);
  }
  void train(bool on) {
    for (auto* p : {&tokens, &kinds, &in, &out, &down}) p->train(be, on);
    for (auto* p : {&scale, &shift, &in_bias, &down_bias}) p->train(be, on);
  }

  hr::slot loss(hr::tape<T, hr::cpu>& t) {
    using list = std::span<const std::int32_t>;
    const hr::slot x = hr::embedding(t, list(ids), tokens, T(2));
    hr::add_embedding(t, x, list(types), kinds);
    hr::add_embedding(t, x, list(positions), std::as_const(place).view());
    hr::slot y = hr::layer_norm(t, x, scale, shift, T(1e-3));
    y = hr::linear(t, y, in, &in_bias);
    y = hr::add(t, hr::gelu(t, y, hr::gelu_form::erf), hr::gelu(t, y, hr::gelu_form::tanh));
    y = hr::dropout(t, y, .25, hr::random_stream(4));
    y = hr::softmax(t, y);
    y = hr::add(t, x, hr::linear(t, hr::relu(t, y), down, &down_bias));
    y = hr::linear(t, y, out, nullptr);
    return hr::softmax_cross_entropy(t, y, list(wanted), .1, T(.25)).total;
  }
};

}  // namespace

TEST_SUITE("nn") {
  TEST_CASE("a net of all row-wise ops: every parameter's gradient equals 4-point differences") {
    hr::cpu be{{.threads = 1}};
    small_net<double> net(be);
    net.train(true);
    hr::tape<double, hr::cpu> t(be), quick(be, hr::tape_mode::inference);
    const hr::slot loss = net.loss(t);
    *t.gradient(loss).data() = 1;
    t.backward();
    const auto value = [&] {
      quick.clear();
      return *quick.value(net.loss(quick)).data();
    };
    CHECK(value() == *t.value(loss).data());
    CHECK(quick.recorded() == 0);
    const auto check = [&](auto& p) {
      for (hr::index_t i = 0; i < p.value.size(); ++i)
        REQUIRE(op_test::slope(p.value.data()[i], value) == doctest::Approx(p.gradient.data()[i]).epsilon(1e-8));
    };
    for (auto* p : {&net.tokens, &net.kinds, &net.in, &net.out, &net.down}) check(*p);
    for (auto* p : {&net.scale, &net.shift, &net.in_bias, &net.down_bias}) check(*p);
    // the same recording again adds the same once more, in the same memory
    const double once = net.in.gradient(4, 3);
    const std::size_t bytes = t.bytes();
    t.clear();
    *t.gradient(net.loss(t)).data() = 1;
    t.backward();
    CHECK(net.in.gradient(4, 3) == 2 * once);
    CHECK(t.bytes() == bytes);
  }

  TEST_CASE_TEMPLATE("a net of all row-wise ops: threads, untrained weights, no seed", T, float, double) {
    const auto run = [](int threads, bool trained, bool seeded) {
      hr::cpu be{{.threads = threads}};
      small_net<T> net(be);
      net.train(trained);
      hr::tape<T, hr::cpu> t(be);
      const hr::slot loss = net.loss(t);
      if (seeded) *t.gradient(loss).data() = T(1);
      t.backward();
      std::vector<T> all{*t.value(loss).data()};
      for (const auto* p : {&net.tokens, &net.in, &net.out})
        all.insert(all.end(), p->gradient.data(), p->gradient.data() + p->gradient.size());
      return all;
    };
    const auto one = run(1, true, true);
    CHECK(one.size() > 100);
    CHECK(one == run(2, true, true));
    CHECK(one == run(3, true, true));
    CHECK(run(1, false, true) == std::vector<T>{one[0]});
    const auto unseeded = run(1, true, false);
    CHECK(std::all_of(unseeded.begin() + 1, unseeded.end(), [](T x) { return x == T(0); }));
  }

  TEST_CASE("dropout of probability 0 adds no activation") {
    hr::cpu be{{.threads = 1}};
    hr::tape<float, hr::cpu> t(be);
    const hr::slot x = t.add(2, 3);
    CHECK(hr::dropout(t, x, 0., hr::random_stream(1)) == x);
    CHECK(t.recorded() == 0);
    CHECK_THROWS_AS(hr::dropout(t, x, 2., hr::random_stream(1)), hr::argument_error);
  }
}
