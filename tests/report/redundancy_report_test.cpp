#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/cluster.hpp>
#include <headred/report.hpp>

#include "report/example_report.hpp"

namespace {

namespace fs = std::filesystem;
using headred::head_layout;
using headred::index_t;
using headred::matrix;
using headred::redundancy_page;
using headred::redundancy_report;
using headred_test::example_report;
using headred_test::hostile_report;

/// A folder of its own that goes with the test.
struct scratch_folder {
  fs::path path = fs::temp_directory_path() /
                  ("headred_report_" + std::to_string(std::chrono::steady_clock::now().time_since_epoch().count()));
  scratch_folder() { fs::create_directories(path); }
  ~scratch_folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
  }
};

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

std::string error_of(const redundancy_report& report) {
  try {
    redundancy_page(report);
  } catch (const headred::error& e) {
    return e.what();
  }
  return "";
}

/// The bits of a base64 text, lowest bit of each byte first: a second, slow reading of what the page carries.
std::vector<bool> bits_of(const std::string& base64) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<bool> high_first, low_first;
  for (const char c : base64) {
    if (c == '=') break;
    const std::size_t digit = digits.find(c);
    REQUIRE(digit != std::string::npos);
    for (int bit = 5; bit >= 0; --bit) high_first.push_back((digit >> bit & 1) != 0);
  }
  for (std::size_t byte = 0; byte + 8 <= high_first.size(); byte += 8)
    for (std::size_t bit = 8; bit-- > 0;) low_first.push_back(high_first[byte + bit]);
  return low_first;
}

/// The values that a page carries of its number-th distance, upper triangle row by row.
std::vector<double> values_in(const std::string& page, std::size_t number, std::size_t count) {
  const int bits = std::atoi(page.c_str() + page.find("\"bits\":") + 7);
  std::size_t at = 0;
  for (std::size_t i = 0; i <= number; ++i) at = page.find("\"packed\":\"", at) + 10;
  const auto stream = bits_of(page.substr(at, page.find('"', at) - at));
  const auto width = static_cast<std::size_t>(bits);
  REQUIRE(stream.size() >= count * width);
  REQUIRE(stream.size() < count * width + 8);
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t code = 0;
    for (std::size_t bit = 0; bit < width; ++bit) code |= std::uint32_t{stream[i * width + bit]} << bit;
    const std::uint32_t top = (1u << bits) - 1;
    values.push_back(code == top ? std::nan("") : code / static_cast<double>(top - 1));
  }
  return values;
}

}  // namespace

