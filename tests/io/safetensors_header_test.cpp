#include <headred/io/safetensors_header.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <headred/io/safetensors_stream.hpp>

#include "io_support.hpp"

using headred::dtype;
using headred::index_t;
using headred_test::bytes_of;
using headred_test::file_error_text;
using headred_test::little_endian;

namespace {

std::string safetensors(const std::string& json, const std::string& data) {
  return little_endian(json.size(), 8) + json + data;
}

std::string refusal(const std::string& file) {
  return file_error_text([&] { headred::read_safetensors_header(bytes_of(file), "x"); });
}

// The refusal of a header that describes one byte of data, by both ways to read it.
std::string refused(const std::string& json) {
  const std::string file = safetensors(json, "d");
  const std::string text = refusal(file);
  std::istringstream in(file);
  CHECK(file_error_text([&] {
          headred::safetensors_stream stream(in, "x");
          while (stream.next()) {
          }
        }).substr(0, 3) == "x: ");
  return text;
}

std::string tensor(const std::string& shape, const std::string& offsets, const std::string& type = "\"U8\"") {
  return "{\"dtype\":" + type + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

// The header whose one tensor is "a".
std::string only(const std::string& description) {
  std::string json = "{\"a\":";
  json += description;
  return json + "}";
}

}  // namespace

TEST_SUITE("io") {
  TEST_CASE("safetensors_header: tensors in the order of their bytes, found by name") {
    const std::string json = "{\"b\":" + tensor("[2,1]", "[4,12]", "\"F32\"") +
                             ",\"__metadata__\":{\"k\":\"v\\n\"},\"a\":" + tensor("[ ]", "[0,4]", "\"I32\"") +
                             ",\"\\u00e9\":" + tensor("[0,7]", "[12,12]", "\"BF16\"") + "}   ";
    const auto header = headred::read_safetensors_header(bytes_of(safetensors(json, "0123456789ab")), "x");
    REQUIRE(header.tensors.size() == 3);
    CHECK(header.tensors[0].name == "a");
    CHECK(header.tensors[0].type == dtype::i32);
    CHECK(header.tensors[0].shape.empty());
    CHECK(header.tensors[1].name == "b");
    CHECK(header.tensors[1].shape == std::vector<index_t>{2, 1});
    CHECK(header.tensors[1].begin == 4);
    CHECK(header.tensors[1].end == 12);
    CHECK(header.metadata.at("k") == "v\n");
    CHECK(header.data_offset == 8 + json.size());
    CHECK(header.data_size() == 12);
    CHECK(header.find("b") == &header.tensors[1]);
    CHECK(header.find("\xc3\xa9") == &header.tensors[2]);
    CHECK(header.find("c") == nullptr);
    CHECK(headred::read_safetensors_header(bytes_of(safetensors("{}", "")), "x").tensors.empty());
  }

  TEST_CASE("safetensors_header: all types of the format") {
    const struct {
      const char* name;
      dtype type;
    } types[] = {{"BOOL", dtype::boolean}, {"U8", dtype::u8},   {"I8", dtype::i8},     {"I16", dtype::i16},
                 {"U16", dtype::u16},      {"F16", dtype::f16}, {"BF16", dtype::bf16}, {"I32", dtype::i32},
                 {"U32", dtype::u32},      {"F32", dtype::f32}, {"F64", dtype::f64},   {"I64", dtype::i64},
                 {"U64", dtype::u64}};
    for (const auto& t : types) {
      const std::size_t size = headred::size_of(t.type);
      std::string offsets = "[0,";
      offsets += std::to_string(3 * size);
      offsets += ']';
      std::string type = "\"";
      type += t.name;
      type += '"';
      const std::string json = only(tensor("[3]", offsets, type));
      const auto header =
          headred::read_safetensors_header(bytes_of(safetensors(json, std::string(3 * size, 'd'))), "x");
      CHECK(header.tensors[0].type == t.type);
    }
  }

  TEST_CASE("safetensors_header: every malformed kind is refused with its own words") {
    const std::string one = tensor("[1]", "[0,1]");
    const std::string good = only(one);
    REQUIRE(refusal(safetensors(good, "d")) == "no file_error was thrown");
    std::string ones = "1";
    for (int i = 0; i < 64; ++i) ones += ",1";
    const struct {
      std::string text;
      const char* words;
    } cases[] = {
        {refusal(""), "is truncated: 0 bytes"},
        {refusal("1234567"), "is truncated: 7 bytes"},
        {refusal(little_endian(0, 8)), "the header's length at byte 0 is 0, expected 2 to 100000000"},
        {refusal(little_endian(100'000'001, 8) + "{}"), "length at byte 0 is 100000001, expected 2 to 100000000"},
        {refusal(little_endian(~0ull, 8) + "{}"), "length at byte 0 is 18446744073709551615"},
        {refusal(little_endian(1000, 8) + "{}"), "a header of 1000 bytes was announced, 2 are there"},
        {refusal(safetensors(good, "")), "is truncated: the tensors need 1 bytes, found 0"},
        {refusal(safetensors(good, "dd")), "is too long: the tensors need 1 bytes, found 2"},
        {refused("[]"), "the header does not begin with { at byte 8"},
        {refused(" " + good), "the header does not begin with { at byte 8"},
        {refused("\xef\xbb\xbf" + good), "the header does not begin with { at byte 8"},
        {refused("{\"a\":}"), "the header is not valid JSON in UTF-8 at byte 14"},
        {refused(good + "x"), "the header is not valid JSON in UTF-8 at byte"},
        {refused(good + good), "the header is not valid JSON in UTF-8 at byte"},
        {refused("{\"a\":" + one + ",}"), "the header is not valid JSON in UTF-8 at byte"},
        {refused("{\"\xff\":" + one + "}"), "the header is not valid JSON in UTF-8 at byte 11"},
        {refused("{\"\xc0\xaf\":" + one + "}"), "the header is not valid JSON in UTF-8 at byte 11"},
        {refused("{\"\\ud800\":" + one + "}"), "the header is not valid JSON in UTF-8 at byte"},
        {refused("{\"a\":" + one + ",\"a\":" + one + "}"), "tensor \"a\""},
        {refused("{\"a\":" + one + ",\"b\":" + tensor("[0]", "[1,1]") + ",\"b\":" + tensor("[0]", "[1,1]") + "}"),
         "tensor \"b\" appears twice in the header"},
        {refused("{\"__metadata__\":{},\"__metadata__\":{},\"a\":" + one + "}"), "\"__metadata__\" appears twice"},
        {refused("{\"__metadata__\":{\"k\":\"\",\"k\":\"\"},\"a\":" + one + "}"),
         "__metadata__: the key \"k\" appears twice"},
        {refused("{\"__metadata__\":{\"k\":1},\"a\":" + one + "}"), "__metadata__: found a number, expected a string"},
        {refused("{\"__metadata__\":{\"k\":null},\"a\":" + one + "}"), "__metadata__: found null, expected a string"},
        {refused("{\"__metadata__\":{\"k\":{}},\"a\":" + one + "}"),
         "__metadata__: found an object, expected a string"},
        {refused("{\"__metadata__\":[],\"a\":" + one + "}"), "__metadata__: found an array, expected an object"},
        {refused("{\"a\":1}"), "tensor \"a\": found a number, expected an object"},
        {refused("{\"a\":true}"), "tensor \"a\": found a boolean, expected an object"},
        {refused("{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}"), "tensor \"a\": dtype is missing"},
        {refused("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}"), "tensor \"a\": shape is missing"},
        {refused("{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}"), "tensor \"a\": data_offsets is missing"},
        {refused("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}"), "tensor \"a\": the key \"dtype\" appears twice"},
        {refused("{\"a\":{\"type\":\"U8\"}}"), "tensor \"a\": the key \"type\" is unknown"},
        {refused(only(tensor("[1]", "[0,1]", "\"F8_E4M3\""))), "tensor \"a\": dtype \"F8_E4M3\" is not supported"},
        {refused(only(tensor("[1]", "[0,1]", "8"))), "tensor \"a\": found a number, expected dtype's string"},
        {refused(only(tensor("[-1]", "[0,1]"))), "found a negative number, expected shape's numbers"},
        {refused(only(tensor("[1.0]", "[0,1]"))), "found a number that is no integer of 64 bits"},
        {refused(only(tensor("[1e400]", "[0,1]"))), "the header is not valid JSON in UTF-8"},
        {refused(only(tensor("[99999999999999999999]", "[0,1]"))), "is no integer of 64 bits"},
        {refused(only(tensor("[9223372036854775808]", "[0,1]"))), "number 9223372036854775808 overflows"},
        {refused(only(tensor("[1099511627776,1099511627776]", "[0,1]"))),
         "tensor \"a\": the size of shape (1099511627776,1099511627776) overflows"},
        {refused(only(tensor("[0,1099511627776,1099511627776]", "[0,0]"))), "overflows"},
        {refused(only(tensor("[[1]]", "[0,1]"))), "found an array, expected shape's numbers"},
        {refused(only(tensor("{}", "[0,1]"))), "found an object, expected shape's numbers"},
        {refused(only(tensor("[\"1\"]", "[0,1]"))), "found a string, expected shape's numbers"},
        {refused(only(tensor("[" + ones + "]", "[0,1]"))), "shape has more than 64 axes"},
        {refused(only(tensor("[1]", "[0]"))), "data_offsets holds fewer than 2 numbers"},
        {refused(only(tensor("[1]", "[0,1,2]"))), "data_offsets holds more than 2 numbers"},
        {refused(only(tensor("[1]", "[0,-1]"))), "found a negative number, expected data_offsets' numbers"},
        {refused(only(tensor("[1]", "[1,0]"))), "data_offsets [1,0] do not span the 1 bytes of shape (1)"},
        {refused(only(tensor("[2]", "[0,1]"))), "data_offsets [0,1] do not span the 2 bytes of shape (2)"},
        {refused("{\"a\":" + tensor("[1]", "[0,1]") + ",\"b\":" + tensor("[1]", "[0,1]") + "}"), "which overlaps"},
        {refused("{\"a\":" + tensor("[4]", "[0,4]") + ",\"b\":" + tensor("[0]", "[2,2]") + "}"),
         "tensor \"b\": data_offsets begin at 2, which overlaps the tensor that ends at 4"},
        {refused("{\"a\":" + tensor("[1]", "[0,1]") + ",\"b\":" + tensor("[1]", "[2,3]") + "}"),
         "tensor \"b\": data_offsets begin at 2, which leaves a hole after the tensor that ends at 1"},
        {refused(only(tensor("[1]", "[1,2]"))), "which leaves a hole after the tensor that ends at 0"},
        {refused("{\"a\":" + std::string(100'000, '[')), "tensor \"a\": found an array, expected an object"},
        {refused("{\"new\\nline\":1}"), "tensor \"new\\x0aline\": found a number"},
        {refused("{\"" + std::string(5000, 'n') + "\":1}"), "nnn...\": found a number"},
    };
    for (const auto& c : cases) {
      CHECK_MESSAGE(c.text.find(c.words) != std::string::npos, c.text << "\n  lacks: " << std::string(c.words));
      CHECK(c.text.substr(0, 3) == "x: ");
      CHECK(c.text.find('\n') == std::string::npos);
      CHECK(c.text.size() < 400);
    }
  }

  TEST_CASE("safetensors_header: every cut of a good file is refused, mapped and streamed") {
    const std::string good = safetensors(only(tensor("[2,3]", "[0,24]", "\"F32\"")), std::string(24, 'd'));
    for (std::size_t size = 0; size < good.size(); ++size) {
      CHECK(refusal(good.substr(0, size)).substr(0, 3) == "x: ");
      std::istringstream in(good.substr(0, size));
      CHECK(file_error_text([&] {
              headred::safetensors_stream stream(in, "x");
              while (stream.next()) {
              }
            }).substr(0, 3) == "x: ");
    }
  }
}
