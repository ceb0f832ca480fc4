#include <doctest/doctest.h>

#include <Eigen/Core>
#include <cstdint>
#include <span>
#include <vector>
#include <xtensor/xarray.hpp>
#include <xtensor/xtensor.hpp>
#include <xtensor/xview.hpp>

#include <headred/backend/cpu.hpp>
#include <headred/backend/tensor.hpp>
#include <headred/core/as_view.hpp>
#include <headred/core/float16.hpp>
#include <headred/core/matrix.hpp>

namespace hr = headred;

namespace {

// Structure of a torch::Tensor, as far as as_view looks.
struct torch_like {
  std::vector<std::int64_t> shape, steps;
  void* memory = nullptr;
  bool on_host = true;
  std::int64_t dim() const { return static_cast<std::int64_t>(shape.size()); }
  const std::vector<std::int64_t>& sizes() const { return shape; }
  const std::vector<std::int64_t>& strides() const { return steps; }
  bool is_cpu() const { return on_host; }
  template <class T>
  T* data_ptr() const {
    return static_cast<T*>(memory);
  }
};

// DLPack's DLTensor.
struct dlpack_like {
  struct device_t {
    int device_type, device_id;
  };
  struct type_t {
    std::uint8_t code, bits;
    std::uint16_t lanes;
  };
  void* data;
  device_t device;
  std::int32_t ndim;
  type_t dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};

// std::mdspan, as far as as_view looks.
struct mdspan_like {
  double* memory;
  static constexpr std::size_t rank() { return 3; }
  double* data_handle() const { return memory; }
  std::int32_t extent(std::size_t i) const { return static_cast<std::int32_t>(i) + 2; }
  std::size_t stride(std::size_t i) const { return i == 0 ? 12 : i == 1 ? 4 : 1; }
};

std::vector<double> counted(std::size_t n) {
  std::vector<double> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<double>(i);
  return v;
}

}  // namespace

