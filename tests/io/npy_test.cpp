#include <headred/io/npy.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <Eigen/Core>
#if __has_include(<xtensor/containers/xtensor.hpp>)
#include <xtensor/containers/xarray.hpp>
#include <xtensor/containers/xtensor.hpp>
#else
#include <xtensor/xarray.hpp>
#include <xtensor/xtensor.hpp>
#endif

#include <headred/backend/cpu.hpp>
#include <headred/core/matrix.hpp>

#include "environment.hpp"
#include "io_support.hpp"

using headred::index_t;
using headred::shape_t;
using headred_test::bytes_of;
using headred_test::file_error_text;
using headred_test::little_endian;
using headred_test::read_text;
using headred_test::temporary_folder;

namespace {

std::string npy(const std::string& descr, const std::string& shape, const std::string& data, bool fortran = false) {
  const std::string dict =
      "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }\n";
  return std::string("\x93NUMPY\1\0", 8) + little_endian(dict.size(), 2) + dict + data;
}

// What numpy.save (2.4) writes before the data.
std::string numpy_header(const std::string& dict, std::size_t size) {
  std::string text = std::string("\x93NUMPY\1\0", 8) + little_endian(size - 10, 2) + dict;
  text.append(size - 1 - text.size(), ' ');
  return text + '\n';
}

template <class T, std::size_t Rank>
void check_round_trip(std::mt19937_64& random) {
  std::array<index_t, Rank> shape;
  for (auto& extent : shape) extent = static_cast<index_t>(random() % 5);
  if (random() % 4 != 0)
    for (auto& extent : shape) extent += extent == 0;
  headred::cpu be{{.threads = 1}};
  constexpr int rank = static_cast<int>(Rank);
  headred::tensor<T, rank, headred::cpu> original(be, shape);
  for (index_t i = 0; i < original.size(); ++i) {
    const std::uint64_t bits = random();  // any bits: NaN payloads must survive
    std::memcpy(static_cast<void*>(original.data() + i), &bits, sizeof(T));
  }
  const temporary_folder folder;
  headred::save_npy(folder / "a.npy", original);
  const auto loaded = headred::load_npy<T, rank>(be, folder / "a.npy");
  REQUIRE(loaded.shape() == shape);
  CHECK((original.size() == 0 || std::memcmp(loaded.data(), original.data(), original.bytes()) == 0));

  // the same elements in Fortran order, laid down one by one
  if (original.size() == 0) return;
  std::string data(original.bytes(), '\0');
  std::string text = "(";
  for (index_t i = 0; i < original.size(); ++i) {
    index_t rest = i, at = 0, step = 1;
    std::array<index_t, Rank> index;
    for (std::size_t axis = Rank; axis-- > 0; rest /= shape[axis]) index[axis] = rest % shape[axis];
    for (std::size_t axis = 0; axis < Rank; ++axis) {
      at += index[axis] * step;
      step *= shape[axis];
    }
    std::memcpy(data.data() + static_cast<std::size_t>(at) * sizeof(T), original.data() + i, sizeof(T));
  }
  for (const index_t extent : shape) text += std::to_string(extent) + ",";
  const std::string header = read_text(folder / "a.npy");
  const std::string descr = header.substr(header.find("'descr': '") + 10, 3);
  const std::string fortran = npy(descr, text + ")", data, true);
  const auto transposed = headred::load_npy<T, rank>(be, bytes_of(fortran), "f.npy");
  CHECK(std::memcmp(transposed.data(), original.data(), original.bytes()) == 0);
}

}  // namespace

