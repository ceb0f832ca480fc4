// The roles of BERT-base's heads on 40 sentences, against counts made independently of the library.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/importance/roles/positional_heads.hpp>
#include <headred/importance/roles/rare_tokens.hpp>
#include <headred/importance/roles/syntactic_heads.hpp>
#include <headred/importance/roles/target_heads.hpp>
#include <headred/io/conllu.hpp>
#include <headred/io/frequency_list.hpp>
#include <headred/io/load_transformer.hpp>
#include <headred/io/safetensors.hpp>
#include <headred/io/vocabulary.hpp>
#include <headred/io/word_piece_tokenizer.hpp>
#include <headred/io/word_pieces.hpp>

#include <headred/nn/for_each_attention.hpp>

#include "environment.hpp"

namespace hr = headred;
using namespace headred_test;

namespace {

nlohmann::json read_json(const std::filesystem::path& path) { return nlohmann::json::parse(std::ifstream(path)); }

struct bert {
  explicit bert(const std::filesystem::path& shared)
      : maps(shared / "data/bert_base_sst2/attention.safetensors"),
        sentences(read_json(shared / "data/bert_base_sst2/sentences.json")),
        reference(read_json(shared / "oracles/bert_base_sst2/heads.json")) {}

  hr::tensor_view<const std::uint16_t, 4> attention(const nlohmann::json& sentence) const {
    return maps.view<std::uint16_t, 4>("attn." + std::to_string(sentence["id"].get<int>()));
  }

  hr::safetensors_file maps;
  nlohmann::json sentences, reference;
};

void check_positional(const bert& b, hr::end_token end, const char* name) {
  hr::positional_heads heads({12, 12}, {.end = end});
  for (const auto& sentence : b.sentences) heads.add(b.attention(sentence), {.scale = 1e-4});
  const auto& expected = b.reference["positional"][name];
  for (hr::index_t l = 0; l < 12; ++l)
    for (hr::index_t h = 0; h < 12; ++h) {
      CAPTURE(l);
      CAPTURE(h);
      const auto at = [&](const char* field) { return expected[field][std::size_t(l)][std::size_t(h)]; };
      CHECK(heads.tokens({l, h}) == expected["tokens"].get<hr::index_t>());
      CHECK(heads.best_offset({l, h}) == at("best_offset").get<hr::index_t>());
      CHECK(heads.count({l, h}, heads.best_offset({l, h})) == at("count").get<hr::index_t>());
      CHECK(heads.evidence({l, h}, heads.best_offset({l, h})).share == at("fraction").get<double>());
    }
  std::string found;
  for (const hr::head_role& role : hr::head_roles{.kind = {}, .layout = {}, .roles = heads.roles()}.found())
    found += "(" + std::to_string(role.head.layer) + "," + std::to_string(role.head.head) + ") " + role.detail + "; ";
  MESSAGE(std::string(name), ": ", found);
  // At 90 % the two that look at the next token; those that look at the one before follow at 85 and 83 %.
  CHECK(found == "(2,0) offset 1; (2,9) offset 1; ");
  for (const hr::head_id id : {hr::head_id{3, 5}, hr::head_id{1, 4}}) {
    CHECK(heads.best_offset(id) == -1);
    CHECK(heads.evidence(id, -1).share > .8);
    CHECK(heads.evidence(id, -1).says == hr::verdict::no);
    CHECK(heads.evidence(id, -1).settled);
  }
}

void check_syntactic(const bert& b, hr::word_policy policy, const char* name) {
  hr::syntactic_options options;
  options.words = policy;
  hr::syntactic_heads heads({12, 12}, options);
  for (const auto& sentence : b.sentences) {
    const auto words = sentence["dependencies"].size();
    std::vector<hr::index_t> head(words, -1);
    std::vector<std::string> relation(words), text = sentence["words"];
    for (const auto& d : sentence["dependencies"]) {
      const auto child = d[0].get<std::size_t>();
      if (!d[1].is_null()) head[child] = d[1].get<hr::index_t>();
      relation[child] = d[2];
    }
    const auto aligned = hr::align_word_pieces(sentence["tokens"].get<std::vector<std::string>>(), text);
    REQUIRE_MESSAGE(aligned.word_of_piece.size() == sentence["tokens"].size(), aligned.problem);
    CHECK(aligned.words == static_cast<hr::index_t>(sentence["id"] == 48 ? words - 1 : words));
    heads.add(b.attention(sentence), {head, relation, aligned.word_of_piece}, {.scale = 1e-4});
  }
  std::size_t found = 0;
  for (const auto& [key, expected] : b.reference["syntactic"][name].items()) {
    CAPTURE(key);
    const std::string relation = key.substr(0, key.find('/'));
    const auto direction = key.ends_with("/dependent_to_head") ? hr::dependency_direction::dependent_to_head
                                                               : hr::dependency_direction::head_to_dependent;
    std::vector<std::array<hr::index_t, 2>> list;
    for (hr::index_t l = 0; l < 12; ++l)
      for (hr::index_t h = 0; h < 12; ++h) {
        CAPTURE(l);
        CAPTURE(h);
        const auto r = heads.of({l, h}, relation, direction);
        CHECK(r.evidence.tokens == expected["pairs"].get<hr::index_t>());
        CHECK(r.baseline_offset == expected["baseline_offset"].get<hr::index_t>());
        const double baseline = static_cast<double>(r.baseline_count) / static_cast<double>(r.evidence.tokens);
        CHECK(baseline == expected["baseline_accuracy"].get<double>());
        CHECK(r.evidence.count == expected["hits"][std::size_t(l)][std::size_t(h)].get<hr::index_t>());
        CHECK(r.evidence.share == expected["accuracy"][std::size_t(l)][std::size_t(h)].get<double>());
        if (r.evidence.says == hr::verdict::yes) list.push_back({l, h});
      }
    CHECK(nlohmann::json(list) == expected["syntactic_heads"]);
    found += list.size();
  }
  MESSAGE(std::string(name), ": ", found, " verdicts of yes");
}

}  // namespace

