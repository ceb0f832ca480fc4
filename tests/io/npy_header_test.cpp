#include <headred/io/npy_header.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "io_support.hpp"

using headred::dtype;
using headred::index_t;
using headred_test::bytes_of;
using headred_test::file_error_text;
using headred_test::little_endian;

namespace {

const std::string magic = "\x93NUMPY";

std::string npy(const std::string& dict, const std::string& data, char version = 1) {
  return magic + version + '\0' + little_endian(dict.size(), version == 1 ? 2 : 4) + dict + data;
}

std::string dict(const std::string& shape, const std::string& descr = "'<f8'", const std::string& order = "False") {
  return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

std::string refusal(const std::string& file) {
  return file_error_text([&] { headred::read_npy_header(bytes_of(file), "x.npy"); });
}

}  // namespace

TEST_SUITE("io") {
  TEST_CASE("npy_header: format 1, 2 and 3, both orders, every type") {
    for (const char version : {'\1', '\2', '\3'}) {
      const std::string file = npy(dict("(2, 3)", "'<f4'", "True"), std::string(24, 'x'), version);
      const auto header = headred::read_npy_header(bytes_of(file), "x.npy");
      CHECK(header.type == dtype::f32);
      CHECK(header.fortran_order);
      CHECK(header.rank() == 2);
      CHECK(header.shape == std::vector<index_t>{2, 3});
      CHECK(header.data_size == 24);
      CHECK(header.data_offset == file.size() - 24);
    }
    const struct {
      const char* descr;
      dtype type;
    } types[] = {{"'|b1'", dtype::boolean}, {"'|u1'", dtype::u8},  {"'<u1'", dtype::u8},  {"'>i1'", dtype::i8},
                 {"'<i2'", dtype::i16},     {"'<u2'", dtype::u16}, {"'<f2'", dtype::f16}, {"'<i4'", dtype::i32},
                 {"'<u4'", dtype::u32},     {"'<f4'", dtype::f32}, {"'<f8'", dtype::f64}, {"'<i8'", dtype::i64},
                 {"\"<u8\"", dtype::u64}};
    for (const auto& t : types) {
      const std::string file = npy(dict("(3,)", t.descr), std::string(3 * headred::size_of(t.type), 'x'));
      CHECK(headred::read_npy_header(bytes_of(file), "x.npy").type == t.type);
    }
  }

  TEST_CASE("npy_header: what Python accepts beside NumPy's own spelling") {
    const auto shape = [](const std::string& d, std::size_t bytes) {
      const std::string file = npy(d, std::string(bytes, '\0'));
      return headred::read_npy_header(bytes_of(file), "x.npy").shape;
    };
    CHECK(shape("{\"shape\":(1,2L),'fortran_order' :False\t,'descr':'<f8'}", 16) == std::vector<index_t>{1, 2});
    CHECK(shape(dict("( )"), 8).empty());
    CHECK(shape(dict("(0, 7)"), 0) == std::vector<index_t>{0, 7});
    CHECK(shape(dict("(2, 1,)"), 16) == std::vector<index_t>{2, 1});
  }

  TEST_CASE("npy_header: every malformed kind is refused with its own words") {
    const std::string good = npy(dict("(2,)"), std::string(16, 'x'));
    std::string ones;
    for (int i = 0; i < 65; ++i) ones += "1,";
    const auto text_of = [](const std::string& d) { return refusal(npy(d, std::string(8, 'x'))); };
    const struct {
      std::string text;
      const char* words;
    } cases[] = {
        {refusal(""), "is not an npy file (no \\x93NUMPY at byte 0)"},
        {refusal("\x93NUM"), "is not an npy file"},
        {refusal(magic + "\1"), "is truncated: 7 bytes"},
        {refusal(magic + std::string("\2\0\1\0", 4)), "is truncated: 10 bytes"},
        {refusal(magic + std::string("\4\0", 2) + good.substr(8)), "npy format 4.0 is unknown, expected 1.0, 2.0 or"},
        {refusal(magic + "\1\1" + good.substr(8)), "npy format 1.1 is unknown"},
        {refusal(good.substr(0, good.size() - 1)),
         "is truncated: shape (2) of float64 needs 16 bytes of data, found 15"},
        {refusal(good + "x"), "is too long: shape (2) of float64 needs 16 bytes of data, found 17"},
        {refusal(good.substr(0, 20)), "is truncated: a header of"},
        {refusal(magic + std::string("\2\0", 2) + little_endian(0xffffffff, 4)), "the header is 4294967295 bytes long"},
        {text_of(dict("(1099511627776,)")),
         "shape (1099511627776) of float64 needs 8796093022208 bytes of data, found 8"},
        {text_of(dict("(4294967296, 4294967296)")), "the size of shape (4294967296,4294967296) overflows"},
        {text_of(dict("(9223372036854775807, 3)")), "overflows"},
        {refusal(npy(dict("(0, 4611686018427387904, 8)"), "")), "overflows"},
        {text_of(dict("(9223372036854775808,)")), "an extent of the shape overflows at byte 61"},
        {text_of(dict("(-1,)")), "expected an extent (0 or more) in the shape at byte 61"},
        {text_of(dict("(1.5,)")), "expected ')' in the header at byte 62"},
        {text_of(dict("(,)")), "expected an extent"},
        {text_of(dict("(1")), "expected an extent"},
        {text_of(dict("(1)")), "shape is a number, expected a tuple"},
        {text_of(dict("1")), "expected '(' in the header at byte 60"},
        {text_of("{'shape': (1"), "expected ')' in the header"},
        {text_of(dict("(" + ones + ")")), "shape has more than 64 axes"},
        {text_of(dict("(1,)", "'>f8'")), "descr \">f8\" is big-endian, expected little-endian at byte 20"},
        {text_of(dict("(1,)", "'<c16'")), "descr \"<c16\" is not supported, expected one of <f2"},
        {text_of(dict("(1,)", "'|O'")), "descr \"|O\" is not supported"},
        {text_of(dict("(1,)", "'=f8'")), "descr \"=f8\" is not supported"},
        {text_of(dict("(1,)", "'|f8'")), "descr \"|f8\" is not supported"},
        {text_of(dict("(1,)", "''")), "descr \"\" is not supported"},
        {text_of(dict("(1,)", "'\n\x01\"'")), "descr \"\\x0a\\x01\\x22\" is not supported"},
        {text_of(dict("(1,)", "[('a', '<f8')]")), "descr is a structured type"},
        {text_of(dict("(1,)", "8")), "expected a quoted string in the header at byte 20"},
        {text_of(dict("(1,)", "'<f8'", "0")), "fortran_order is neither True nor False at byte 44"},
        {text_of("{'descr': '<f8', 'shape': (1,), }"), "key 'fortran_order' is missing"},
        {text_of("{'fortran_order': True, 'shape': (1,), }"), "key 'descr' is missing"},
        {text_of("{'descr': '<f8', 'fortran_order': True}"), "key 'shape' is missing"},
        {text_of("{'descr': '<f8', 'descr': '<f8'}"), "key \"descr\" appears twice at byte 27"},
        {text_of("{'descr': '<f8', 'x': 1}"), "unknown key \"x\" at byte 27"},
        {text_of("{'" + std::string(500, 'k') + "': 1}"), "kkk...\" at byte 11"},
        {text_of("{'descr"), "string without an end in the header at byte 11"},
        {text_of("{'descr' '<f8'}"), "expected ':' in the header"},
        {text_of("['descr']"), "expected '{' in the header at byte 10"},
        {text_of(dict("(1,)") + "x"), "unexpected text after the header's dict"},
        {text_of(""), "expected '{' in the header at byte 10"},
        {text_of("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)"), "expected '}' in the header"},
    };
    for (const auto& c : cases) {
      CHECK_MESSAGE(c.text.find(c.words) != std::string::npos, c.text << "\n  lacks: " << std::string(c.words));
      CHECK(c.text.substr(0, 7) == "x.npy: ");
      CHECK(c.text.find('\n') == std::string::npos);
      CHECK(c.text.size() < 300);
    }
  }

  TEST_CASE("npy_header: every cut of a good file is refused") {
    const std::string good = npy(dict("(2, 2)"), std::string(32, 'x'));
    for (std::size_t size = 0; size < good.size(); ++size)
      CHECK(refusal(good.substr(0, size)).substr(0, 7) == "x.npy: ");
    CHECK(refusal(good) == "no file_error was thrown");
  }
}
