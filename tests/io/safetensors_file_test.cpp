#include <headred/io/safetensors_file.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <headred/backend/cpu.hpp>

#include "io_support.hpp"

using headred::safetensors_file;
using headred_test::bytes_of;
using headred_test::file_error_text;
using headred_test::little_endian;
using headred_test::raw_bytes;
using headred_test::temporary_folder;

namespace {

std::string safetensors(std::string json, const std::string& data) {
  json.append((8 - json.size() % 8) % 8, ' ');
  return little_endian(json.size(), 8) + json + data;
}

// attn.7 (1,1,2,2) U16 with the rows {.25, .75} and {1, 0}, then half (2) F16, then flag (1) BOOL
const std::string small =
    safetensors(R"({"__metadata__":{"scale":"0.0001"},"attn.7":{"dtype":"U16","shape":[1,1,2,2],"data_offsets":[0,8]},)"
                R"("half":{"dtype":"F16","shape":[2],"data_offsets":[8,12]},)"
                R"("flag":{"dtype":"BOOL","shape":[1],"data_offsets":[12,13]}})",
                little_endian(2500, 2) + little_endian(7500, 2) + little_endian(10000, 2) + little_endian(0, 2) +
                    little_endian(0x3c00, 2) + little_endian(0x8001, 2) + "\1");

}  // namespace

TEST_SUITE("io") {
  TEST_CASE("safetensors_file: names, metadata, bytes, views and loads") {
    const temporary_folder folder;
    headred_test::write_text(folder / "x.safetensors", small);
    headred::cpu be{{.threads = 1}};
    safetensors_file opened(folder / "x.safetensors");
    const auto early = opened.view<std::uint16_t, 4>("attn.7");
    const safetensors_file file = std::move(opened);
    CHECK(early(0, 0, 1, 0) == 10000);  // a view outlives the move
    CHECK(file.names() == std::vector<std::string>{"attn.7", "half", "flag"});
    CHECK(file.metadata().at("scale") == "0.0001");
    CHECK(file.scale() == 0.0001);
    CHECK(file.contains("half"));
    CHECK_FALSE(file.contains("hal"));
    CHECK(file.info("attn.7").type == headred::dtype::u16);
    CHECK(file.bytes("half").size() == 4);

    const auto wide = file.load<double, 4>(be, "attn.7", file.scale());
    CHECK(wide(0, 0, 0, 0) == 2500 * 0.0001);
    CHECK(wide(0, 0, 0, 1) == 7500 * 0.0001);
    CHECK(wide(0, 0, 1, 0) == 1);
    const auto half = file.load<float, 1>(be, "half");
    CHECK(half(0) == 1);
    CHECK(half(1) == -0x1p-24f);
    CHECK(file.view<headred::float16, 1>("half")(0) == 1.f);
    CHECK(file.view<std::uint8_t, 1>("flag")(0) == 1);
    CHECK(file.load<int, 1>(be, "flag")(0) == 1);
  }

  TEST_CASE("safetensors_file: asking for what is not there states both sides") {
    headred::cpu be{{.threads = 1}};
    const safetensors_file file(bytes_of(small), "x");
    CHECK(file_error_text([&] { file.info("attn.8"); }) == "x: tensor \"attn.8\" is not in the file");
    CHECK(file_error_text([&] { file.load<float, 4>(be, "attn.8"); }) == "x: tensor \"attn.8\" is not in the file");
    CHECK(file_error_text([&] { file.load<float, 3>(be, "attn.7"); }) ==
          "x: tensor \"attn.7\" has rank 4, shape (1,1,2,2), expected rank 3");
    CHECK(file_error_text([&] { file.view<std::uint16_t, 1>("attn.7"); }) ==
          "x: tensor \"attn.7\" has rank 4, shape (1,1,2,2), expected rank 1");
    CHECK(file_error_text([&] { file.view<float, 4>("attn.7"); }) ==
          "x: tensor \"attn.7\" is uint16, expected float32");
    CHECK(file_error_text([&] { file.load<int, 1>(be, "half"); }) ==
          "x: tensor \"half\" is float16, which does not convert to int32");
    CHECK(file_error_text([&] { file.load<std::uint8_t, 4>(be, "attn.7"); }) ==
          "x: tensor \"attn.7\": stored element 0 does not fit into uint8");
    CHECK_THROWS_AS((file.load<int, 4>(be, "attn.7", 1e-4)), headred::argument_error);
  }

  TEST_CASE("safetensors_file: unaligned data is loaded, and refused as a view") {
    // 3 bytes in front of a double, at every alignment of the whole file
    const std::string text = safetensors(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                                         R"("b":{"dtype":"F64","shape":[2],"data_offsets":[3,19]}})",
                                         "abc" + raw_bytes(std::array{1.5, -2.5}));
    headred::cpu be{{.threads = 1}};
    int views = 0;
    alignas(8) std::array<char, 512> memory{};
    for (std::size_t shift = 0; shift < 8; ++shift) {
      text.copy(memory.data() + shift, text.size());
      const safetensors_file file(bytes_of({memory.data() + shift, text.size()}), "x");
      CHECK(file.load<double, 1>(be, "b")(1) == -2.5);
      CHECK(file.load<float, 1>(be, "b")(0) == 1.5f);
      double seen = 0;
      const std::string refusal = file_error_text([&] { seen = file.view<double, 1>("b")(1); });
      if (shift == 5) {
        ++views;
        CHECK(refusal == "no file_error was thrown");
        CHECK(seen == -2.5);
      } else {
        CHECK(refusal.find("tensor \"b\" at byte 123 is not aligned for a view of float64: load() copies it") !=
              std::string::npos);
      }
    }
    CHECK(views == 1);
  }

  TEST_CASE("safetensors_file: the scale in the metadata must be a positive finite number") {
    const auto scale = [](const std::string& text) {
      const std::string file = safetensors("{\"__metadata__\":{\"scale\":\"" + text + "\"}}", "");
      return safetensors_file(bytes_of(file), "x").scale();
    };
    CHECK(scale("1e-4") == 1e-4);
    CHECK(scale("2") == 2);
    CHECK(safetensors_file(bytes_of(safetensors("{}", "")), "x").scale() == 1);
    for (const char* bad : {"", "x", "0", "-1", "1e999", "nan", "1 2", "[1]", "0x10", "\\u0000"})
      CHECK_MESSAGE(file_error_text([&] { scale(bad); }).find("expected a positive finite number") != std::string::npos,
                    std::string(bad));
  }

  TEST_CASE("safetensors_file: memory for a hostile shape is never asked for") {
    headred_test::counting_backend be;
    const std::string text =
        safetensors(R"({"a":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}})", "12345678");
    CHECK(file_error_text([&] { safetensors_file(bytes_of(text), "x").load<double, 1>(be, "a"); }) ==
          "x: is truncated: the tensors need 1099511627776 bytes, found 8");
    CHECK(be.total == 0);
  }

  TEST_CASE("safetensors_file: into memory that only upload reaches") {
    headred_test::pretended_device be;
    const safetensors_file file(bytes_of(small), "x");
    const auto t = file.load<float, 4>(be, "attn.7", 1e-4);
    std::array<float, 4> host{};
    be.download(host.data(), t.data(), t.bytes());
    CHECK(host == std::array{0.25f, 0.75f, 1.f, 0.f});
  }
}
