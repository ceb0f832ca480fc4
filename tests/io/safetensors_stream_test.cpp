#include <headred/io/safetensors_stream.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include <headred/backend/cpu.hpp>

#include "io_support.hpp"

using headred::safetensors_stream;
using headred_test::file_error_text;
using headred_test::little_endian;
using headred_test::raw_bytes;

namespace {

std::string safetensors(const std::string& json, const std::string& data) {
  return little_endian(json.size(), 8) + json + data;
}

const std::string two = safetensors(
    R"({"b":{"dtype":"F32","shape":[2],"data_offsets":[3,11]},"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})",
    "\1\2\3" + raw_bytes(0.5f) + raw_bytes(-4.f));

}  // namespace

TEST_SUITE("io") {
  TEST_CASE("safetensors_stream: tensor by tensor, loaded or passed over") {
    headred::cpu be{{.threads = 1}};
    for (const bool load_first : {true, false}) {
      std::istringstream in(two);
      safetensors_stream stream(in, "x");
      CHECK(stream.header().tensors.size() == 2);
      CHECK_THROWS_AS(stream.info(), headred::argument_error);
      REQUIRE(stream.next());
      CHECK(stream.info().name == "a");
      if (load_first) {
        CHECK(stream.load<int, 1>(be)(2) == 3);
        CHECK_THROWS_WITH_AS((stream.load<int, 1>(be)), "safetensors_stream: tensor \"a\" was read before",
                             headred::argument_error);
      }
      REQUIRE(stream.next());
      CHECK(stream.info().name == "b");
      const auto b = stream.load<double, 1>(be, 2);
      CHECK(b(0) == 1);
      CHECK(b(1) == -8);
      CHECK_FALSE(stream.next());
      CHECK_FALSE(stream.next());
      CHECK_THROWS_AS(stream.info(), headred::argument_error);
    }
  }

  TEST_CASE("safetensors_stream: a wrong rank can be corrected, the tensor is still there") {
    headred::cpu be{{.threads = 1}};
    std::istringstream in(two);
    safetensors_stream stream(in, "x");
    REQUIRE(stream.next());
    CHECK(file_error_text([&] { stream.load<int, 2>(be); }) ==
          "x: tensor \"a\" has rank 1, shape (3), expected rank 2");
    CHECK(stream.load<int, 1>(be)(0) == 1);
  }

  TEST_CASE("safetensors_stream: an early or late end is an error") {
    headred::cpu be{{.threads = 1}};
    const auto read = [&](const std::string& text, bool load) {
      return file_error_text([&] {
        std::istringstream in(text);
        safetensors_stream stream(in, "x");
        while (stream.next())
          if (load) stream.load<float, 1>(be);
      });
    };
    for (const bool load : {true, false}) {
      CHECK(read(two, load) == "no file_error was thrown");
      CHECK(read(two.substr(0, two.size() - 1), load) == "x: is truncated: tensor \"b\" needs 8 bytes, found 7");
      CHECK(read(two.substr(0, two.size() - 10), load) == "x: is truncated: tensor \"a\" needs 3 bytes, found 1");
      CHECK(read(two + "x", load) == "x: is too long: bytes follow the last tensor");
    }
    std::ifstream missing("there/is/no/such/file");
    CHECK(file_error_text([&] { safetensors_stream stream(missing, "x"); }).find("is truncated: 0 bytes") !=
          std::string::npos);
  }

  TEST_CASE("safetensors_stream: memory grows with what arrives, not with what is announced") {
    headred_test::counting_backend be;
    std::istringstream in(
        safetensors(R"({"a":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}})", "12345678"));
    safetensors_stream stream(in, "x");
    REQUIRE(stream.next());
    CHECK(file_error_text([&] { stream.load<double, 1>(be); }) ==
          "x: is truncated: tensor \"a\" needs 1099511627776 bytes, found 8");
    CHECK(be.total == 0);
  }

  TEST_CASE("safetensors_stream: large tensors arrive in pieces") {
    headred::cpu be{{.threads = 1}};
    std::string data;
    for (unsigned i = 0; i < 300'000; ++i) data += static_cast<char>(i * 7 % 251);
    std::istringstream in(safetensors(R"({"a":{"dtype":"U8","shape":[300000],"data_offsets":[0,300000]}})", data));
    safetensors_stream stream(in, "x");
    REQUIRE(stream.next());
    const auto a = stream.load<std::uint8_t, 1>(be);
    CHECK(std::string(reinterpret_cast<const char*>(a.data()), a.bytes()) == data);
    CHECK_FALSE(stream.next());
  }
}
