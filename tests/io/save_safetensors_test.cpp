#include <headred/io/save_safetensors.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <Eigen/Core>

#include <headred/backend/cpu.hpp>
#include <headred/io/safetensors_file.hpp>

#include "environment.hpp"
#include "io_support.hpp"

using headred::index_t;
using headred::save_safetensors;
using headred_test::file_error_text;
using headred_test::little_endian;
using headred_test::raw_bytes;
using headred_test::read_text;
using headred_test::temporary_folder;

TEST_SUITE("io") {
  TEST_CASE("save_safetensors: byte for byte what the Python package writes") {
    const temporary_folder folder;
    const std::vector<float> b{1, 2}, a{3};
    const std::vector<std::int64_t> z{1, 2};
    save_safetensors(folder / "x",
                     {{"b", b}, {"a", a}, {"z", headred::tensor_view<const std::int64_t, 2>(z.data(), {1, 2})}});
    CHECK(read_text(folder / "x") ==
          little_endian(168, 8) +
              R"({"z":{"dtype":"I64","shape":[1,2],"data_offsets":[0,16]},"a":{"dtype":"F32","shape":[1],)"
              R"("data_offsets":[16,20]},"b":{"dtype":"F32","shape":[2],"data_offsets":[20,28]}} )" +
              little_endian(1, 8) + little_endian(2, 8) + raw_bytes(3.f) + raw_bytes(1.f) + raw_bytes(2.f));
    const std::vector<std::uint8_t> h{3};
    save_safetensors(folder / "y", {{"h", h}, {"b", b}}, {{"scale", "1"}});
    CHECK(read_text(folder / "y") ==
          little_endian(136, 8) +
              R"({"__metadata__":{"scale":"1"},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
              R"("h":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}} )" +
              raw_bytes(1.f) + raw_bytes(2.f) + "\3");
  }

  TEST_CASE("save_safetensors: what is saved is loaded, bit for bit, any type and strides") {
    const temporary_folder folder;
    headred::cpu be{{.threads = 1}};
    std::mt19937_64 random(headred_test::seed());
    headred::tensor<float, 4, headred::cpu> attention(be, {2, 3, 4, 5});
    headred::tensor<headred::bfloat16, 1, headred::cpu> brain(be, {7});
    headred::tensor<headred::float16, 2, headred::cpu> half(be, {1, 3});
    headred::tensor<double, 3, headred::cpu> empty(be, {2, 0, 3});
    for (index_t i = 0; i < attention.size(); ++i) {
      const auto bits = static_cast<std::uint32_t>(random());
      std::memcpy(attention.data() + i, &bits, 4);
    }
    for (index_t i = 0; i < 7; ++i) brain.data()[i].bits = static_cast<std::uint16_t>(random());
    for (index_t i = 0; i < 3; ++i) half.data()[i].bits = static_cast<std::uint16_t>(random());
    Eigen::MatrixXd e = Eigen::MatrixXd::Random(3, 2);
    const std::vector<std::int8_t> small{-1};
    const std::string odd = "n\"\\\n\xc3\xa9";
    save_safetensors(folder / "x",
                     {{"small", small},
                      {"attention", attention},
                      {"turned", attention.view().transposed(0, 3)},
                      {"brain", brain},
                      {odd, half},
                      {"eigen", e},
                      {"empty", empty}},
                     {{odd, odd}, {"", ""}});
    const headred::safetensors_file file(folder / "x");
    CHECK(file.names() == std::vector<std::string>{"eigen", "empty", "attention", "turned", "brain", odd, "small"});
    CHECK(file.metadata().at(odd) == odd);
    CHECK(file.metadata().size() == 2);
    CHECK(file.header().data_offset % 8 == 0);
    for (const auto& t : file.header().tensors) CHECK(t.begin % headred::size_of(t.type) == 0);
    CHECK(std::memcmp(file.view<float, 4>("attention").data(), attention.data(), attention.bytes()) == 0);
    const auto turned = file.view<float, 4>("turned");
    CHECK(turned.shape() == headred::shape_t<4>{5, 3, 4, 2});
    CHECK(std::memcmp(&turned(4, 1, 2, 0), &attention(0, 1, 2, 4), 4) == 0);
    CHECK(std::memcmp(&turned(0, 2, 3, 1), &attention(1, 2, 3, 0), 4) == 0);
    CHECK(file.load<double, 2>(be, "eigen")(2, 1) == e(2, 1));
    CHECK(std::memcmp(file.bytes("brain").data(), brain.data(), brain.bytes()) == 0);
    CHECK(std::memcmp(file.bytes(odd).data(), half.data(), half.bytes()) == 0);
    CHECK(file.load<double, 3>(be, "empty").shape() == headred::shape_t<3>{2, 0, 3});
  }

  TEST_CASE("save_safetensors: the order of the arguments does not matter") {
    const temporary_folder folder;
    const std::vector<float> a{1}, b{2};
    save_safetensors(folder / "x", {{"a", a}, {"b", b}});
    save_safetensors(folder / "y", {{"b", b}, {"a", a}});
    CHECK(read_text(folder / "x") == read_text(folder / "y"));
    save_safetensors(folder / "z", {});
    CHECK(headred::safetensors_file(folder / "z").names().empty());
  }

  TEST_CASE("save_safetensors: bad names and unwritable paths leave nothing behind") {
    const temporary_folder folder;
    const std::vector<float> a{1};
    CHECK_THROWS_WITH_AS(save_safetensors(folder / "x", {{"a", a}, {"a", a}}),
                         "save_safetensors: tensor \"a\" is given twice", headred::argument_error);
    CHECK_THROWS_WITH_AS(save_safetensors(folder / "x", {{"__metadata__", a}}),
                         "save_safetensors: \"__metadata__\" is no name for a tensor", headred::argument_error);
    CHECK_THROWS_WITH_AS(save_safetensors(folder / "x", {{"\xff", a}}),
                         "save_safetensors: tensor name \"\\xff\" is not valid UTF-8", headred::argument_error);
    CHECK_THROWS_WITH_AS(save_safetensors(folder / "x", {{"a", a}}, {{"k", "\xc3"}}),
                         "save_safetensors: metadata value \"\\xc3\" is not valid UTF-8", headred::argument_error);
    CHECK(folder.count() == 0);
    CHECK(file_error_text([&] {
            save_safetensors(folder / "no" / "x", {{"a", a}});
          }) == (folder / "no" / "x").string() + ": cannot be created: No such file or directory");
    CHECK(folder.count() == 0);
  }
}
