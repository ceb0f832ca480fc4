// The redundancy matrices of a set of sentences, whatever distances are asked for.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/distance.hpp>

#include "attention_files.hpp"
#include "interrupt.hpp"
#include "planted_attention.hpp"
#include "progress_bar.hpp"
#include "settings.hpp"

namespace examples {

/// headred::redundancy behind a face that all distances share.
struct accumulator {
  virtual ~accumulator() = default;
  virtual bool add(headred::tensor_view<const float, 4> maps, index_t length) = 0;
  virtual bool add(headred::tensor_view<const double, 4> maps, index_t length) = 0;
  virtual const headred::matrix& last() const = 0;
  virtual headred::matrix mean() const = 0;
  virtual index_t underdetermined() const = 0;
};

template <class Distance>
class accumulator_of final : public accumulator {
 public:
  accumulator_of(headred::cpu& be, const headred::head_layout& layout) : sums_(be, layout) {}
  bool add(headred::tensor_view<const float, 4> maps, index_t length) override {
    return sums_.add(maps, {.length = length});
  }
  bool add(headred::tensor_view<const double, 4> maps, index_t length) override {
    return sums_.add(maps, {.length = length});
  }
  const headred::matrix& last() const override { return sums_.last(); }
  headred::matrix mean() const override { return sums_.matrix(); }
  index_t underdetermined() const override { return sums_.underdetermined(); }

 private:
  headred::redundancy<Distance, headred::cpu> sums_;
};

/// One distance, and what came of it.
struct measure {
  std::string_view name;
  std::unique_ptr<accumulator> sums;
  headred::matrix redundancy;
  std::vector<std::vector<double>> gaps;  // [sentence][layer gap], sorted: the order of sentences shows nowhere
  double seconds = 0;
};

/// Everything that is known after the sentences were read.
struct study {
  headred::head_layout layout;
  std::vector<measure> measures;
  index_t used = 0, skipped = 0;
  std::string source;
  std::vector<std::string> notes;  // on the input, for people

  /// The matrix of that name, or "mean" of them all.
  headred::matrix matrix(std::string_view name) const {
    headred::matrix mean(layout.size(), layout.size());
    for (const measure& m : measures) {
      if (m.name == name) return m.redundancy;
      for (index_t i = 0; i < mean.rows() * mean.cols(); ++i)
        mean.data()[i] += m.redundancy.data()[i] / static_cast<double>(measures.size());
    }
    return mean;
  }
};

/// Takes sentences, one by one, for all distances.
class collector {
 public:
  collector(headred::cpu& be, const settings& s, long total) : be_(be), settings_(s), bar_("sentences", total) {}

  template <class Real>
  void add(headred::tensor_view<const Real, 4> maps, index_t length, const sentence_name& name) {
    if (study_.measures.empty()) {
      begin(maps.shape(), name);
    } else if (maps.extent(0) != study_.layout.layers() || maps.extent(1) != study_.layout.heads(0)) {
      throw headred::shape_error(name.text() + ": " + headred::shape_text(maps.shape()) +
                                 ", the sentences before have " + std::to_string(study_.layout.layers()) +
                                 " layers of " + std::to_string(study_.layout.heads(0)) + " heads");
    }
    bool used = true;
    for (measure& m : study_.measures) {
      stop_if_interrupted();
      const auto start = std::chrono::steady_clock::now();
      try {
        used = m.sums->add(maps, length);
      } catch (const headred::error& problem) {
        throw headred::error(name.text() + ": " + problem.what());
      }
      m.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (used) m.gaps.push_back(headred::layer_gap(m.sums->last(), study_.layout).mean);
    }
    (used ? study_.used : study_.skipped) += 1;
    bar_.advance(study_.used + study_.skipped);
  }

  study finish(std::string source) {
    if (study_.used == 0)
      throw headred::error(source + ": no sentence has a valid token (" + std::to_string(study_.skipped) + " skipped)");
    for (measure& m : study_.measures) {
      m.redundancy = m.sums->mean();
      std::sort(m.gaps.begin(), m.gaps.end());
    }
    study_.source = std::move(source);
    return std::move(study_);
  }

 private:
  void begin(const headred::shape_t<4>& shape, const sentence_name& name) {
    constexpr index_t most = 4096;  // heads of a report
    if (shape[0] < 1 || shape[1] < 1 || shape[0] > most || shape[1] > most / shape[0])
      throw headred::shape_error(name.text() + ": " + headred::shape_text(shape) + ", expected 1 to " +
                                 std::to_string(most) + " heads in all");
    study_.layout = headred::head_layout(shape[0], shape[1]);
    settings_.check_heads(study_.layout.size());
    append<headred::cosine, headred::pearson, headred::jensen_shannon, headred::bhattacharyya,
           headred::distance_correlation, headred::procrustes, headred::canonical_correlation>();
  }
  template <class... Distances>
  void append() {
    const auto one = [this]<class Distance>(const Distance*) {
      if (settings_.takes(Distance::name))
        study_.measures.push_back(
            {Distance::name, std::make_unique<accumulator_of<Distance>>(be_, study_.layout), {}, {}, 0});
    };
    (one(static_cast<const Distances*>(nullptr)), ...);
  }

  headred::cpu& be_;
  const settings& settings_;
  progress_bar bar_;
  study study_;
};

template <class Real>
study read_files(headred::cpu& be, const settings& s) {
  const auto files = attention_files(s.attention);
  const std::string source =
      files.size() == 1 ? files.front().filename().string() : std::to_string(files.size()) + " files";
  long total = 0;
  for (const auto& file : files) total += static_cast<long>(count_sentences(file));
  if (total == 0)
    throw headred::error(files.size() == 1 ? files.front().string() + ": holds no sentence"
                                           : "the " + source + " hold no sentence");
  collector all(be, s, total);
  constexpr std::size_t most = 5;  // notes that are shown
  std::vector<std::string> notes;
  std::size_t more = 0;
  for (const auto& file : files) {
    std::string note = for_each_sentence<Real>(
        be, file, s.scale, [&](headred::tensor_view<const Real, 4> maps, index_t length, const sentence_name& name) {
          all.add(maps, length, name);
        });
    if (note.empty()) continue;
    if (notes.size() < most) {
      notes.push_back(std::move(note));
    } else {
      ++more;
    }
  }
  if (more > 0) notes.push_back("likewise " + plural(more, "more file"));
  study result = all.finish(source);
  result.notes = std::move(notes);
  return result;
}

inline study read_planted(headred::cpu& be, const settings& s, const planted_attention& planted) {
  constexpr long sentences = 24;
  collector all(be, s, sentences);
  for (index_t i = 0; i < sentences; ++i) {
    const auto maps = planted.sentence(be, i);
    const sentence_name name{"planted maps", "sentence " + std::to_string(i)};
    if (s.wide) {
      headred::tensor<double, 4, headred::cpu> wide(be, maps.shape());
      std::copy(maps.data(), maps.data() + maps.size(), wide.data());
      all.add(std::as_const(wide).view(), -1, name);
    } else {
      all.add(maps.view(), -1, name);
    }
  }
  return all.finish("planted maps, 16 groups");
}

}  // namespace examples
