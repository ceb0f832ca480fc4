// head_redundancy on input that it can use: what it finds, and that nothing but the input decides about it.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "tool/run_tool.hpp"

using namespace headred_test;

namespace {

/// Sentences of 2 layers of 3 heads, of 3 to 7 tokens.
std::vector<hr::tensor<float, 4, hr::cpu>> some_sentences(hr::cpu& be, int count = 5) {
  std::vector<hr::tensor<float, 4, hr::cpu>> all;
  for (int i = 0; i < count; ++i) {
    const hr::index_t tokens = 3 + i % 5;
    all.push_back(random_maps(be, {2, 3, tokens, tokens}, static_cast<std::uint64_t>(i)));
  }
  return all;
}

/// The sentences in one file, tensor i named names[i].
void save(const fs::path& path, const std::vector<hr::tensor<float, 4, hr::cpu>>& sentences,
          const std::vector<std::string>& names) {
  std::vector<hr::safetensors_entry> entries;
  for (std::size_t i = 0; i < names.size(); ++i) entries.emplace_back(names[i], sentences[i]);
  hr::save_safetensors(path, entries);
}

/// The first 16 bits of an IEEE half, rounded towards zero; for numbers from 2^-14 to 1.
std::uint16_t half_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>(((bits >> 23) - 112) << 10 | (bits >> 13 & 0x3ff));
}

}  // namespace

