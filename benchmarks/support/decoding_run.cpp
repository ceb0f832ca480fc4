// decoding_run MODEL DATA BATCH THREADS REPEATS: greedy decoding of the sources of SOURCE<tab>TARGET lines by character,
// batches of like length. One line of JSON: seconds of each repeat and, by line, the tokens. compare_decoding.py runs it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/io/load_transformer.hpp>
#include <headred/io/parallel_text.hpp>
#include <headred/io/vocabulary.hpp>
#include <headred/nn/greedy.hpp>

namespace hr = headred;

int main(int count, char** words) {
  try {
    if (count != 6) throw hr::argument_error("expected MODEL DATA BATCH THREADS REPEATS");
    const std::filesystem::path folder(words[1]);
    const auto batch = static_cast<std::size_t>(std::stoul(words[3]));
    hr::cpu be{{.threads = std::stoi(words[4])}};
    auto loaded = hr::load_transformer<float>(be, folder);
    hr::transformer<float, hr::cpu> model(be, std::move(loaded.config), std::move(loaded.weights));
    const hr::vocabulary symbols = hr::load_vocabulary(folder / "source_vocabulary.txt");
    std::vector<std::vector<hr::token_id>> sources;
    for (const auto& pair : hr::load_parallel_text(words[2])) sources.push_back(symbols.encode_characters(pair.source));
    std::vector<std::size_t> order(sources.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return sources[a].size() < sources[b].size(); });
    std::vector<std::vector<hr::token_id>> found(sources.size());
    hr::incremental_decoder<float, hr::cpu> decoder(model);
    std::string text = "{\"seconds\": [";
    for (int round = 0; round < std::stoi(words[5]); ++round) {
      const auto start = std::chrono::steady_clock::now();
      for (std::size_t i = 0; i < order.size(); i += batch) {
        hr::token_batch part;
        const std::size_t end = std::min(order.size(), i + batch);
        for (std::size_t j = i; j < end; ++j) part.add(sources[order[j]]);
        auto best = hr::greedy(decoder, part, {.max_length = 200});
        for (std::size_t j = i; j < end; ++j) found[order[j]] = std::move(best[j - i].ids);
      }
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      text += (round > 0 ? ", " : "") + std::to_string(seconds);
    }
    text += "], \"tokens\": [";
    for (std::size_t i = 0; i < found.size(); ++i) {
      text += i > 0 ? ", [" : "[";
      for (std::size_t k = 0; k < found[i].size(); ++k) text += (k > 0 ? ", " : "") + std::to_string(found[i][k]);
      text += "]";
    }
    std::puts((text + "]}").c_str());
    return 0;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "decoding_run: %s\n", problem.what());
    return 1;
  }
}
