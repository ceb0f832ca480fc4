// translation_grammar: a small invented language pair, for demonstrations and tests that need a task with a known answer.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <headred/core/error.hpp>
#include <headred/core/random.hpp>

namespace headred {

/// A sentence pair with the source's dependency tree.
struct grammar_sentence {
  std::vector<std::int32_t> source;  ///< token numbers, ends with end_id
  std::vector<std::int32_t> target;  ///< token numbers, neither begin_id nor end_id
  std::vector<std::int32_t> heads;   ///< of each source token: the token it depends on, -1 for the root and the end
  std::vector<std::string_view> relations;  ///< of each source token, Universal Dependencies' names
};

/// Sentence pairs of an invented language, each a pure function of (seed, index), so that any part of an endless corpus
/// can be drawn again. Translating asks for what attention heads are known to do:
/// - word order: the source is subject, verb, object with adjectives before nouns; the target puts the verb last and
///   adjectives after their nouns (neighbours: positional heads);
/// - agreement: target adjectives carry the class of their noun, the target verb the number of its subject, which may
///   stand far away behind a relative clause (syntactic heads);
/// - a rare token: a name, one of many and seldom the same, decides the particle that ends the target (rare-word heads).
/// Nouns, verbs and names are drawn with frequencies 1/rank.
class translation_grammar {
 public:
  static constexpr std::int32_t pad_id = 0, begin_id = 1, end_id = 2;

  explicit translation_grammar(std::uint64_t seed = 0) : seed_(seed) {}

  index_t source_vocabulary() const noexcept { return source_of_.names + names; }
  index_t target_vocabulary() const noexcept { return target_of_.particles + 3; }

  /// Sentence pair number `index`. Sources have 4 to 23 tokens.
  grammar_sentence sentence(std::uint64_t index) const {
    writer w{{}, random_stream(seed_, index), 0, -1, -1};
    write_sentence(w);
    return std::move(w.pair);
  }

  /// Text of a source or target token: "noun3.plural", "name17", "verb2". Throws argument_error outside the vocabulary.
  std::string source_text(std::int32_t id) const {
    require(id, source_vocabulary());
    const auto& s = source_of_;
    if (id < s.determiners) return special(id);
    if (id < s.adjectives) return "det" + std::to_string(id - s.determiners);
    if (id < s.nouns) return "adj" + std::to_string(id - s.adjectives);
    if (id < s.verbs) return "noun" + std::to_string((id - s.nouns) / 2) + ((id - s.nouns) % 2 == 1 ? ".plural" : "");
    if (id < s.adverbs) return "verb" + std::to_string(id - s.verbs);
    if (id < s.words) return "adv" + std::to_string(id - s.adverbs);
    if (id < s.names) return id == s.words ? "that" : "with";
    return "name" + std::to_string(id - s.names);
  }
  std::string target_text(std::int32_t id) const {
    require(id, target_vocabulary());
    const auto& t = target_of_;
    if (id < t.adjectives) return special(id);
    if (id < t.nouns) return "Adj" + std::to_string(id - t.adjectives);
    if (id < t.verbs) return "Noun" + std::to_string(id - t.nouns);
    if (id < t.adverbs) return "Verb" + std::to_string(id - t.verbs);
    if (id < t.names) return "Adv" + std::to_string(id - t.adverbs);
    if (id < t.classes) return "Name" + std::to_string(id - t.names);
    if (id < t.numbers) return "-class" + std::to_string(id - t.classes);
    if (id < t.words) return id == t.numbers ? "-one" : "-many";
    if (id < t.particles) return id == t.words ? "That" : "With";
    return "Particle" + std::to_string(id - t.particles);
  }

 private:
  static constexpr std::int32_t determiners = 2, adjectives = 16, nouns = 32, verbs = 24, adverbs = 10, names = 128;

  // first token numbers of the word classes
  struct source_numbers {
    std::int32_t determiners = 3, adjectives = determiners + translation_grammar::determiners,
                 nouns = adjectives + translation_grammar::adjectives, verbs = nouns + 2 * translation_grammar::nouns,
                 adverbs = verbs + translation_grammar::verbs, words = adverbs + translation_grammar::adverbs,
                 names = words + 2;
  };
  struct target_numbers {
    std::int32_t adjectives = 3, nouns = adjectives + translation_grammar::adjectives,
                 verbs = nouns + translation_grammar::nouns, adverbs = verbs + translation_grammar::verbs,
                 names = adverbs + translation_grammar::adverbs, classes = names + translation_grammar::names,
                 numbers = classes + 3, words = numbers + 2, particles = words + 2;
  };

  struct writer {
    grammar_sentence pair;
    random_stream random;
    std::uint64_t drawn;
    std::int32_t name;    // the rarest name so far, -1 for none
    std::int32_t phrase;  // depth of nesting