TEST_SUITE("report") {
  TEST_CASE("the page carries the upper triangle to half a step, 0 and 1 exactly, NaN as missing") {
    redundancy_report r;
    r.layout = head_layout({2, 0, 3});
    matrix d(5, 5);
    const headred::random_stream random(3);
    for (index_t i = 0; i < 5; ++i)
      for (index_t j = i + 1; j < 5; ++j) d(i, j) = d(j, i) = random.uniform(static_cast<std::uint64_t>(5 * i + j));
    d(0, 1) = d(1, 0) = 1;
    d(2, 4) = d(4, 2) = std::nan("");
    d(1, 3) = d(3, 1) = 1e-6;
    r.add_distance("first", matrix(5, 5));
    r.add_distance("second", d);
    const auto values = values_in(redundancy_page(r), 1, 15);
    std::size_t k = 0;
    for (index_t i = 0; i < 5; ++i)
      for (index_t j = i; j < 5; ++j, ++k) {
        if (std::isnan(d(i, j)))
          CHECK(std::isnan(values[k]));
        else
          CHECK(std::abs(values[k] - d(i, j)) <= 0.5 / 65534 + 1e-15);
      }
    CHECK(values[0] == 0);
    CHECK(values[1] == 1);
  }

  TEST_CASE("bits: 16 while 8 MB suffice, never below 8") {
    CHECK(headred::detail::packed_bits(144, 7) == 16);
    CHECK(headred::detail::packed_bits(1024, 7) == 13);
    CHECK(headred::detail::packed_bits(4096, 7) == 8);
    CHECK(headred::detail::packed_bits(1, 0) == 16);
    auto r = example_report(head_layout(1, 30), 4, 1);
    for (int bits = 8; bits <= 16; ++bits) {
      const auto bytes = headred::detail::packed_triangle(r.distances[0].values, bits);
      CHECK(bytes.size() == (465u * static_cast<unsigned>(bits) + 7) / 8);
    }
  }

  TEST_CASE("sizes and time: 144 heads under 3 MB, 1024 heads under 10 MB and 2 s, seven matrices each") {
    CHECK(redundancy_page(example_report(head_layout(12, 12), 36)).size() < 400'000);
    const auto large = example_report(head_layout(32, 32), 60);
    const scratch_folder folder;
    const auto start = std::chrono::steady_clock::now();
    headred::write_redundancy_report(folder.path / "large.html", large);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    MESSAGE("1024 heads x 7: " << took.count() << " s, " << fs::file_size(folder.path / "large.html") << " bytes");
    CHECK(fs::file_size(folder.path / "large.html") < 10'000'000);
    CHECK(took.count() < 2);
    CHECK(content(folder.path / "large.html").find("\"bits\":13,") != std::string::npos);
  }

  TEST_CASE("equal reports give equal bytes, and a changed value other ones") {
    const auto a = example_report(head_layout(3, 4), 3), b = example_report(head_layout(3, 4), 3);
    CHECK(redundancy_page(a) == redundancy_page(b));
    auto c = a;
    c.distances[6].values(10, 11) = c.distances[6].values(11, 10) = 0.123;
    CHECK(redundancy_page(a) != redundancy_page(c));
  }

  TEST_CASE("the page needs nothing from elsewhere") {
    std::string page = redundancy_page(example_report(head_layout(3, 4), 3));
    // the one address in it is the name of the SVG namespace, which is never opened
    CHECK(count_of(page, "http") == count_of(page, "http-equiv") + 1);
    CHECK(count_of(page, "://") == 1);
    CHECK(count_of(page, "default-src 'none'") == 1);
    for (const char* load : {"src=", "@import", "url(\"", "fetch(", "XMLHttpRequest", "import("})
      CHECK_MESSAGE(count_of(page, load) == 0, load);
    CHECK(page.starts_with("<!doctype html>\n<html lang=\"en\">"));
    CHECK(page.ends_with("</html>\n"));
  }

  TEST_CASE("strings cannot leave their place") {
    const std::string page = redundancy_page(hostile_report());
    CHECK(count_of(page, "<script") == 2);
    CHECK(count_of(page, "</script") == 2);
    CHECK(count_of(page, "<img") == 0);
    CHECK(count_of(page, "</title") == 1);
    CHECK(count_of(page, "<!--") == 0);
    CHECK(page.find('\0') == std::string::npos);
    CHECK(page.find("\xE2\x80\xA8") != std::string::npos);  // in title and heading a plain character
    const std::string json = page.substr(page.find("id=\"data\">"));
    CHECK(json.find("\xE2\x80\xA8") == std::string::npos);  // before a script reads it, an escape
    CHECK(count_of(json, "\\u2028") > 5);
    for (std::string_view rest = page; !rest.empty();) {
      const auto c = headred::detail::first_character(rest);
      REQUIRE((c.code != 0xFFFD || rest.starts_with("\xEF\xBF\xBD")));
      rest.remove_prefix(c.bytes);
    }
  }

  TEST_CASE("unknown values travel as null") {
    const std::string page = redundancy_page(hostile_report());
    CHECK(page.find("[3,null]") != std::string::npos);
    for (const char* value : {":nan", ",nan", "[nan"}) CHECK_MESSAGE(count_of(page, value) == 0, value);
    redundancy_report bare;
    bare.layout = head_layout(1, 1);
    CHECK(redundancy_page(bare).find("\"mean\":null") != std::string::npos);
    CHECK(redundancy_page(bare).find("\"kept\":null") != std::string::npos);
    bare.kept.emplace();
    CHECK(redundancy_page(bare).find("\"kept\":[]") != std::string::npos);
  }

  TEST_CASE("heads are shown by cluster when no order is given") {
    redundancy_report r;
    r.layout = head_layout(2, 3);
    r.labels = {0, 1, 0, 2, 1, 0};
    CHECK(redundancy_page(r).find("\"order\":[0,2,5,1,4,3]") != std::string::npos);
    r.order = {5, 4, 3, 2, 1, 0};
    CHECK(redundancy_page(r).find("\"order\":[5,4,3,2,1,0]") != std::string::npos);
    r.order = r.labels = {};
    CHECK(redundancy_page(r).find("\"order\":[]") != std::string::npos);
  }

  TEST_CASE("cluster_order: each label is one run, clusters and heads in the order given") {
    using numbers = std::vector<index_t>;
    CHECK(headred::cluster_order({3, 1, 0, 4, 2}, {0, 1, 0, 2, 1}) == numbers{3, 1, 4, 0, 2});
    CHECK(headred::cluster_order({}, {}).empty());
    CHECK(headred::cluster_order({0}, {0}) == numbers{0});
    // weak clusters: distances that are all but noise, which the tree orders otherwise than the clusters
    constexpr index_t n = 48, k = 12;
    matrix d(n, n);
    const headred::random_stream random(5);
    for (index_t i = 0; i < n; ++i)
      for (index_t j = i + 1; j < n; ++j)
        d(i, j) = d(j, i) = 0.5 + 0.1 * random.uniform(static_cast<std::uint64_t>(i * n + j));
    headred::cpu be{{.threads = 1}};
    const numbers labels = headred::spectral_embedding<headred::cpu>(be, d).clusters(k).labels;
    const numbers tree = headred::hierarchical_order(d), order = headred::cluster_order(tree, labels);
    const auto label = [&](index_t head) { return labels[static_cast<std::size_t>(head)]; };
    const auto runs = [&](const numbers& heads) {
      numbers found;
      for (const index_t head : heads)
        if (found.empty() || found.back() != label(head)) found.push_back(label(head));
      return found;
    };
    CHECK(runs(tree).size() > k);
    CHECK(runs(order).size() == k);
    CHECK(std::is_permutation(order.begin(), order.end(), tree.begin(), tree.end()));
    numbers first_met;
    for (const index_t head : tree)
      if (std::find(first_met.begin(), first_met.end(), label(head)) == first_met.end())
        first_met.push_back(label(head));
    CHECK(runs(order) == first_met);
    for (index_t c = 0; c < k; ++c) {
      numbers before, after;
      std::copy_if(tree.begin(), tree.end(), std::back_inserter(before), [&](index_t i) { return label(i) == c; });
      std::copy_if(order.begin(), order.end(), std::back_inserter(after), [&](index_t i) { return label(i) == c; });
      CHECK(before == after);
    }
    const auto error = [](numbers heads, const numbers& of) {
      try {
        headred::cluster_order(std::move(heads), of);
      } catch (const headred::error& e) {
        return std::string(e.what());
      }
      return std::string();
    };
    CHECK(error({0, 1}, {0}) == "cluster_order: order has 2 entries, labels 1, expected as many");
    CHECK(error({0, 2}, {0, 0}) == "cluster_order: order names head 2, expected [0,2)");
    CHECK(error({0, 1}, {0, -1}) == "cluster_order: a label is -1, expected [0,2)");
  }

  TEST_CASE("add_distance copies what as_view accepts") {
    redundancy_report r;
    r.layout = head_layout(1, 2);
    const std::vector<float> values{0, 0.25f, 0.25f, 0};
    r.add_distance("view", headred::tensor_view<const float, 2>(values.data(), {2, 2}));
    CHECK(r.distances[0].values(0, 1) == 0.25);
    CHECK(redundancy_page(r).find("\"spread\":[0.25,0.25,0.25]") != std::string::npos);
  }

  TEST_CASE("errors name the entry and what was expected") {
    const auto good = example_report(head_layout(3, 4), 3, 2);
    REQUIRE(error_of(good) == "");
    auto changed = [&](auto change) {
      auto r = good;
      change(r);
      return error_of(r);
    };
    const std::string start = "redundancy_report: ";
    CHECK(changed([](auto& r) { r.layout = head_layout(); }) == start + "the layout has 0 heads, expected 1 to 4096");
    CHECK(changed([](auto& r) { r.layout = head_layout(64, 65); }) ==
          start + "the layout has 4160 heads, expected 1 to 4096");
    CHECK(changed([](auto& r) { r.layout = head_layout(3, 5); }) ==
          start + "distance \"jensen_shannon\" is (12,12), expected (15,15)");
    CHECK(changed([](auto& r) { r.distances[1].values = matrix(12, 11); }) ==
          start + "distance \"cosine\" is (12,11), expected (12,12)");
    CHECK(changed([](auto& r) {
            r.distances[1].values(1, 5) = 0.125;
            r.distances[1].values(5, 1) = 0.25;
          }) ==
          start +
              "distance \"cosine\" of heads (0,1) and (1,1) is 0.125 in one triangle and 0.25 in the other, expected a "
              "symmetric matrix");
    CHECK(changed([](auto& r) { r.distances[0].values(0, 4) = r.distances[0].values(4, 0) = 1.5; }) ==
          start + "distance \"jensen_shannon\" of heads (0,0) and (1,0) is 1.5, expected 0 to 1");
    CHECK(changed([](auto& r) {
            r.distances[0].values(0, 4) = r.distances[0].values(4, 0) = -std::numeric_limits<double>::infinity();
          }) == start + "distance \"jensen_shannon\" of heads (0,0) and (1,0) is -inf, expected 0 to 1");
    CHECK(changed([](auto& r) { r.distances[0].values(0, 4) = std::nan(""); }).find("nan in one triangle") !=
          std::string::npos);
    CHECK(changed([](auto& r) {
            r.distances[0].name = "a\nb";
            r.distances[0].values = matrix(1, 1);
          }) == start + "distance \"a\\u000ab\" is (1,1), expected (12,12)");
    CHECK(changed([](auto& r) { r.order = {0, 1}; }) == start + "order has 2 entries, expected 12, one for each head");
    CHECK(changed([](auto& r) { r.order = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10}; }) ==
          start + "order names head 10 twice");
    CHECK(changed([](auto& r) { r.order = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12}; }) ==
          start + "order names head 12, expected numbers in [0,12)");
    CHECK(changed([](auto& r) { r.labels.pop_back(); }) ==
          start + "labels has 11 entries, expected 12, one for each head");
    CHECK(changed([](auto& r) { r.labels[5] = 12; }) == start + "the label of head (1,1) is 12, expected [0,12)");
    CHECK(changed([](auto& r) { r.labels[5] = -1; }) == start + "the label of head (1,1) is -1, expected [0,12)");
    CHECK(changed([](auto& r) { r.silhouettes.resize(3); }) ==
          start + "silhouettes has 3 entries, expected 12, one for each head");
    CHECK(changed([](auto& r) { r.silhouettes[0] = 1.5; }) ==
          start + "the silhouette of head (0,0) is 1.5, expected -1 to 1");
    CHECK(changed([](auto& r) { r.kept->push_back(99); }) == start + "kept names head 99, expected numbers in [0,12)");
    CHECK(changed([](auto& r) { r.kept->push_back(r.kept->front()); }) == start + "kept names head 0 twice");
    CHECK(changed([](auto& r) { r.chosen_k = 13; }) == start + "chosen_k is 13, expected [0,12]");
    CHECK(changed([](auto& r) { r.mean_silhouette = -2; }) == start + "mean_silhouette is -2, expected -1 to 1");
    CHECK(changed([](auto& r) { r.curve[1].k = 2; }) ==
          start + "curve has k = 2 after 2, expected ascending k in [1,12]");
    CHECK(changed([](auto& r) { r.curve[0].mean_silhouette = 7; }) ==
          start + "the mean silhouette for k = 2 is 7, expected -1 to 1");
    CHECK(changed([](auto& r) { r.comparison.correlation = matrix(2, 3); }) ==
          start + "comparison.correlation is (2,3), expected (2,2)");
    CHECK(changed([](auto& r) { r.comparison.p_value(0, 1) = 2; }) ==
          start + "comparison.p_value of \"jensen_shannon\" and \"cosine\" is 2, expected 0 to 1");
    CHECK(changed([](auto& r) { r.gaps[0].points[1].gap = 0; }) ==
          start + "gap 0 of \"jensen_shannon\" follows gap 0, expected ascending gaps in [0,3)");
    CHECK(changed([](auto& r) { r.gaps[1].points[2].high = 3; }) ==
          start + "gap 2 of \"cosine\" is 3, expected 0 to 1");
    CHECK_THROWS_AS(redundancy_page(redundancy_report{}), headred::argument_error);
    auto r = good;
    r.distances[0].values = matrix(3, 3);
    CHECK_THROWS_AS(redundancy_page(r), headred::shape_error);
  }

  TEST_CASE("a page is written whole or not at all") {
    const scratch_folder folder;
    const auto good = example_report(head_layout(2, 2), 2);
    auto bad = good;
    bad.labels[0] = -1;
    CHECK_THROWS_AS(headred::write_redundancy_report(folder.path / "bad.html", bad), headred::argument_error);
    CHECK(folder.files() == 0);
    headred::write_redundancy_report(folder.path / "page.html", good);
    CHECK(content(folder.path / "page.html") == redundancy_page(good));
    CHECK_THROWS_AS(headred::write_redundancy_report(folder.path / "page.html", bad), headred::argument_error);
    CHECK(content(folder.path / "page.html") == redundancy_page(good));
    CHECK_THROWS_AS(headred::write_redundancy_report(folder.path / "absent" / "page.html", good), headred::file_error);
    CHECK_THROWS_AS(headred::write_redundancy_report(folder.path, good), headred::file_error);
    CHECK(folder.files() == 1);
  }

  // HEADRED_REPORT_PAGES: the folder where a browser test finds the pages; without it they are written and removed.
  TEST_CASE("pages for the browser") {
    const scratch_folder scratch;
    const char* named = std::getenv("HEADRED_REPORT_PAGES");
    const fs::path folder = named != nullptr && *named != '\0' ? fs::path(named) : scratch.path;
    fs::create_directories(folder);
    const auto write = [&](const char* name, const redundancy_report& report) {
      headred::write_redundancy_report(folder / (std::string(name) + ".html"), report);
      CHECK(fs::file_size(folder / (std::string(name) + ".html")) > 20'000);
    };
    write("bert_base", example_report(head_layout(12, 12), 12));
    write("many_heads", example_report(head_layout(32, 32), 40));
    auto weak = example_report(head_layout(12, 12), 48);  // some heads are alone
    weak.labels[143] = 48;
    weak.order.resize(144);
    std::iota(weak.order.begin(), weak.order.end(), index_t{0});
    write("scattered", weak);
    weak.order = headred::cluster_order(weak.order, weak.labels);
    write("many_clusters", weak);
    write("uneven_layers", example_report(head_layout({5, 0, 1, 12, 3}), 5));
    write("hostile", hostile_report());
    write("one_head", example_report(head_layout(1, 1), 1));
    write("two_heads", example_report(head_layout(1, 2), 1));
    redundancy_report bare;
    bare.layout = head_layout(2, 2);
    write("bare", bare);
    bare.add_distance("all alike", matrix(4, 4));
    write("all_alike", bare);
    // for the check of the check: a page whose script does not reach its end
    fs::create_directories(folder / "broken");
    std::string page = redundancy_page(bare);
    const std::string last = "root.dataset.ready = '1';";
    REQUIRE(count_of(page, last) == 1);
    page.replace(page.find(last), last.size(), "");
    std::ofstream(folder / "broken" / "unfinished.html", std::ios::binary) << page;
  }
}
