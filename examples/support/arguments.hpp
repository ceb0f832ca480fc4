// Command lines of the examples: `--name value...`, checked as they are read.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace examples {

/// What the user typed is wrong; the program ends with exit code 2.
struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The words after the program's name, taken option by option. A word that starts with "--" is never a value.
class arguments {
 public:
  arguments(int count, char** words) : words_(words + (count > 0 ? 1 : 0), words + count) {}

  bool empty() const { return at_ == words_.size(); }
  bool contains(std::string_view word) const { return std::find(words_.begin(), words_.end(), word) != words_.end(); }

  /// The next option, such as "--out".
  std::string option() {
    const std::string word = words_[at_++];
    if (!word.starts_with("--")) throw usage_error("unexpected argument '" + word + "'");
    current_ = word;
    return word;
  }
  /// The one value of the current option, which may be given once.
  std::string value() {
    if (std::find(seen_.begin(), seen_.end(), current_) != seen_.end()) throw usage_error(current_ + " is given twice");
    seen_.push_back(current_);
    return next();
  }
  /// One or more values, up to the next option.
  std::vector<std::string> values() {
    std::vector<std::string> all{next()};
    while (has_value()) all.push_back(next());
    return all;
  }
  /// The parts of a list "a,b,c", none of them empty.
  std::vector<std::string> parts(const std::string& list, const std::string& expected) const {
    std::vector<std::string> all;
    for (std::size_t begin = 0; begin <= list.size();) {
      const std::size_t end = std::min(list.find(',', begin), list.size());
      if (end == begin) refuse(list, expected);
      all.push_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
    return all;
  }
  /// A number for which accept(number) holds; `expected` says so in words.
  template <class Number, class Accept>
  Number number(const std::string& expected, const Accept& accept) {
    const std::string text = value();
    Number number{};
    if (!parse(text, number) || !accept(number)) refuse(text, expected);
    return number;
  }
  /// A whole number in this range.
  std::int64_t whole(std::int64_t least, std::int64_t most = 1000000) {
    return number<std::int64_t>("a whole number from " + std::to_string(least) + " to " + std::to_string(most),
                                [=](std::int64_t n) { return n >= least && n <= most; });
  }
  double positive() {
    return number<double>("a positive number", [](double x) { return x > 0 && std::isfinite(x); });
  }
  /// How many threads to work with, 0 being all.
  int threads() { return static_cast<int>(whole(0, 4096)); }
  std::uint64_t seed() {
    return number<std::uint64_t>("a whole number below 2^64", [](auto) { return true; });
  }
  /// "MIN:MAX" for which accept(min, max) holds.
  template <class Number, class Accept>
  std::pair<Number, Number> range(const std::string& expected, const Accept& accept) {
    const std::string text = value();
    const std::string_view view = text;
    const auto colon = view.find(':');
    std::pair<Number, Number> range;
    if (colon == std::string_view::npos || !parse(view.substr(0, colon), range.first) ||
        !parse(view.substr(colon + 1), range.second) || !accept(range.first, range.second))
      refuse(text, expected);
    return range;
  }
  [[noreturn]] void refuse(const std::string& text, const std::string& expected) const {
    throw usage_error(current_ + " is '" + text + "', expected " + expected);
  }

 private:
  bool has_value() const { return !empty() && !words_[at_].starts_with("--"); }
  std::string next() {
    if (!has_value() || words_[at_].empty()) throw usage_error(current_ + " needs a value");
    return words_[at_++];
  }
  template <class Number>
  static bool parse(std::string_view text, Number& number) {
    const char* const last = text.data() + text.size();
    const auto [end, problem] = std::from_chars(text.data(), last, number);
    return problem == std::errc{} && end == last;
  }

  std::vector<std::string> words_, seen_;
  std::size_t at_ = 0;
  std::string current_;
};

}  // namespace examples
