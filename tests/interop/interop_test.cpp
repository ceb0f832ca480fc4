#include <doctest/doctest.h>

#include <Eigen/Core>
#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <unsupported/Eigen/CXX11/Tensor>
#include <utility>
#include <vector>
#include <version>
#if defined(__cpp_lib_mdspan)
#include <mdspan>
#endif

#if __has_include(<xtensor/containers/xtensor.hpp>)  // from 0.26 on
#include <xtensor/containers/xadapt.hpp>
#include <xtensor/containers/xarray.hpp>
#include <xtensor/containers/xfixed.hpp>
#include <xtensor/containers/xtensor.hpp>
#include <xtensor/views/xstrided_view.hpp>
#include <xtensor/views/xview.hpp>
#else
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xfixed.hpp>
#include <xtensor/xstrided_view.hpp>
#include <xtensor/xtensor.hpp>
#include <xtensor/xview.hpp>
#endif

#include <headred/backend/cpu.hpp>
#include <headred/backend/tensor.hpp>
#include <headred/core/random.hpp>
#include <headred/distance/cosine.hpp>
#include <headred/distance/pairwise.hpp>
#include <headred/interop/dlpack.hpp>

namespace hr = headred;
using hr::index_t;

namespace {

// The structs of dlpack.h, version 1.1, by their members.
struct device_t {
  int device_type;
  std::int32_t device_id;
};
struct element_t {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct dl_tensor_t {
  void* data;
  device_t device;
  std::int32_t ndim;
  element_t dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};
struct managed_t {
  dl_tensor_t dl_tensor;
  void* manager_ctx;
  void (*deleter)(managed_t*);
};
struct versioned_t {
  struct {
    std::uint32_t major, minor;
  } version;
  void* manager_ctx;
  void (*deleter)(versioned_t*);
  std::uint64_t flags;
  dl_tensor_t dl_tensor;
};

// std::mdspan, as far as as_view looks: the handle comes by reference, extents are of any integer type; Reference is
// what the accessor returns.
template <class T, class Index, std::size_t Rank, class Reference = T&>
struct small_mdspan {
  using element_type = T;
  using reference = Reference;
  T* memory;
  std::array<Index, Rank> extents, steps;
  static constexpr std::size_t rank() { return Rank; }
  T* const& data_handle() const { return memory; }
  Index extent(std::size_t i) const { return extents[i]; }
  Index stride(std::size_t i) const { return steps[i]; }
};

std::vector<float> counted(index_t n) {
  std::vector<float> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i);
  return v;
}

/// Every element of a view of a matrix is the matrix's own: same value, same address.
template <class Matrix>
bool looks_at(Matrix& m) {
  const auto v = hr::as_view(m);
  bool same = v.extent(0) == m.rows() && v.extent(1) == m.cols();
  for (index_t i = 0; same && i < v.extent(0); ++i)
    for (index_t j = 0; j < v.extent(1); ++j) same = same && &v(i, j) == &m.coeffRef(i, j);
  return same;
}

struct attention_maps {
  static constexpr index_t layers = 2, heads = 3, tokens = 5;
  std::vector<float> values;

  attention_maps() {
    const hr::random_stream random(11);
    std::uint64_t drawn = 0;
    for (index_t row = 0; row < layers * heads * tokens; ++row) {
      std::array<double, tokens> p{};
      double sum = 0;
      for (double& x : p) sum += x = random.uniform(drawn++);
      for (const double x : p) values.push_back(static_cast<float>(x / sum));
    }
  }
  hr::tensor_view<float, 4> view() { return {values.data(), {layers, heads, tokens, tokens}}; }

  /// The same maps in somebody else's container.
  template <class At>
  void copy_to(const At& at) {
    const auto v = view();
    for (index_t l = 0; l < layers; ++l)
      for (index_t h = 0; h < heads; ++h)
        for (index_t t = 0; t < tokens; ++t)
          for (index_t s = 0; s < tokens; ++s) at(l, h, t, s) = v(l, h, t, s);
  }
};

}  // namespace

