// head_redundancy on what it cannot use: exit code 1 for data, 2 for the command line, one line that names the place, and
// no trace in the file system.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tool/run_tool.hpp"

using namespace headred_test;

namespace {

/// A folder with one good file, good.npy (2,3,5,5), and whatever a test adds.
struct inputs {
  hr::cpu be{{.threads = 1}};
  temporary_folder folder;
  inputs() { hr::save_npy(folder / "good.npy", good()); }
  hr::tensor<float, 4, hr::cpu> good() { return random_maps(be, {2, 3, 5, 5}, 1); }
  std::string path(const std::string& name) const { return (folder / name).string(); }
  std::string with(const std::string& name, std::string_view bytes) const {
    write_text(folder / name, bytes);
    return path(name);
  }
  /// A safetensors file around a header of any text.
  std::string with_header(const std::string& header, const std::string& data = "") const {
    return with("bad.safetensors", little_endian(header.size(), 8) + header + data);
  }
};

std::string npy(const std::string& dict, const std::string& data = "") {
  return std::string("\x93NUMPY\x01\x00", 8) + little_endian(dict.size(), 2) + dict + data;
}

}  // namespace

TEST_SUITE("tool") {
  TEST_CASE("the command line is wrong") {
    const inputs in;
    const std::string good = in.path("good.npy");
    const auto wrong = [&](std::vector<std::string> words, std::initializer_list<std::string> fragments) {
      refused(2, std::move(words), fragments);
    };
    wrong({"--attention", good, "--bananas"}, {"unknown option --bananas", "see --help"});
    wrong({"--Attention", good}, {"unknown option --Attention"});
    wrong({good}, {"unexpected argument", "good.npy"});
    wrong({"--threads", "2", "3"}, {"unexpected argument '3'"});
    wrong({"--attention"}, {"--attention needs a value"});
    wrong({"--attention", ""}, {"--attention needs a value"});
    for (const char* option : {"--scale", "--distance", "--plan-from", "--precision", "--prune", "--clusters", "--auto",
                               "--threads", "--seed"})
      wrong({option}, {std::string(option) + " needs a value"});
    wrong({"--distance", "euclid"}, {"--distance is 'euclid'"});
    wrong({"--distance", ""}, {"--distance needs a value"});
    for (const char* list : {",", "cosine,", ",cosine", "cosine,,pearson", "cosine, pearson"})
      wrong({"--distance", list}, {"--distance is '", "all or some of the seven names"});
    wrong({"--distance", "cosine", "euclid"}, {"--distance is 'euclid'"});
    wrong({"--distance", "all,cosine"}, {"expected all alone or names"});
    wrong({"--distance", "cosine", "--distance", "all"}, {"expected all alone or names"});
    wrong({"--at-least-one", "1"}, {"unexpected argument '1'"});
    wrong({"--at-least-one", "--at-least-one"}, {"--at-least-one is given twice"});
    wrong({"--distance", "Cosine"}, {"--distance is 'Cosine'"});
    wrong({"--plan-from", "all"}, {"--plan-from is 'all'"});
    wrong({"--plan-from", "cosine", "--distance", "pearson"}, {"--plan-from is 'cosine'", "that is computed"});
    wrong({"--precision", "f16"}, {"--precision is 'f16'", "f32 or f64"});
    for (const char* ratio : {"1", "-0.1", "nan", "inf", "1e-400x", "", "0,5", "0x1p-1", " 0.5"})
      wrong({"--prune", ratio}, {"--prune "});
    wrong({"--prune", "1"}, {"--prune is '1', expected a ratio in [0,1)"});
    for (const char* k : {"0", "-1", "2.5", "99999999999999999999", "two"})
      wrong({"--clusters", k}, {"--clusters is '"});
    wrong({"--clusters", "65"}, {"--clusters is 65, expected within 1 to 64 heads"});
    wrong({"--attention", good, "--clusters", "7"}, {"--clusters is 7, expected within 1 to 6 heads"});
    for (const char* range : {"5:3", "0:3", "5", ":", "3:", ":3", "1:2:3", "a:b", "-1:3"})
      wrong({"--auto", range}, {"--auto is '", "1 <= MIN <= MAX"});
    wrong({"--attention", good, "--auto", "2:7"}, {"--auto is 2:7, expected within 1 to 6 heads"});
    wrong({"--prune", "0.5", "--clusters", "3"}, {"exclude each other"});
    wrong({"--auto", "2:3", "--clusters", "3"}, {"exclude each other"});
    wrong({"--seed", "1", "--seed", "2"}, {"--seed is given twice"});
    for (const char* threads : {"-1", "4097", "many", "1e3"}) wrong({"--threads", threads}, {"--threads is '"});
    for (const char* seed : {"-1", "18446744073709551616", "x"}) wrong({"--seed", seed}, {"--seed is '"});
    for (const char* scale : {"0", "-1", "nan", "inf", "1e999"}) wrong({"--scale", scale}, {"--scale is '"});
    // --out itself
    for (const auto& words : std::vector<std::vector<std::string>>{{}, {"--threads", "1"}, {"--out"}, {"--out", ""}}) {
      const outcome o = run_tool(words);
      CHECK(o.code == 2);
      CHECK(o.err.find("--out ") != std::string::npos);
    }
    const outcome twice = run_tool({"--out", in.path("a"), "--out", in.path("b")});
    CHECK(twice.code == 2);
    CHECK(twice.err == "head_redundancy: --out is given twice (see --help)\n");
    CHECK(run_tool({"--out", "--threads"}).err == "head_redundancy: --out needs a value (see --help)\n");
  }

  TEST_CASE("files that are not there, or are something else") {
    const inputs in;
    const auto bad = [&](const std::string& path, std::initializer_list<std::string> fragments) {
      refused(1, {"--attention", path}, fragments);
      refused(1, {"--attention", in.path("good.npy"), path}, fragments);
    };
    bad(in.path("none.npy"), {"none.npy: does not exist"});
    bad(in.path("none.safetensors"), {"none.safetensors: does not exist"});
    bad(in.path("good.npy/x.npy"), {"good.npy/x.npy: "});
    bad(in.with("maps.txt", "0.5 0.5"), {"maps.txt: expected a .safetensors or .npy file"});
    bad(in.path(std::string(300, 'x') + ".npy"), {"xxx.npy: cannot be opened"});
    bad("/dev/zero", {"/dev/zero: "});
    fs::create_directories(in.folder / "empty");
    bad(in.path("empty"), {"empty: the folder holds no .safetensors or .npy file"});
    fs::create_directories(in.folder / "folder" / "x.npy");
    bad(in.path("folder"), {"x.npy: is a directory"});
    fs::create_symlink("loop.npy", in.folder / "loop.npy");
    bad(in.path("loop.npy"), {"loop.npy: "});
    bad(in.path("a\nb\x1b[2J.npy"), {"a\\x0ab\\x1b[2J.npy: does not exist"});
    bad(in.with("swapped.npy", little_endian(2, 8) + "{}"), {"swapped.npy: is not an npy file"});
    bad(in.with("swapped.safetensors", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "0000")),
        {"swapped.safetensors: the header's length"});
  }

  TEST_CASE("malformed npy files") {
    const inputs in;
    const auto bad = [&](const std::string& bytes, std::initializer_list<std::string> fragments) {
      refused(1, {"--attention", in.with("bad.npy", bytes)}, fragments);
    };
    const std::string good = read_text(in.folder / "good.npy");
    bad("", {"bad.npy: is not an npy file"});
    bad(good.substr(0, 9), {"bad.npy: is truncated"});
    bad(good.substr(0, 60), {"bad.npy: is truncated"});
    bad(good.substr(0, good.size() - 1), {"bad.npy: is truncated", "(2,3,5,5)"});
    bad(good + "x", {"bad.npy: is too long"});
    const auto header = [](const std::string& type, const std::string& shape) {
      return npy("{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }\n");
    };
    bad(header("<f4", "(1099511627776, 1099511627776, 4, 4)"), {"bad.npy: ", "overflows"});
    bad(header("<f4", "(1000000, 1000, 64, 64)"), {"bad.npy: is truncated"});
    bad(header("<f4", "(1099511627776, 1, 0, 0)"), {"bad.npy: (1099511627776,1,0,0), expected 1 to 4096 heads"});
    bad(header("<f4", "(2147483648, 4611686018427387904, 0, 0)"), {"bad.npy: "});
    bad(header("<f4", "(0, 3, 5, 5)"), {"(0,3,5,5), expected 1 to 4096 heads"});
    bad(header("<f4", "(2, 0, 5, 5)"), {"(2,0,5,5), expected 1 to 4096 heads"});
    bad(header("<f4", "(2, 3, 0, 0)"), {"bad.npy", "no sentence has a valid token (1 skipped)"});
    bad(header("<f4", "(0, 2, 3, 5, 5)"), {"bad.npy: holds no sentence"});
    bad(header("<f4", "(3, 1, 0)"), {"bad.npy: ", "rank 3, expected 4 (L,H,T,S) or 5 (B,L,H,T,S)"});
    bad(header("<f4", "(1, 1, 2, 3, 0, 0)"), {"rank 6, expected 4"});
    bad(header("<c8", "(2, 3, 5, 5)"), {"\"<c8\" is not supported"});
    bad(header("|O", "(2, 3, 5, 5)"), {"|O"});
    bad(header(">f4", "(2, 3, 5, 5)"), {"big-endian"});
    bad(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }\n"), {"structured"});
    bad(npy(std::string(60000, '(')), {"bad.npy: "});
  }

  TEST_CASE("lengths that do not fit") {
    inputs in;
    hr::tensor<float, 5, hr::cpu> batch(in.be, {2, 1, 2, 3, 4});
    for (hr::index_t i = 0; i < batch.size(); ++i) batch.data()[i] = .25f;
    hr::save_npy(in.folder / "batch.npy", batch);
    const auto bad = [&](const auto& lengths, std::initializer_list<std::string> fragments) {
      hr::save_npy(in.folder / "batch.lengths.npy", lengths);
      refused(1, {"--attention", in.path("batch.npy")}, fragments);
    };
    using numbers = std::vector<std::int64_t>;
    bad(numbers{3}, {"batch.lengths.npy: holds 1 lengths, expected 2"});
    bad(numbers{3, 4}, {"batch.lengths.npy: length 1 is 4, expected 0 to 3"});
    bad(numbers{-1, 3}, {"length 0 is -1, expected 0 to 3"});
    bad(std::vector<double>{3, 3}, {"batch.lengths.npy: ", "float64"});
    bad(batch, {"batch.lengths.npy: ", "rank 5"});
    bad(numbers{0, 0}, {"batch.npy", "no sentence has a valid token (2 skipped)"});
    in.with("batch.lengths.npy", "");
    refused(1, {"--attention", in.path("batch.npy")}, {"batch.lengths.npy: is not an npy file"});
    refused(1, {"--attention", in.path("batch.lengths.npy")}, {"batch.lengths.npy"});
  }

  TEST_CASE("padding of which nobody said so") {
    inputs in;
    const auto check = [&](hr::index_t first, std::initializer_list<std::string> fragments) {
      hr::tensor<float, 5, hr::cpu> batch(in.be, {2, 2, 3, 5, 5});
      std::copy_n(in.good().data(), 150, batch.data());
      std::copy_n(in.good().data(), 150, batch.data() + 150);
      for (hr::index_t i = 0; i < 6; ++i) std::fill_n(batch.data() + 150 + 25 * i + 5 * first, 25 - 5 * first, 0.f);
      hr::save_npy(in.folder / "batch.npy", batch);
      refused(1, {"--attention", in.path("batch.npy")}, fragments);
    };
    check(3, {"batch.npy: sentence 1: rows 3 to 4 are zero in every head: give the valid tokens in batch.lengths.npy"});
    check(4, {"batch.npy: sentence 1: row 4 is zero in every head: give the valid tokens in batch.lengths.npy"});
    check(0, {"batch.npy: sentence 1: rows 0 to 4 are zero in every head"});
  }

  TEST_CASE("an earlier result is no input") {
    const inputs in;
    fs::create_directories(in.folder / "result");
    fs::copy(in.folder / "good.npy", in.folder / "result" / "redundancy_cosine.npy");
    refused(1, {"--attention", in.path("result")},
            {"result: the folder holds \"redundancy_cosine.npy\", so it is an earlier result"});
  }

  TEST_CASE("malformed safetensors files") {
    inputs in;
    const auto bad = [&](const std::string& path, std::initializer_list<std::string> fragments) {
      refused(1, {"--attention", path}, fragments);
    };
    hr::save_safetensors(in.folder / "good.safetensors", {{"first", in.good()}, {"second", in.good()}});
    const std::string good = read_text(in.folder / "good.safetensors");
    bad(in.with("bad.safetensors", ""), {"bad.safetensors: is truncated"});
    for (const std::size_t size : {std::size_t{7}, std::size_t{8}, std::size_t{20}, good.size() / 2, good.size() - 1})
      bad(in.with("bad.safetensors", good.substr(0, size)), {"bad.safetensors: is truncated"});
    bad(in.with("bad.safetensors", good + "x"), {"bad.safetensors: is too long"});
    bad(in.with("bad.safetensors", little_endian(~0ull, 8) + "{}"), {"the header's length", "18446744073709551615"});
    bad(in.with("bad.safetensors", little_endian(99999999, 8) + "{}"), {"is truncated: a header of 99999999 bytes"});
    bad(in.with_header("{}"), {"bad.safetensors: holds no sentence"});
    bad(in.with_header(std::string(100000, '[')), {"bad.safetensors: "});
    const auto tensor = [](const std::string& type, const std::string& shape, const std::string& end) {
      return R"({"maps":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":[0,)" + end + "]}}";
    };
    bad(in.with_header(tensor("F32", "[1099511627776,4294967296,2,2]", "16")), {"\"maps\"", "overflows"});
    bad(in.with_header(tensor("F32", "[4294967296,1,0,0]", "0")),
        {"tensor \"maps\": (4294967296,1,0,0), expected 1 to 4096 heads"});
    bad(in.with_header(tensor("F32", "[1,4097,0,0]", "0")), {"(1,4097,0,0), expected 1 to 4096 heads"});
    bad(in.with_header(tensor("F32", "[2,2,0,0]", "0")), {"no sentence has a valid token"});
    bad(in.with_header(tensor("C64", "[1,1,1,1]", "8"), "00000000"), {"\"C64\" is not supported"});
    bad(in.with_header(tensor("F32", "[1,1,1]", "4"), "0000"), {"tensor \"maps\" has rank 3", "expected rank 4"});
    bad(in.with_header(tensor("F32", "[1,1,1,1]", "8"), "00000000"), {"tensor \"maps\"", "data_offsets"});
    // two layouts; names are cut and escaped
    hr::save_safetensors(in.folder / "bad.safetensors",
                         {{"a", in.good()}, {"b\n", random_maps(in.be, {3, 2, 5, 5}, 1)}});
    bad(in.path("bad.safetensors"), {"tensor \"b\\x0a\": (3,2,5,5), the sentences before have 2 layers of 3 heads"});
    hr::save_safetensors(in.folder / "bad.safetensors", {{std::string(5000, 'n'), in.good().view()[0]}});
    bad(in.path("bad.safetensors"), {"tensor \"" + std::string(100, 'n') + "...\" has rank 3"});
  }

  TEST_CASE("numbers that no attention has: file, tensor, layer, head and row are named") {
    inputs in;
    const auto spoil = [&](hr::index_t row, float value) {
      auto maps = in.good();
      maps(1, 2, row, 3) = value;
      hr::save_safetensors(in.folder / "bad.safetensors", {{"a good one", in.good()}, {"spoiled \xc3\xa4", maps}});
      hr::save_npy(in.folder / "bad.npy", maps);
      hr::tensor<float, 5, hr::cpu> batch(in.be, {2, 2, 3, 5, 5});
      std::copy_n(in.good().data(), maps.size(), batch.data());
      std::copy_n(maps.data(), maps.size(), batch.data() + maps.size());
      hr::save_npy(in.folder / "batch.npy", batch);
    };
    const auto check = [&](const std::string& place, const std::string& what) {
      for (const auto& name : all_distances()) {
        CAPTURE(name);
        refused(1, {"--distance", name, "--attention", in.path("good.npy"), in.path("bad.safetensors")},
                {"bad.safetensors: tensor \"spoiled \xc3\xa4\": " + place, what});
      }
      refused(1, {"--precision", "f64", "--attention", in.path("bad.npy")}, {"bad.npy: " + place, what});
      refused(1, {"--attention", in.path("batch.npy")}, {"batch.npy: sentence 1: " + place, what});
    };
    spoil(4, std::numeric_limits<float>::quiet_NaN());
    check("layer 1, head 2, row 4: ", "key 3 is nan");
    spoil(0, std::numeric_limits<float>::infinity());
    check("layer 1, head 2, row 0: ", "key 3 is inf");
    spoil(2, -1e-4f);
    check("layer 1, head 2, row 2: ", "key 3 is -0.0001");
    spoil(3, .9f);
    check("layer 1, head 2, row 3: ", "expected 1 within 0.01");
  }

  TEST_CASE("integers without a unit, or with a bad one") {
    inputs in;
    hr::tensor<std::uint16_t, 4, hr::cpu> stored(in.be, {1, 2, 2, 2});
    for (hr::index_t i = 0; i < stored.size(); ++i) stored.data()[i] = 5000;
    hr::save_npy(in.folder / "a.npy", stored);
    hr::save_safetensors(in.folder / "a.safetensors", {{"maps", stored}});
    refused(1, {"--attention", in.path("a.npy")}, {"a.npy: the array is stored as uint16", "--scale"});
    refused(1, {"--attention", in.path("a.safetensors")},
            {"a.safetensors: tensor \"maps\" is stored as uint16", "--scale"});
    hr::save_safetensors(in.folder / "f.safetensors", {{"maps", in.good()}});
    refused(1, {"--attention", in.path("good.npy"), "--scale", "1"},
            {"good.npy: the array is float32, which needs no --scale"});
    refused(1, {"--attention", in.path("f.safetensors"), "--scale", "0.5"},
            {"f.safetensors: tensor \"maps\" is float32, which needs no --scale"});
    refused(1, {"--attention", in.path("a.npy"), "--scale", "1"}, {"a.npy: layer 0, head 0, row 0: ", "10000"});
    for (const std::string& scale :
         std::vector<std::string>{"", "x", "-1", "0", "nan", "1e999", "\n", std::string(1000, '1')}) {
      hr::save_safetensors(in.folder / "a.safetensors", {{"maps", stored}}, {{"scale", scale}});
      refused(1, {"--attention", in.path("a.safetensors")}, {"a.safetensors: metadata \"scale\" is"});
    }
  }
}