TEST_SUITE("roles") {
  TEST_CASE("BERT-base: positional heads, all counts exact") {
    const auto shared = shared_dir();
    if (shared.empty()) return skip("no folder with real data");
    const bert b(shared);
    check_positional(b, hr::end_token::excluded, "end_excluded_as_query_and_key");
    check_positional(b, hr::end_token::included, "nothing_excluded");
  }

  TEST_CASE("BERT-base: syntactic heads under three policies, all counts exact") {
    const auto shared = shared_dir();
    if (shared.empty()) return skip("no folder with real data");
    const bert b(shared);
    check_syntactic(b, hr::word_policy::first_piece, "first_piece");
    check_syntactic(b, hr::word_policy::word_mean_sum, "word_mean_sum");
    check_syntactic(b, hr::word_policy::word_mean_sum_words_only, "word_mean_sum_words_only");
  }

  TEST_CASE("treebank: the EWT's sentences are trees, and BERT's pieces lie along their words") {
    const auto shared = shared_dir();
    if (shared.empty()) return skip("no folder with real data");
    const auto pieces = hr::load_vocabulary(shared / "data/bert_vocab/bert-base-uncased-vocab.txt");
    const auto frequent = hr::load_frequency_list(shared / "data/word_freq/en_50k.txt");
    CHECK(pieces.size() == 30522);
    CHECK(frequent.size() == 50000);
    CHECK(frequent.rank("you") == 0);
    std::size_t words = 0, subjects = 0, aligned = 0, total = 0, unknown = 0;
    for (const auto& [name, count] : {std::pair{"dev", 2001u}, std::pair{"test", 2077u}}) {
      const auto sentences =
          hr::load_conllu(shared / ("data/ud_english_ewt/en_ewt-ud-" + std::string(name) + ".conllu"));
      CHECK(sentences.size() == count);
      for (const auto& sentence : sentences) {
        CHECK(!sentence.id.empty());
        CHECK(!sentence.text.empty());
        words += sentence.forms.size();
        for (const auto& relation : sentence.relations) subjects += relation == "nsubj" ? 1 : 0;
        const auto made = hr::tokenize_words(pieces, sentence.forms);
        for (const auto& piece : made.pieces) {
          pieces.id(piece);
          unknown += piece == "[UNK]" ? 1 : 0;
        }
        // two ways to the same: by construction, and by counting characters where nothing is unknown
        const auto counted = hr::align_word_pieces(made.pieces, sentence.forms);
        total += 1;
        if (counted.problem.empty()) {
          CHECK(counted.word_of_piece == made.word_of_piece);
          ++aligned;
        }
      }
    }
    MESSAGE(words, " words, ", subjects, " nsubj, ", unknown, " [UNK]; ", aligned, " of ", total, " sentences aligned");
    CHECK(words == 50241);
    CHECK(subjects == 3908);
    CHECK(aligned >= total - 10);
  }

  TEST_CASE("ALBERT on reactions: head (10,5) maps atoms") {
    const auto shared = shared_dir();
    if (shared.empty()) return skip("no folder with real data");
    const auto folder = shared / "data/albert_rxnmapper";
    hr::cpu be{{.threads = 2}};
    auto loaded = hr::load_transformer<float>(be, folder);
    hr::transformer<float, hr::cpu> model(be, std::move(loaded.config), std::move(loaded.weights));
    const auto symbols = hr::load_vocabulary(folder / "vocab.txt");
    std::ifstream lines(folder / "reactions.tokens.txt");
    hr::token_batch batch;
    std::vector<std::vector<std::string>> reactions;
    for (std::string line; reactions.size() < 60 && std::getline(lines, line);) {
      std::istringstream in(line);
      std::vector<std::string> tokens{std::istream_iterator<std::string>(in), {}};
      if (static_cast<hr::index_t>(tokens.size()) > 256) continue;
      batch.add(symbols.encode(tokens));
      reactions.push_back(std::move(tokens));
    }
    // For each atom of the product: the same atom's symbol among the reactants.
    hr::target_heads mapping({12, 8}, "atom_mapping");
    hr::key_targets targets;
    hr::for_each_attention(model, batch, {}, [&](hr::attention_kind, hr::index_t r, const auto& layers) {
      const auto& tokens = reactions[static_cast<std::size_t>(r)];
      const auto arrow = std::find(tokens.begin(), tokens.end(), ">>") - tokens.begin();
      targets.clear();
      for (std::size_t t = 0; t < tokens.size(); ++t) {
        const bool atom = std::isalpha(static_cast<unsigned char>(tokens[t][0])) != 0 ||
                          (tokens[t][0] == '[' && tokens[t] != "[CLS]" && tokens[t] != "[SEP]");
        for (std::ptrdiff_t s = 0; atom && static_cast<std::ptrdiff_t>(t) > arrow && s < arrow; ++s)
          if (tokens[static_cast<std::size_t>(s)] == tokens[t]) targets.add(s);
        targets.end_query();
      }
      mapping.add(layers, targets);
    });
    double next = 0;
    hr::head_id second{};
    for (const hr::head_role& role : mapping.roles())
      if (role.head != hr::head_id{10, 5} && role.evidence.share > next) {
        next = role.evidence.share;
        second = role.head;
      }
    const auto best = mapping.evidence({10, 5});
    MESSAGE("(10,5): argmax ", best.share, " of ", best.tokens, " atoms, mass ", mapping.mass({10, 5}), ", chance ",
            mapping.chance({10, 5}), "; next ", second, ": ", next);
    CHECK(best.says == hr::verdict::yes);
    CHECK(best.settled);
    CHECK(best.share > next);
  }
}