TEST_SUITE("io") {
  TEST_CASE("npy: byte for byte what numpy.save writes") {
    const temporary_folder folder;
    headred::matrix m(2, 3);
    for (int i = 0; i < 6; ++i) m.data()[i] = i;
    headred::save_npy(folder / "m.npy", m);
    const std::string text = read_text(folder / "m.npy");
    CHECK(text.substr(0, 128) == numpy_header("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", 128));
    CHECK(text.substr(128) == std::string(reinterpret_cast<const char*>(m.data()), 48));

    const std::vector<float> v(3);
    headred::save_npy(folder / "v.npy", v);
    CHECK(read_text(folder / "v.npy").substr(0, 128) ==
          numpy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 128));

    std::array<std::int8_t, 1> byte{};
    shape_t<21> shape;
    shape.fill(1);
    shape[20] = 1234567;
    shape_t<21> still{};  // all strides 0: one byte seen again and again
    headred::save_npy(folder / "b.npy", headred::tensor_view<const std::int8_t, 21>(byte.data(), shape, still));
    CHECK(
        read_text(folder / "b.npy").substr(0, 192) ==
        numpy_header("{'descr': '|i1', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, "
                     "1, 1, 1, 1, 1, 1234567), }",
                     192));
    CHECK(read_text(folder / "b.npy").size() == 192 + 1234567);
    CHECK(folder.count() == 3);
  }

  TEST_CASE("npy: what is saved is loaded, bit for bit, every type, rank and order") {
    std::mt19937_64 random(headred_test::seed());
    for (int trial = 0; trial < 8; ++trial) {
      check_round_trip<float, 1>(random);
      check_round_trip<double, 2>(random);
      check_round_trip<float, 4>(random);
      check_round_trip<double, 5>(random);
      check_round_trip<std::uint8_t, 3>(random);
      check_round_trip<std::int8_t, 2>(random);
      check_round_trip<std::uint16_t, 4>(random);
      check_round_trip<std::int16_t, 1>(random);
      check_round_trip<std::uint32_t, 3>(random);
      check_round_trip<std::int32_t, 2>(random);
      check_round_trip<std::uint64_t, 2>(random);
      check_round_trip<std::int64_t, 5>(random);
      check_round_trip<headred::float16, 4>(random);
    }
  }

  TEST_CASE("npy: views of any strides are saved in their own order") {
    const temporary_folder folder;
    headred::cpu be{{.threads = 1}};
    headred::tensor<int, 3, headred::cpu> t(be, {3, 4, 1000});
    for (index_t i = 0; i < t.size(); ++i) t.data()[i] = static_cast<int>(i);
    const auto check = [&](headred::tensor_view<const int, 3> view) {
      headred::save_npy(folder / "v.npy", view);
      const auto loaded = headred::load_npy<int, 3>(be, folder / "v.npy");
      REQUIRE(loaded.shape() == view.shape());
      bool same = true;
      for (index_t i = 0; i < view.extent(0); ++i)
        for (index_t j = 0; j < view.extent(1); ++j)
          for (index_t k = 0; k < view.extent(2); ++k) same = same && loaded(i, j, k) == view(i, j, k);
      CHECK(same);
    };
    const headred::tensor_view<const int, 3> view = t.view();
    check(view);
    check(view.transposed(0, 2));
    check(view.transposed(1, 2).narrow(1, 7, 600));
    check(view.narrow(2, 10, 3));
    check({t.data() + 999, {3, 4, 1000}, {4000, 1000, -1}});
    check({t.data(), {2, 5, 3}, {0, 0, 0}});
  }

  TEST_CASE("npy: Eigen and xtensor arrays") {
    const temporary_folder folder;
    Eigen::MatrixXd e(2, 3);  // column-major
    e << 1, 2, 3, 4, 5, 6;
    headred::save_npy(folder / "e.npy", e);
    xt::xtensor<double, 2> x = xt::xtensor<double, 2>::from_shape({2, 3});
    headred::load_npy_into(folder / "e.npy", x);
    CHECK(x(0, 2) == 3);
    CHECK(x(1, 0) == 4);
    headred::save_npy(folder / "x.npy", x);
    CHECK(read_text(folder / "x.npy") == read_text(folder / "e.npy"));
    Eigen::MatrixXd back(2, 3);
    headred::load_npy_into(folder / "x.npy", back);
    CHECK(back == e);
    xt::xarray<double> dynamic = x;
    headred::save_npy(folder / "d.npy", headred::as_view<2>(dynamic));
    CHECK(read_text(folder / "d.npy") == read_text(folder / "e.npy"));

    Eigen::MatrixXd other(3, 2);
    CHECK(file_error_text([&] { headred::load_npy_into(folder / "x.npy", other); }) ==
          (folder / "x.npy").string() + ": npy array has shape (2,3), the array to fill (3,2)");
    Eigen::MatrixXf single(2, 3);
    CHECK(file_error_text([&] { headred::load_npy_into(folder / "x.npy", single); }) ==
          (folder / "x.npy").string() + ": npy array is float64, expected float32");
  }

  TEST_CASE("npy: another type or rank states both sides") {
    headred::cpu be{{.threads = 1}};
    const std::string file = npy("<f8", "(1, 2)", std::string(16, '\0'));
    CHECK(file_error_text([&] { headred::load_npy<float, 2>(be, bytes_of(file), "x.npy"); }) ==
          "x.npy: npy array is float64, expected float32");
    CHECK(file_error_text([&] { headred::load_npy<double, 4>(be, bytes_of(file), "x.npy"); }) ==
          "x.npy: npy array has rank 2, shape (1,2), expected rank 4");
    CHECK(file_error_text([&] { headred::load_npy_as<float, 1>(be, bytes_of(file), "x.npy"); }) ==
          "x.npy: npy array has rank 2, shape (1,2), expected rank 1");
    CHECK(headred::load_npy_as<float, 2>(be, bytes_of(file), "x.npy").size() == 2);
    const std::string flags = npy("|b1", "(2,)", std::string("\1\0", 2));
    CHECK(headred::load_npy<std::uint8_t, 1>(be, bytes_of(flags), "x.npy")(0) == 1);
    CHECK(file_error_text([&] { headred::load_npy<double, 1>(be, "missing.npy"); }) == "missing.npy: does not exist");
  }

  TEST_CASE("npy: data at any address") {
    headred::cpu be{{.threads = 1}};
    std::string data;
    for (int i = 0; i < 4; ++i) data += headred_test::raw_bytes(0.5 + i);
    for (std::size_t shift = 0; shift < 8; ++shift) {
      const std::string file = std::string(shift, 'x') + npy("<f8", "(4,)", data);
      const auto t = headred::load_npy<double, 1>(be, bytes_of(file).subspan(shift), "x.npy");
      const auto u = headred::load_npy_as<float, 1>(be, bytes_of(file).subspan(shift), "x.npy");
      CHECK(t(3) == 3.5);
      CHECK(u(2) == 2.5f);
    }
  }

  TEST_CASE("npy: a hostile shape allocates nothing") {
    headred_test::counting_backend be;
    for (const char* shape : {"(1099511627776,)", "(4294967296, 4294967296)", "(9223372036854775807,)"}) {
      const std::string file = npy("<f8", shape, std::string(8, '\0'));
      CHECK(file_error_text([&] { headred::load_npy_as<double, 1>(be, bytes_of(file), "x.npy"); }).substr(0, 7) ==
            "x.npy: ");
    }
    CHECK(be.total == 0);
    headred::load_npy_as<double, 1>(be, bytes_of(npy("|u1", "(9,)", std::string(9, '\0'))), "x.npy");
    CHECK(be.total == 72);
  }

  TEST_CASE("npy: into memory that only upload reaches") {
    headred_test::pretended_device be;
    const std::string file = npy("<f4", "(2, 2)", headred_test::raw_bytes(std::array{1.f, 2.f, 3.f, 4.f}), true);
    const auto t = headred::load_npy_as<double, 2>(be, bytes_of(file), "x.npy");
    std::array<double, 4> host{};
    be.download(host.data(), t.data(), t.bytes());
    CHECK(host == std::array{1., 3., 2., 4.});
    const auto empty = headred::load_npy<float, 2>(be, bytes_of(npy("<f4", "(0, 2)", "")), "x.npy");
    CHECK(empty.size() == 0);
  }

  TEST_CASE("npy: an unwritable path leaves nothing behind") {
    const temporary_folder folder;
    headred_test::write_text(folder / "file", "x");
    const std::vector<double> v{1, 2};
    CHECK(file_error_text([&] { headred::save_npy(folder / "file" / "v.npy", v); }) ==
          (folder / "file" / "v.npy").string() + ": cannot be created: Not a directory");
    CHECK(folder.count() == 1);
  }
}