TEST_SUITE("tool") {
  TEST_CASE("--help") {
    const outcome o = run_tool({"--help"});
    CHECK(o.code == 0);
    CHECK(o.err == "");
    // every option of the code is in the text
    std::ifstream source(fs::path(HEADRED_SOURCE_DIR) / "examples/support/settings.hpp");
    REQUIRE(source);
    std::stringstream code;
    code << source.rdbuf();
    const std::string text = code.str();
    const std::regex option("option == \"(--[a-z-]+)\"");
    int found = 0;
    for (std::sregex_iterator it(text.begin(), text.end(), option), end; it != end; ++it, ++found) {
      CAPTURE((*it)[1].str());
      CHECK(o.out.find("\n  " + (*it)[1].str() + " ") != std::string::npos);
    }
    CHECK(found == 12);
    for (const auto& name : all_distances()) CHECK(o.out.find(name) != std::string::npos);
    for (const std::string line : {"0 done", "1 the input", "2 the command line"})
      CHECK(o.out.find(line) != std::string::npos);
    CHECK(run_tool({"--out", "/dev/null/x", "--help"}).code == 0);
    CHECK(run_tool({"-h"}).out == o.out);
  }

  TEST_CASE("--version") {
    const outcome o = run_tool({"--version"});
    CHECK(o.code == 0);
    CHECK(o.err == "");
    CHECK(std::regex_match(o.out, std::regex("headred [0-9]+\\.[0-9]+\\.[0-9]+\n")));
  }

  TEST_CASE("planted maps: all 16 groups are found, for any number of threads") {
    const temporary_folder folder;
    std::map<std::string, std::string> first;
    for (const char* threads : {"1", "2", "3"}) {
      const std::string out = (folder / threads).string();
      const outcome o = run_tool({"--threads", threads, "--out", out});
      REQUIRE(o.code == 0);
      CHECK(o.err == "");
      CHECK(o.out.find("planted groups found: all 16, every head in its own") != std::string::npos);
      const result r = read_result(out);
      CHECK(r.heads == 64);
      CHECK(r.summary["k"] == 16);
      CHECK(r.summary["clusters_found"] == 16);
      CHECK(r.summary["status"] == "converged");
      CHECK(r.summary["kept"].size() == 16);
      CHECK(r.summary["sentences"] == json({{"used", 24}, {"skipped", 0}}));
      CHECK(r.summary["curve"].size() == 31);
      CHECK(r.summary["curve"][0]["k"] == 2);
      CHECK(r.summary["mean_silhouette"] == r.summary["curve"][14]["mean_silhouette"]);
      CHECK(r.summary["mean_silhouette"] > .9);
      for (const auto& name : all_distances()) {
        CHECK(r.summary["layer_gap"][name].size() == 8);
        CHECK(r.summary["correlations"][name][name] == doctest::Approx(1));
        // Distance 0 exactly: the diagonal; the twins of 12 groups; at sentence level also the heads whose rows are all
        // the same, of which three groups have two each (4 more pairs for each two groups).
        const auto zeros = std::count(r.redundancy.at(name).begin(), r.redundancy.at(name).end(), 0.0);
        const bool by_sentence =
            name == "distance_correlation" || name == "procrustes" || name == "canonical_correlation";
        CHECK(zeros == 64 + 2 * (by_sentence ? 12 + 3 * 4 : 12));
      }
      if (first.empty()) first = without_timings(r);
      CHECK(without_timings(r) == first);
    }
  }

  TEST_CASE("planted maps in double, and from another seed") {
    const result wide = answer({"--precision", "f64", "--distance", "cosine"}, {"cosine"});
    CHECK(wide.summary["precision"] == "f64");
    CHECK(wide.summary["plan_from"] == "cosine");
    CHECK(wide.summary["clusters_found"] == wide.summary["k"]);
    const result other = answer({"--seed", "18446744073709551615", "--distance", "jensen_shannon"}, {"jensen_shannon"});
    CHECK(other.summary["k"] == 16);
    CHECK(other.summary["seed"] == 18446744073709551615u);
  }

  TEST_CASE("a distance alone is the same as among all, and its plan comes from it") {
    hr::cpu be{{.threads = 1}};
    const temporary_folder folder;
    const auto sentences = some_sentences(be);
    save(folder / "a.safetensors", sentences, {"0", "1", "2", "3", "4"});
    const std::string input = (folder / "a.safetensors").string();
    const result all = answer({"--attention", input});
    CHECK(all.summary["plan_from"] == "jensen_shannon");
    CHECK(all.summary["k"] == 3);  // half of the heads, unless told otherwise
    for (const auto& name : all_distances()) {
      const result one = answer({"--attention", input, "--distance", name}, {name});
      CHECK(one.summary["plan_from"] == name);
      CHECK(one.redundancy.at(name) == all.redundancy.at(name));
      CHECK(one.summary["layer_gap"][name] == all.summary["layer_gap"][name]);
      const result from = answer({"--attention", input, "--plan-from", name});
      CHECK(from.summary["labels"] == one.summary["labels"]);
    }
    const result mean = answer({"--attention", input, "--plan-from", "mean"});
    CHECK(mean.summary["plan_from"] == "mean");
    CHECK(mean.files.at("report.html").find("\"name\":\"mean\"") != std::string::npos);
  }

  TEST_CASE("some of the distances, separated by commas, spaces or both") {
    hr::cpu be{{.threads = 1}};
    const temporary_folder folder;
    hr::save_npy(folder / "a.npy", random_maps(be, {2, 3, 5, 5}, 2));
    const std::vector<std::string> three = {"procrustes", "cosine", "pearson"};
    const auto with = [&](std::vector<std::string> words) {
      words.insert(words.end(), {"--attention", (folder / "a.npy").string()});
      return answer(words, three);
    };
    const result commas = with({"--distance", "procrustes,cosine,pearson"});
    CHECK(commas.summary["plan_from"] == "procrustes");  // the first, for want of jensen_shannon
    const auto expected = without_timings(commas);
    CHECK(without_timings(with({"--distance", "procrustes", "cosine", "pearson"})) == expected);
    CHECK(without_timings(with({"--distance", "procrustes", "pearson,cosine,pearson"})) == expected);
    CHECK(without_timings(with({"--distance", "procrustes", "--distance", "cosine,pearson"})) == expected);
    CHECK(with({"--distance", "pearson,cosine,procrustes", "--plan-from", "cosine"}).summary["plan_from"] == "cosine");
    const result two = answer({"--attention", (folder / "a.npy").string(), "--distance", "cosine,jensen_shannon"},
                              {"cosine", "jensen_shannon"});
    CHECK(two.summary["plan_from"] == "jensen_shannon");
  }

  TEST_CASE("one of a kind reads as one") {
    hr::cpu be{{.threads = 1}};
    const temporary_folder folder;
    hr::save_npy(folder / "a.npy", random_maps(be, {1, 1, 4, 4}, 2));
    const outcome o = run_tool({"--attention", (folder / "a.npy").string(), "--out", (folder / "out").string()});
    CHECK(o.out.starts_with("1 sentence (0 skipped), 1 layer, 1 head\n1 cluster on jensen_shannon"));
    CHECK(read_text(folder / "out" / "report.html").find("1 head, 1 sentence<") != std::string::npos);
  }

  TEST_CASE("--at-least-one, and layers that keep no head") {
    const temporary_folder folder;
    const std::string out = (folder / "out").string();
    const std::vector<std::string> words = {"--distance", "jensen_shannon", "--clusters", "3", "--out", out};
    const auto has = [](const std::string& text, const std::string& part) {
      return text.find(part) != std::string::npos;
    };
    const outcome without = run_tool(words);
    const result few = read_result(out, {"jensen_shannon"});
    CHECK(few.summary["at_least_one"] == false);
    CHECK(few.summary["kept"].size() == 3);
    std::string empty;
    for (int layer = 0; layer < 8; ++layer) {
      const auto inside = [&](const json& head) { return head.get<int>() / 8 == layer; };
      const json& kept = few.summary["kept"];
      if (std::none_of(kept.begin(), kept.end(), inside)) empty += (empty.empty() ? "" : ", ") + std::to_string(layer);
    }
    CHECK(has(without.out, "\nlayers " + empty + " keep no head (--at-least-one keeps one in each)\n"));
    CHECK(has(few.files.at("report.html"), "Layers " + empty + " keep no head (--at-least-one keeps one in each)."));

    auto more = words;
    more.push_back("--at-least-one");
    const outcome with = run_tool(more);
    REQUIRE(with.code == 0);
    CHECK_FALSE(has(with.out, "keep no head"));
    CHECK(has(with.out, " kept beyond one a cluster, so that every layer keeps one (--at-least-one)\n"));
    const hr::prune_plan plan = hr::load_plan_json(folder / "out" / "plan.json");
    for (int layer = 0; layer < 8; ++layer) CHECK(plan.count(hr::attention_kind::encoder_self, layer) >= 1);
    const json summary = json::parse(read_text(folder / "out" / "summary.json"));
    CHECK(summary["at_least_one"] == true);
    CHECK(summary["labels"] == few.summary["labels"]);
    for (const auto& head : few.summary["kept"]) {
      const json& kept = summary["kept"];
      CHECK(std::find(kept.begin(), kept.end(), head) != kept.end());
    }
  }

  TEST_CASE("rank 5 without lengths: all tokens are taken, and it is said") {
    hr::cpu be{{.threads = 1}};
    const temporary_folder folder;
    const auto save_batch = [&](const std::string& name, hr::index_t queries, hr::index_t keys) {
      hr::tensor<float, 5, hr::cpu> batch(be, {2, 1, 2, queries, keys});
      for (int b = 0; b < 2; ++b) {
        const auto maps = random_maps(be, {1, 2, queries, keys}, static_cast<std::uint64_t>(b));
        std::copy_n(maps.data(), maps.size(), batch.data() + b * maps.size());
      }
      fs::create_directories((folder / name).parent_path());
      hr::save_npy(folder / name, batch);
      const outcome o = run_tool({"--attention", (folder / name).parent_path().string(), "--distance", "cosine",
                                  "--out", (folder / "out").string()});
      CHECK(o.code == 0);
      return o.out;
    };
    CHECK(save_batch("square/maps.npy", 4, 4)
              .starts_with("no maps.lengths.npy: all 4 tokens of each sentence are taken\n2 sentences "));
    CHECK(read_text(folder / "out" / "report.html")
              .find("\"No maps.lengths.npy: all 4 tokens of each sentence are taken.\"") != std::string::npos);
    CHECK(save_batch("wide/b\n.npy", 1, 3)
              .starts_with("no b\\x0a.lengths.npy: all 1 query row and 3 keys of each sentence are taken\n"));
    for (const char* name : {"square/a.npy", "square/b.npy", "square/c.npy", "square/d.npy", "square/e.npy"})
      save_batch(name, 4, 4);
    const std::string all = save_batch("square/f.npy", 3, 3);
    CHECK(std::count(all.begin(), all.end(), ':') == 5 + 3);  // five files; the heads to keep, their layer, the report
    CHECK(all.find("\nlikewise 2 more files\n14 sentences ") != std::string::npos);
    hr::save_npy(folder / "square" / "maps.lengths.npy", std::vector<std::int32_t>{4, 4});
    CHECK(save_batch("square/f.npy", 4, 4).find("no maps") == std::string::npos);
  }

  TEST_CASE("f64 and f32 agree to 2e-6") {
    hr::cpu be{{.threads = 1}};
    const temporary_folder folder;
    save(folder / "a.safetensors", some_sentences(be), {"0", "1", "2", "3", "4"});
    const std::string input = (folder / "a.safetensors").string();
    const result single = answer({"--attention", input}), wide = answer({"--attention", input, "--precision", "f64"});
    CHECK(single.summary["precision"] == "f32");
    CHECK(wide.summary["precision"] == "f64");
    for (const auto& name : all_distances())
      for (std::size_t i = 0; i < single.redundancy.at(name).size(); ++i)
        CHECK(std::abs(single.redundancy.at(name)[i] - wide.redundancy.at(name)[i]) <= 2e-6);
  }

  TEST_CASE("the result does not depend on files, names and order of the sentences") {
    hr::cpu be{{.threads = 1}};
    const temporary_folder folder;
    const auto sentences = some_sentences(be);
    save(folder / "a.safetensors", sentences, {"0", "1", "2", "3", "4"});
    save(folder / "b.safetensors", sentences, {"d", "a", "e", "c", "b"});
    fs::create_directory(folder / "folder");
    for (std::size_t i = 0; i < sentences.size(); ++i)
      hr::save_npy(folder / "folder" / (std::to_string(9 - i) + ".npy"), sentences[i]);
    write_text(folder / "folder" / "read me.txt", "neither");
    const auto path = [&](const char* name) { return (folder / name).string(); };
    const auto expected = without_timings(answer({"--attention", path("a.safetensors")}));
    CHECK(without_timings(answer({"--attention", path("b.safetensors"), "--threads", "3"})) == expected);
    CHECK(without_timings(answer({"--attention", path("folder")})) == expected);
    CHECK(without_timings(answer({"--attention", path("folder/7.npy"), path("folder/9.npy"), path("folder/5.npy"),
                                  "--attention", path("folder/6.npy"), path("folder/8.npy")})) == expected);

    // rank 5, padded with what must not be looked at
    hr::tensor<double, 5, hr::cpu> batch(be, {6, 2, 3, 8, 8});
    std::fill_n(batch.data(), batch.size(), NAN);
    std::vector<std::int32_t> lengths;
    for (hr::index_t b = 0; b < 5; ++b) {
      const auto maps = sentences[static_cast<std::size_t>(b)].view();
      const hr::index_t n = maps.extent(2);
      lengths.push_back(static_cast<std::int32_t>(n));
      for (hr::index_t l = 0; l < 2; ++l)
        for (hr::index_t h = 0; h < 3; ++h)
          for (hr::index_t t = 0; t < n; ++t)
            for (hr::index_t k = 0; k < n; ++k) batch(b, l, h, t, k) = static_cast<double>(maps(l, h, t, k));
    }
    lengths.push_back(0);  // a sentence without a valid token is counted as skipped
    hr::save_npy(folder / "batch.npy", batch);
    hr::save_npy(folder / "batch.lengths.npy", lengths);
    const result padded = answer({"--attention", path("batch.npy")});
    CHECK(padded.summary["sentences"] == json({{"used", 5}, {"skipped", 1}}));
    auto files = without_timings(padded);
    for (const auto& name : all_distances())
      CHECK(files["redundancy_" + name + ".npy"] == expected.at("redundancy_" + name + ".npy"));
    CHECK(files["plan.json"] == expected.at("plan.json"));
  }

  TEST_CASE("--prune, --clusters and --auto") {
    hr::cpu be{{.threads = 1}};
    const temporary_folder folder;
    const std::string input = (folder / "a.npy").string();
    hr::save_npy(input, random_maps(be, {5, 4, 6, 6}, 3));
    const std::vector<std::string> one = {"jensen_shannon"};
    const auto with = [&](const char* option, const char* value) {
      return answer({"--attention", input, "--distance", "jensen_shannon", option, value}, one).summary;
    };
    for (const auto& [ratio, k] :
         {std::pair{"0", 20}, {".25", 15}, {"0.5", 10}, {".85", 3}, {".95", 1}, {"0.999", 1}}) {
      CAPTURE(ratio);
      const json s = with("--prune", ratio);
      CHECK(s["k"] == k);
      CHECK(s["kept"].size() == static_cast<std::size_t>(k));
      CHECK(s["mean_silhouette"].is_null() == (k == 1 || k == 20));
      CHECK(s["curve"].size() == 18);  // 2 to N - 1
    }
    CHECK(with("--clusters", "1")["kept"].size() == 1);
    CHECK(with("--clusters", "7")["k"] == 7);
    CHECK(with("--clusters", "20")["kept"].size() == 20);
    const json ranged = with("--auto", "3:9");
    CHECK(ranged["curve"].size() == 7);
    double best = -2;
    for (const auto& point : ranged["curve"]) best = std::max(best, point["mean_silhouette"].get<double>());
    CHECK(ranged["mean_silhouette"].get<double>() == best);
    CHECK(ranged["k"] >= 3);
    CHECK(ranged["k"] <= 9);
    CHECK(with("--auto", "6:6")["k"] == 6);
    CHECK(with("--auto", "1:20")["curve"].size() == 20);
    CHECK(with("--auto", "20:20")["k"] == 20);
    CHECK(with("--auto", "1:1")["k"] == 1);
  }

  TEST_CASE("one head, two heads, one token, odd shapes, more keys than queries") {
    hr::cpu be{{.threads = 1}};
    const temporary_folder folder;
    const std::string input = (folder / "a.npy").string();
    const auto with = [&](const hr::shape_t<4>& shape, std::vector<std::string> more = {}) {
      CAPTURE(hr::shape_text(shape));
      hr::save_npy(input, random_maps(be, shape, 5));
      more.insert(more.end(), {"--attention", input});
      const result r = answer(more);
      CHECK(r.summary["layers"] == shape[0]);
      CHECK(r.heads == shape[0] * shape[1]);
      return r;
    };
    const result one = with({1, 1, 4, 4});
    CHECK(one.summary["kept"] == json({0}));
    CHECK(one.summary["layer_gap"]["cosine"].empty());  // no pair of heads
    CHECK(one.summary["correlations"]["cosine"]["pearson"].is_null());
    with({1, 1, 4, 4}, {"--auto", "1:1"});
    with({1, 1, 1, 1});
    CHECK(with({1, 2, 4, 4}).summary["kept"] == json({0}));
    CHECK(with({2, 1, 4, 4}, {"--clusters", "2"}).summary["kept"] == json({0, 1}));
    CHECK(with({2, 1, 4, 4}).summary["layer_gap"]["cosine"].size() == 1);  // gap 0 has no pair
    with({2, 1, 4, 4}, {"--auto", "1:2"});
    with({3, 1, 4, 4});
    const result token = with({2, 2, 1, 1});
    for (const double d : token.redundancy.at("jensen_shannon")) CHECK(d == 0);
    CHECK(token.summary["status"] == "degenerate");  // all heads alike
    with({3, 5, 7, 7});
    const result cross = with({3, 2, 4, 9});
    CHECK(cross.summary["underdetermined_sentences"]["canonical_correlation"] == 1);
    CHECK_FALSE(with({3, 2, 9, 4}).summary.contains("underdetermined_sentences"));
  }

  TEST_CASE("element types, with the scale of the command line or of the file") {
    hr::cpu be{{.threads = 1}};
    const temporary_folder folder;
    const auto maps = random_maps(be, {2, 2, 5, 5}, 11);
    const auto path = [&](const std::string& name) { return (folder / name).string(); };
    // what each type stores, and the same numbers as double: the results must be the same bits
    const auto check = [&](const std::string& name, auto&& stored, auto&& widen, std::vector<std::string> options,
                           const std::map<std::string, std::string>& metadata) {
      CAPTURE(name);
      using element = typename std::decay_t<decltype(stored)>::value_type;
      hr::tensor<double, 4, hr::cpu> wide(be, maps.shape());
      for (hr::index_t i = 0; i < maps.size(); ++i) wide.data()[i] = widen(stored.data()[i]);
      hr::save_npy(path("wide.npy"), wide);
      const result expected = answer({"--attention", path("wide.npy"), "--precision", "f64"});
      hr::save_safetensors(path("stored.safetensors"), {{"maps", stored}}, metadata);
      options.insert(options.end(), {"--precision", "f64", "--attention", path("stored.safetensors")});
      CHECK(answer(options).redundancy == expected.redundancy);
      if constexpr (!std::is_same_v<element, hr::bfloat16>) {
        if (!metadata.empty()) return;
        hr::save_npy(path("stored.npy"), stored);
        options.back() = path("stored.npy");
        CHECK(answer(options).redundancy == expected.redundancy);
      }
    };
    const auto store = [&]<class T>(T, const auto& convert) {
      hr::tensor<T, 4, hr::cpu> stored(be, maps.shape());
      for (hr::index_t i = 0; i < maps.size(); ++i) stored.data()[i] = convert(maps.data()[i]);
      return stored;
    };
    const auto plain = [](auto x) { return static_cast<double>(static_cast<float>(x)); };
    const auto scaled = [](double unit) { return [unit](auto x) { return static_cast<double>(x) * unit; }; };
    check("F32", maps, plain, {}, {});
    check("F64", store(double{}, [](float x) { return double(x); }), [](double x) { return x; }, {}, {});
    check("F16", store(hr::float16{}, [](float x) { return hr::float16{half_bits(x)}; }), plain, {}, {});
    const auto bf16 = [](float x) {
      return hr::bfloat16{static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16)};
    };
    check("BF16", store(hr::bfloat16{}, bf16), plain, {}, {});
    const auto u16 = store(std::uint16_t{}, [](float x) { return static_cast<std::uint16_t>(std::lround(x * 1e4)); });
    check("U16", u16, scaled(1e-4), {"--scale", "1e-4"}, {});
    check("U16", u16, scaled(1e-4), {}, {{"scale", "0.0001"}});
    check("U16, the command line wins", u16, scaled(1e-4), {"--scale", "0.0001"}, {{"scale", "3"}});
    const auto u8 = store(std::uint8_t{}, [](float x) { return static_cast<std::uint8_t>(std::lround(x * 255)); });
    check("U8", u8, scaled(1. / 255), {"--scale", "0.00392156862745098"}, {});
    const auto i64 = store(std::int64_t{}, [](float x) { return static_cast<std::int64_t>(std::lround(x * 1e9)); });
    check("I64", i64, scaled(1e-9), {"--scale", "1e-9"}, {});
    // floating point needs no unit; what a file says of one does not matter
    check("F32 with scale", maps, plain, {}, {{"scale", "7"}});
  }

  TEST_CASE("names of tensors and files may be anything") {
    hr::cpu be{{.threads = 1}};
    const temporary_folder folder;
    const auto sentences = some_sentences(be, 4);
    save(folder / "plain.safetensors", sentences, {"0", "1", "2", "3"});
    const std::string odd = "-- \xe2\x98\x83 'x' \"y\" $z\n.safetensors";
    save(folder / odd, sentences, {"", "\n\t\x1b[31m", "\xf0\x9f\x98\x80\xd7\xa9", std::string(3000, 'n')});
    const auto expected = without_timings(answer({"--attention", (folder / "plain.safetensors").string()}));
    CHECK(without_timings(answer({"--attention", (folder / odd).string()})) == expected);
  }

  TEST_CASE("many sentences") {
    hr::cpu be{{.threads = 1}};
    const temporary_folder folder;
    const auto one = random_maps(be, {1, 2, 1, 1}, 1);
    std::vector<hr::safetensors_entry> entries;
    for (int i = 0; i < 20000; ++i) entries.emplace_back(std::to_string(i), one);
    hr::save_safetensors(folder / "a.safetensors", entries);
    const result r = answer({"--attention", (folder / "a.safetensors").string(), "--distance", "cosine"}, {"cosine"});
    CHECK(r.summary["sentences"]["used"] == 20000);
  }
}