TEST_SUITE("interop") {
  TEST_CASE("Eigen: both majors, fixed and dynamic, blocks, transposes, maps with strides, Ref, vectors") {
    Eigen::MatrixXf columns = Eigen::MatrixXf::Random(4, 6);
    Eigen::Matrix<float, 4, 6, Eigen::RowMajor> rows = columns;
    Eigen::Array<double, Eigen::Dynamic, 3, Eigen::RowMajor> array =
        Eigen::Array<double, Eigen::Dynamic, 3, Eigen::RowMajor>::Random(5, 3);
    CHECK(looks_at(columns));
    CHECK(looks_at(rows));
    CHECK(looks_at(array));
    CHECK(hr::as_view(rows).contiguous());
    CHECK_FALSE(hr::as_view(columns).contiguous());
    auto block = columns.block(1, 2, 2, 3);
    auto block_of_block = rows.block<3, 4>(1, 1).block(0, 1, 2, 2);
    auto transposed = rows.transpose();
    auto row = columns.row(2);
    auto middle = rows.middleCols(2, 3);
    CHECK(looks_at(block));
    CHECK(looks_at(block_of_block));
    CHECK(looks_at(transposed));
    CHECK(looks_at(row));
    CHECK(looks_at(middle));
    auto memory = counted(60);
    Eigen::Map<Eigen::MatrixXf, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>> both(memory.data(), 3, 4, {13, 2});
    Eigen::Map<Eigen::Matrix<float, -1, -1, Eigen::RowMajor>, 0, Eigen::OuterStride<>> outer(memory.data() + 1, 3, 4,
                                                                                             Eigen::OuterStride<>(11));
    Eigen::Map<Eigen::VectorXf, 0, Eigen::InnerStride<3>> inner(memory.data(), 7);
    CHECK(looks_at(both));
    CHECK(looks_at(outer));
    CHECK(looks_at(inner));
    Eigen::Ref<Eigen::MatrixXf, 0, Eigen::OuterStride<>> ref(columns.leftCols(3));
    CHECK(looks_at(ref));
    Eigen::VectorXd vector = Eigen::VectorXd::Random(5);
    Eigen::RowVector3f row_vector(1, 2, 3);
    CHECK(looks_at(vector));
    CHECK(looks_at(row_vector));
    const Eigen::MatrixXf& read_only = columns;
    static_assert(std::is_same_v<decltype(hr::as_view(read_only))::element_type, const float>);
    static_assert(!hr::viewable<decltype(columns + columns)>);  // an expression has no memory
    Eigen::MatrixXf none(0, 4);
    CHECK(hr::as_view(none).empty());
  }

  TEST_CASE("Eigen::Tensor in both majors, TensorMap, TensorFixedSize") {
    Eigen::Tensor<float, 3> columns(2, 3, 4);
    Eigen::Tensor<float, 3, Eigen::RowMajor> rows(2, 3, 4);
    Eigen::TensorFixedSize<double, Eigen::Sizes<2, 3>> fixed;
    const auto c = hr::as_view(columns);
    const auto r = hr::as_view(rows);
    const auto f = hr::as_view(fixed);
    static_assert(decltype(c)::rank == 3 && decltype(f)::rank == 2);
    CHECK(c.shape() == hr::shape_t<3>{2, 3, 4});
    CHECK(c.strides() == hr::shape_t<3>{1, 2, 6});
    CHECK(r.strides() == hr::shape_t<3>{12, 4, 1});
    CHECK(f.strides() == hr::shape_t<2>{1, 2});
    auto memory = counted(24);
    const Eigen::TensorMap<Eigen::Tensor<float, 3, Eigen::RowMajor>> map(memory.data(), 2, 3, 4);
    const Eigen::TensorMap<const Eigen::Tensor<float, 3>> const_map(memory.data(), 2, 3, 4);
    bool same = true;
    for (index_t i = 0; i < 2; ++i)
      for (index_t j = 0; j < 3; ++j)
        for (index_t k = 0; k < 4; ++k) {
          same = same && &c(i, j, k) == &columns(i, j, k) && &r(i, j, k) == &rows(i, j, k);
          same = same && hr::as_view(map)(i, j, k) == map(i, j, k);
          same = same && hr::as_view(const_map)(i, j, k) == const_map(i, j, k);
        }
    CHECK(same);
    CHECK(&f(1, 2) == &fixed(1, 2));
    // a temporary map is a view; a const tensor gives const elements
    CHECK(hr::as_view(Eigen::TensorMap<Eigen::Tensor<float, 2>>(memory.data(), 4, 6))(3, 5) == 23);
    const auto& read_only = columns;
    static_assert(std::is_same_v<decltype(hr::as_view(read_only))::element_type, const float>);
    static_assert(hr::viewable_as<Eigen::Tensor<double, 4>&, 4> && !hr::viewable_as<Eigen::Tensor<double, 4>&, 1>);
    // expressions and references to expressions have no memory, a scalar no axis
    static_assert(!hr::viewable<decltype(columns + columns)> &&
                  !hr::viewable<Eigen::TensorRef<Eigen::Tensor<float, 3>>>);
    static_assert(!hr::viewable<Eigen::Tensor<float, 0>>);
  }

  TEST_CASE("xtensor: containers, views with negative steps, adapted memory") {
    xt::xtensor<float, 3> a = xt::arange<float>(24).reshape({2, 3, 4});
    auto view = xt::view(a, 1, xt::all(), xt::range(1, 4, 2));
    CHECK(&hr::as_view(view)(2, 1) == &view(2, 1));
    auto backwards = xt::view(a, xt::all(), xt::range(2, xt::placeholders::_, -1), xt::all());
    const auto b = hr::as_view(backwards);
    CHECK(b.stride(1) < 0);
    CHECK(&b(1, 2, 3) == &a(1, 0, 3));
    auto strided = xt::strided_view(a, {xt::all(), 2});
    CHECK(&hr::as_view<2>(strided)(1, 3) == &a(1, 2, 3));
    auto turned = xt::transpose(a);
    CHECK(&hr::as_view<3>(turned)(3, 2, 1) == &a(1, 2, 3));
    xt::xtensor_fixed<double, xt::xshape<2, 3>> fixed{{1, 2, 3}, {4, 5, 6}};
    CHECK(hr::as_view(fixed)(1, 1) == 5);
    auto memory = counted(12);
    auto adapted = xt::adapt(memory.data(), 12, xt::no_ownership(), std::array<std::size_t, 2>{3, 4});
    CHECK(&hr::as_view(adapted)(2, 3) == &memory[11]);
    xt::xarray<double, xt::layout_type::column_major> free = xt::ones<double>({2, 5});
    CHECK(hr::as_view<2>(free).strides() == hr::shape_t<2>{1, 2});
    CHECK_THROWS_WITH_AS(hr::as_view<3>(free), "as_view: the tensor has rank 2, expected 3", hr::shape_error);
    static_assert(!hr::viewable<decltype(a + a)>);
  }

  TEST_CASE("mdspan: narrow indices, strides, no accessor that computes") {
    auto memory = counted(40);
    const small_mdspan<float, std::int32_t, 3> rows{memory.data(), {2, 3, 4}, {12, 4, 1}};
    CHECK(&hr::as_view(rows)(1, 2, 3) == &memory[23]);
    const small_mdspan<const float, std::uint8_t, 2> strided{memory.data(), {3, 4}, {13, 2}};
    CHECK(&hr::as_view(strided)(2, 3) == &memory[32]);
    // 2^16 x 2^16 elements: the product does not fit the span's own 32 bits
    const small_mdspan<float, std::int32_t, 2> wide{nullptr, {65536, 65536}, {65536, 1}};
    CHECK(hr::as_view(wide).size() == index_t{1} << 32);
    CHECK(hr::as_view(wide).contiguous());
    static_assert(!hr::viewable<small_mdspan<float, std::int32_t, 2, float>>);
#if defined(__cpp_lib_mdspan)
    const std::mdspan span(memory.data(), 4, 5);
    CHECK(&hr::as_view(span)(3, 4) == &memory[19]);
    const std::mdspan columns(memory.data(), std::layout_left::mapping<std::dextents<int, 2>>({4, 5}));
    CHECK(&hr::as_view(columns)(3, 4) == &memory[19]);
    CHECK(hr::as_view(columns).stride(1) == 4);
#endif
  }

  TEST_CASE("raw pointers with strides: negative, zero, transposed") {
    auto memory = counted(12);
    const hr::tensor_view<float, 2> upside_down(memory.data() + 8, {3, 4}, {-4, 1});
    CHECK(upside_down(0, 0) == 8);
    CHECK(upside_down(2, 3) == 3);
    const hr::tensor_view<const float, 2> repeated(memory.data() + 3, {5, 4}, {0, 1});
    CHECK(repeated(4, 2) == 5);
    CHECK(hr::tensor_view<float, 2>(memory.data(), {3, 4}).transposed()(3, 1) == 7);
  }

  TEST_CASE("the distances are the same bits whoever holds the maps") {
    hr::cpu be{{.threads = 1}};
    attention_maps maps;
    constexpr index_t L = attention_maps::layers, H = attention_maps::heads, T = attention_maps::tokens;
    const hr::matrix expected = hr::pairwise(be, maps.view(), hr::cosine{});
    CHECK(expected(0, 1) > 0);

    Eigen::Tensor<float, 4> columns(L, H, T, T);
    maps.copy_to([&](index_t l, index_t h, index_t t, index_t s) -> float& { return columns(l, h, t, s); });
    CHECK(hr::pairwise(be, columns, hr::cosine{}) == expected);
    xt::xtensor<float, 4, xt::layout_type::column_major> x({L, H, T, T});
    maps.copy_to([&](index_t l, index_t h, index_t t, index_t s) -> float& { return x(l, h, t, s); });
    CHECK(hr::pairwise(be, x, hr::cosine{}) == expected);
    const small_mdspan<float, int, 4> span{maps.values.data(), {L, H, T, T}, {H * T * T, T * T, T, 1}};
    CHECK(hr::pairwise(be, span, hr::cosine{}) == expected);
    const auto held = hr::to_dlpack<managed_t>(maps.view());
    CHECK(hr::pairwise(be, hr::dlpack_view<const float, 4>(*held), hr::cosine{}) == expected);
    const Eigen::MatrixXf one = Eigen::Map<Eigen::MatrixXf>(maps.values.data(), T, T).transpose(),
                          two = Eigen::Map<Eigen::MatrixXf>(maps.values.data() + T * T, T, T).transpose();
    CHECK(hr::distance(be, one, two, hr::cosine{}) == expected(0, 1));
  }

  TEST_CASE("dlpack_view: every member is checked") {
    auto memory = counted(24);
    std::int64_t shape[] = {2, 5}, strides[] = {-12, 2};
    dl_tensor_t t{memory.data(), {1, 0}, 2, {2, 32, 1}, shape, nullptr, 8};
    CHECK(&hr::dlpack_view<float, 2>(t)(1, 4) == &memory[11]);
    t.strides = strides;
    t.byte_offset = 48;
    CHECK(&hr::dlpack_view<const float, 2>(t)(1, 4) == &memory[8]);

    for (const int host : {3, 11, 13}) {
      t.device.device_type = host;
      CHECK_NOTHROW(hr::dlpack_view<float, 2>(t));
    }
    const auto on_device = hr::dlpack_view<float, 2, hr::device_space>(t);  // managed memory is both
    static_assert(std::is_same_v<decltype(on_device)::space, hr::device_space>);
    t.device.device_type = 2;
    CHECK(hr::dlpack_view<float, 2, hr::device_space>(t).data() == memory.data() + 12);
    CHECK_THROWS_WITH_AS((hr::dlpack_view<float, 2>(t)),
                         "dlpack_view: the tensor lies in memory of device type 2, expected the host's (1, 3, 11, 13)",
                         hr::argument_error);
    t.device.device_type = 1;
    CHECK_THROWS_WITH_AS((hr::dlpack_view<float, 2, hr::device_space>(t)),
                         "dlpack_view: the tensor lies in memory of device type 1, expected CUDA's (2, 13)",
                         hr::argument_error);
    CHECK_THROWS_WITH_AS(
        (hr::dlpack_view<double, 2>(t)),
        "dlpack_view: the elements are (code 2, 32 bits, 1 lanes), expected (code 2, 64 bits, 1 lanes)",
        hr::argument_error);
    CHECK_THROWS_AS((hr::dlpack_view<std::int32_t, 2>(t)), hr::argument_error);
    CHECK_THROWS_WITH_AS((hr::dlpack_view<float, 3>(t)), "dlpack_view: the tensor has rank 2, expected 3",
                         hr::shape_error);

    auto wrong = t;
    wrong.dtype.lanes = 4;
    CHECK_THROWS_AS((hr::dlpack_view<float, 2>(wrong)), hr::argument_error);
    wrong = t;
    wrong.ndim = -1;
    CHECK_THROWS_AS((hr::dlpack_view<float, 2>(wrong)), hr::shape_error);
    wrong = t;
    wrong.shape = nullptr;
    CHECK_THROWS_WITH_AS((hr::dlpack_view<float, 2>(wrong)), "dlpack_view: the shape is null, expected 2 extents",
                         hr::argument_error);
    wrong = t;
    wrong.data = nullptr;
    CHECK_THROWS_WITH_AS((hr::dlpack_view<float, 2>(wrong)),
                         "dlpack_view: the data is null, expected elements of (2,5)", hr::argument_error);
    wrong = t;
    wrong.byte_offset = 3;
    CHECK_THROWS_WITH_AS((hr::dlpack_view<float, 2>(wrong)),
                         "dlpack_view: the data is not aligned, expected a multiple of 4", hr::argument_error);
  }

  TEST_CASE("dlpack_view: extents and strides that no memory has") {
    float one = 1;
    std::int64_t shape[3] = {}, strides[3] = {};
    dl_tensor_t t{&one, {1, 0}, 3, {2, 32, 1}, shape, nullptr, 0};
    constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max(),
                           least = std::numeric_limits<std::int64_t>::min();
    const auto refused = [&](std::int64_t a, std::int64_t b, std::int64_t c) {
      shape[0] = a, shape[1] = b, shape[2] = c;
      try {
        hr::dlpack_view<float, 3>(t);
      } catch (const hr::shape_error&) {
        return true;
      }
      return false;
    };
    CHECK(refused(1, -1, 1));
    CHECK(refused(0, -1, 1));
    CHECK(refused(1, 1, least));
    CHECK(refused(huge, 1, 1));
    CHECK(refused(huge, huge, huge));
    CHECK(refused(1 << 21, 1 << 21, 1 << 21));
    CHECK(refused(0, huge, 2));  // no element, but a product that overflows on the way
    CHECK_FALSE(refused(0, 1 << 21, 1 << 21));
    CHECK_FALSE(refused(1 << 20, 1 << 20, 1 << 20));
    t.strides = strides;
    CHECK_FALSE(refused(1 << 20, 1, 1));  // every element the same
    strides[0] = huge;
    CHECK(refused(2, 1, 1));
    CHECK_FALSE(refused(1, 1, 1));
    strides[0] = least;
    CHECK(refused(2, 1, 1));
    CHECK(refused(3, 1, 1));
    strides[0] = strides[1] = strides[2] = std::int64_t{1} << 60;
    CHECK(refused(2, 2, 2));
    CHECK_THROWS_WITH_AS((hr::dlpack_view<float, 3>(t)), "dlpack_view: the memory that (2,2,2) spans overflows",
                         hr::shape_error);
    // an empty tensor needs no memory
    t.data = nullptr;
    t.strides = nullptr;
    shape[0] = 0;
    CHECK(hr::dlpack_view<float, 3>(t).empty());
  }

  TEST_CASE("managed tensors: handed over once, freed once, read-only and foreign versions refused") {
    hr::cpu be{{.threads = 1}};
    hr::tensor<float, 2, hr::cpu> mine(be, {3, 4});
    mine(2, 3) = 7;
    float* const memory = mine.data();
    auto out = hr::to_dlpack<managed_t>(std::move(mine));
    CHECK(mine.data() == nullptr);
    CHECK(out->dl_tensor.data == memory);
    CHECK(out->dl_tensor.ndim == 2);
    CHECK(out->dl_tensor.strides[0] == 4);
    CHECK(hr::dlpack_view<float, 2>(*out)(2, 3) == 7);
    managed_t* const raw = out.release();  // as into a capsule
    hr::dlpack_pointer<managed_t> taken(raw);
    CHECK(hr::dlpack_view<const float, 2>(*taken).data() == memory);

    hr::matrix distances(2, 2);
    distances(0, 1) = .5;
    auto versioned = hr::to_dlpack<versioned_t>(std::move(distances));
    CHECK(versioned->version.major == 1);
    CHECK(hr::dlpack_view<double, 2>(*versioned)(0, 1) == .5);
    versioned->flags = 1;
    CHECK(hr::dlpack_view<const double, 2>(*versioned)(0, 1) == .5);
    CHECK_THROWS_WITH_AS((hr::dlpack_view<double, 2>(*versioned)),
                         "dlpack_view: the tensor is read-only, expected a view of const elements", hr::argument_error);
    versioned->version.major = 2;
    CHECK_THROWS_WITH_AS((hr::dlpack_view<const double, 2>(*versioned)),
                         "dlpack_view: the tensor has DLPack version 2, expected 1", hr::argument_error);

    // a foreign deleter is called exactly once, one that is null not at all
    static int freed = 0;
    managed_t foreign{};
    foreign.deleter = [](managed_t*) { ++freed; };
    { const hr::dlpack_pointer<managed_t> held(&foreign); }
    CHECK(freed == 1);
    foreign.deleter = nullptr;
    { const hr::dlpack_pointer<managed_t> held(&foreign); }
    CHECK(freed == 1);

    // a view is lent: any strides, no owner; device memory says so
    auto values = counted(6);
    const auto lent = hr::to_dlpack<managed_t>(hr::tensor_view<float, 2>(values.data() + 5, {2, 3}, {-3, -1}));
    CHECK(hr::dlpack_view<float, 2>(*lent)(1, 2) == 0);
    const auto elsewhere =
        hr::to_dlpack<managed_t>(hr::tensor_view<hr::bfloat16, 1, hr::device_space>(nullptr, {0}), 3);
    CHECK(elsewhere->dl_tensor.device.device_type == 2);
    CHECK(elsewhere->dl_tensor.device.device_id == 3);
    CHECK(elsewhere->dl_tensor.dtype.code == 4);
    CHECK(elsewhere->dl_tensor.dtype.bits == 16);
  }
}