    double uniform() { return random.uniform(drawn++); }
    std::int32_t below(std::int32_t n) { return static_cast<std::int32_t>(random.below(drawn++, std::uint64_t(n))); }
    /// Rank drawn with probability proportional to 1/(rank + 1), by inverting the integral.
    std::int32_t zipf(std::int32_t n) {
      const auto rank = static_cast<std::int32_t>(std::pow(n + 1., uniform())) - 1;
      return rank < n ? rank : n - 1;
    }
    std::int32_t put(std::int32_t token, std::int32_t head, std::string_view relation) {
      pair.source.push_back(token);
      pair.heads.push_back(head);
      pair.relations.push_back(relation);
      return static_cast<std::int32_t>(pair.source.size()) - 1;
    }
  };
  // A noun phrase: where its noun stands in the source, its translation, its number.
  struct phrase {
    std::int32_t noun;
    std::vector<std::int32_t> target;
    bool plural;
  };

  phrase write_phrase(writer& w, std::string_view relation, bool nested) const {
    phrase result{-1, {}, false};
    if (w.uniform() < .2) {
      const std::int32_t name = w.zipf(names);
      if (name > w.name) w.name = name;
      result.noun = w.put(source_of_.names + name, -1, relation);
      result.target = {target_of_.names + name};
    } else {
      std::vector<std::int32_t> dependents{w.put(source_of_.determiners + w.below(determiners), -1, "det")};
      std::vector<std::int32_t> chosen;
      for (double u = w.uniform(); u < .35 && chosen.size() < 2; u = w.uniform()) {
        chosen.push_back(w.below(adjectives));
        dependents.push_back(w.put(source_of_.adjectives + chosen.back(), -1, "amod"));
      }
      const std::int32_t noun = w.zipf(nouns);
      result.plural = w.uniform() < .5;
      result.noun = w.put(source_of_.nouns + 2 * noun + (result.plural ? 1 : 0), -1, relation);
      for (const std::int32_t d : dependents) w.pair.heads[static_cast<std::size_t>(d)] = result.noun;
      result.target = {target_of_.nouns + noun, target_of_.numbers + (result.plural ? 1 : 0)};
      for (const std::int32_t adjective : chosen) {
        result.target.push_back(target_of_.adjectives + adjective);
        result.target.push_back(target_of_.classes + noun % 3);
      }
    }
    if (nested || w.uniform() >= .3) return result;
    if (w.uniform() < .5) {  // "with NP": stands before its noun in the target
      const std::int32_t with = w.put(source_of_.words + 1, -1, "case");
      const phrase inner = write_phrase(w, "nmod", true);
      w.pair.heads[static_cast<std::size_t>(with)] = inner.noun;
      w.pair.heads[static_cast<std::size_t>(inner.noun)] = result.noun;
      std::vector<std::int32_t> target = inner.target;
      target.push_back(target_of_.words + 1);
      target.insert(target.end(), result.target.begin(), result.target.end());
      result.target = std::move(target);
    } else {  // "that V NP"
      const std::int32_t that = w.put(source_of_.words, -1, "nsubj");
      const std::int32_t verb = w.zipf(verbs), at = w.put(source_of_.verbs + verb, result.noun, "acl");
      w.pair.heads[static_cast<std::size_t>(that)] = at;
      const phrase inner = write_phrase(w, "obj", true);
      w.pair.heads[static_cast<std::size_t>(inner.noun)] = at;
      result.target.insert(result.target.end(), inner.target.begin(), inner.target.end());
      result.target.push_back(target_of_.verbs + verb);
      result.target.push_back(target_of_.numbers + (result.plural ? 1 : 0));
      result.target.push_back(target_of_.words);
    }
    return result;
  }

  void write_sentence(writer& w) const {
    const phrase subject = write_phrase(w, "nsubj", false);
    std::int32_t adverb = -1, adverb_at = -1;
    if (w.uniform() < .4) {
      adverb = w.below(adverbs);
      adverb_at = w.put(source_of_.adverbs + adverb, -1, "advmod");
    }
    const std::int32_t verb = w.zipf(verbs), at = w.put(source_of_.verbs + verb, -1, "root");
    if (adverb_at >= 0) w.pair.heads[static_cast<std::size_t>(adverb_at)] = at;
    w.pair.heads[static_cast<std::size_t>(subject.noun)] = at;
    const phrase object = write_phrase(w, "obj", false);
    w.pair.heads[static_cast<std::size_t>(object.noun)] = at;
    w.put(end_id, -1, "end");

    auto& target = w.pair.target;
    target = subject.target;
    target.insert(target.end(), object.target.begin(), object.target.end());
    if (adverb >= 0) target.push_back(target_of_.adverbs + adverb);
    target.push_back(target_of_.verbs + verb);
    target.push_back(target_of_.numbers + (subject.plural ? 1 : 0));
    target.push_back(target_of_.particles + (w.name < 0 ? 0 : 1 + w.name % 2));
  }

  static std::string special(std::int32_t id) {
    constexpr std::array<const char*, 3> text{"<pad>", "<s>", "</s>"};
    return text[static_cast<std::size_t>(id)];
  }
  static void require(std::int32_t id, index_t size) {
    if (id < 0 || id >= size)
      throw argument_error("translation_grammar: token " + std::to_string(id) + " is not in [0," +
                           std::to_string(size) + ")");
  }

  std::uint64_t seed_;
  source_numbers source_of_;
  target_numbers target_of_;
};

}  // namespace headred