TEST_SUITE("core") {
  TEST_CASE("as_view of Eigen: both orders, arrays, maps, blocks, transposes") {
    Eigen::MatrixXf columns(2, 3);
    columns << 0, 1, 2, 3, 4, 5;
    const auto v = hr::as_view(columns);
    static_assert(decltype(v)::rank == 2);
    CHECK(v.shape() == hr::shape_t<2>{2, 3});
    CHECK(v.strides() == hr::shape_t<2>{1, 2});
    CHECK(v(1, 2) == 5);
    v(1, 2) = 50;
    CHECK(columns(1, 2) == 50);
    const Eigen::Matrix<double, 2, 3, Eigen::RowMajor> rows = columns.cast<double>();
    CHECK(hr::as_view(rows).contiguous());
    static_assert(std::is_same_v<decltype(hr::as_view(rows))::element_type, const double>);
    CHECK(hr::as_view(rows)(0, 1) == 1);
    Eigen::ArrayXXf array = columns.array();
    CHECK(hr::as_view(array)(1, 0) == 3);
    CHECK(hr::as_view(columns.block(0, 1, 2, 2))(1, 0) == 4);
    CHECK(hr::as_view(columns.transpose())(2, 1) == 50);
    const Eigen::Map<const Eigen::MatrixXf, 0, Eigen::Stride<-1, -1>> map(columns.data(), 2, 2, {4, 1});
    CHECK(hr::as_view(map)(0, 1) == columns(0, 2));
    CHECK(hr::as_view<2>(columns)(0, 2) == 2);
    static_assert(hr::viewable_as<Eigen::MatrixXf&, 2> && !hr::viewable_as<Eigen::MatrixXf&, 4>);
  }

  TEST_CASE("as_view of xtensor: tensor, view, column-major, xarray with a named rank") {
    xt::xtensor<double, 3> a = xt::arange<double>(24).reshape({2, 3, 4});
    CHECK(hr::as_view(a)(1, 2, 3) == 23);
    CHECK(hr::as_view(a).contiguous());
    auto part = xt::strided_view(a, {1, xt::all(), xt::range(1, 3)});
    const auto p = hr::as_view<2>(part);
    CHECK(p.shape() == hr::shape_t<2>{3, 2});
    CHECK(p(2, 1) == 22);
    const xt::xtensor<double, 2, xt::layout_type::column_major> c{{1, 2, 3}, {4, 5, 6}};
    CHECK(hr::as_view(c)(1, 2) == 6);
    CHECK(hr::as_view(c).strides() == hr::shape_t<2>{1, 2});
    xt::xarray<float> free = xt::ones<float>({2, 2, 5});
    free(1, 1, 4) = 7;
    CHECK(hr::as_view<3>(free)(1, 1, 4) == 7);
    CHECK_THROWS_WITH_AS(hr::as_view<4>(free), "as_view: the tensor has rank 3, expected 4", hr::shape_error);
    static_assert(!hr::viewable<xt::xarray<float>>);
    static_assert(hr::viewable_as<xt::xtensor<float, 4>&, 4>);
    // axes of length one have stride 0 in xtensor
    xt::xtensor<double, 2> one = xt::ones<double>({1, 4});
    CHECK(hr::as_view(one)(0, 3) == 1);
    CHECK(hr::as_view(one).contiguous());
  }

  TEST_CASE("as_view of mdspan-like, containers, views, matrices and tensors") {
    auto values = counted(24);
    const auto v = hr::as_view(mdspan_like{values.data()});
    static_assert(decltype(v)::rank == 3);
    CHECK(v.shape() == hr::shape_t<3>{2, 3, 4});
    CHECK(v(1, 2, 3) == 23);
    CHECK(hr::as_view(values)(5) == 5);
    CHECK(hr::as_view(std::span<const double>(values))(6) == 6);
    std::array<int, 3> small{1, 2, 3};
    CHECK(hr::as_view(small).shape() == hr::shape_t<1>{3});
    const hr::tensor_view<double, 2> self(values.data(), {4, 6});
    CHECK(hr::as_view(self)(1, 1) == 7);
    hr::matrix m(2, 2);
    m(0, 1) = 9;
    CHECK(hr::as_view(m)(0, 1) == 9);
    hr::cpu be{{.threads = 1}};
    hr::tensor<float, 4, hr::cpu> t(be, {1, 2, 3, 4});
    t(0, 1, 2, 3) = 8;
    CHECK(hr::as_view(t)(0, 1, 2, 3) == 8);
    static_assert(hr::viewable_as<hr::tensor<float, 4, hr::cpu>&, 4>);
    static_assert(!hr::viewable<int> && !hr::viewable<torch_like>);
  }

  TEST_CASE("as_view of torch-like tensors") {
    auto values = counted(6);
    torch_like t{{2, 3}, {3, 1}, values.data()};
    CHECK(hr::as_view<double, 2>(t)(1, 2) == 5);
    CHECK(hr::as_view<const double, 2>(t)(1, 1) == 4);
    t.steps = {1, 2};
    CHECK(hr::as_view<double, 2>(t)(1, 2) == 5);
    CHECK(hr::as_view<double, 2>(t)(1, 0) == 1);
    CHECK_THROWS_WITH_AS((hr::as_view<double, 3>(t)), "as_view: the tensor has rank 2, expected 3", hr::shape_error);
    t.on_host = false;
    CHECK_THROWS_WITH_AS((hr::as_view<double, 2>(t)), "as_view: the tensor is not in host memory", hr::argument_error);
  }

  TEST_CASE("as_view of DLPack-like tensors checks element type, rank and device") {
    std::vector<float> values(12);
    for (std::size_t i = 0; i < 12; ++i) values[i] = static_cast<float>(i);
    std::int64_t shape[] = {2, 5}, strides[] = {5, 1};
    dlpack_like t{values.data(), {1, 0}, 2, {2, 32, 1}, shape, nullptr, 8};
    CHECK(hr::as_view<const float, 2>(t)(0, 0) == 2);  // byte_offset
    CHECK(hr::as_view<float, 2>(t)(1, 4) == 11);       // no strides: row-major
    t.strides = strides;
    strides[0] = 1;
    CHECK(hr::as_view<float, 2>(t)(1, 4) == 7);
    CHECK_THROWS_WITH_AS((hr::as_view<float, 4>(t)), "as_view: the tensor has rank 2, expected 4", hr::shape_error);
    const char* other = "as_view: the tensor's element type is not the one asked for";
    CHECK_THROWS_WITH_AS((hr::as_view<double, 2>(t)), other, hr::argument_error);
    CHECK_THROWS_WITH_AS((hr::as_view<std::int32_t, 2>(t)), other, hr::argument_error);
    CHECK_THROWS_AS((hr::as_view<hr::float16, 2>(t)), hr::argument_error);
    t.dtype = {2, 16, 1};
    CHECK_NOTHROW((hr::as_view<hr::float16, 2>(t)));
    CHECK_THROWS_WITH_AS((hr::as_view<hr::bfloat16, 2>(t)), other, hr::argument_error);
    t.dtype = {4, 16, 1};
    CHECK_NOTHROW((hr::as_view<hr::bfloat16, 2>(t)));
    CHECK_THROWS_WITH_AS((hr::as_view<hr::float16, 2>(t)), other, hr::argument_error);
    t.dtype = {1, 16, 1};
    CHECK_NOTHROW((hr::as_view<const std::uint16_t, 2>(t)));
    t.dtype = {1, 16, 2};
    CHECK_THROWS_WITH_AS((hr::as_view<const std::uint16_t, 2>(t)), other, hr::argument_error);
    t.dtype = {2, 32, 1};
    t.device.device_type = 2;
    CHECK_THROWS_WITH_AS((hr::as_view<float, 2>(t)), "as_view: the tensor is not in host memory", hr::argument_error);
  }
}
