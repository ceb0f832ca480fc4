// Command lines of the examples: `--name value...`, checked as they are read.
#pragma once

#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace examples {

/// What the user typed is wrong; the program ends with exit code 2.
struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The words after the program's name, taken option by option.
class arguments {
 public:
  arguments(int count, char** words) : words_(words + (count > 0 ? 1 : 0), words + count) {}

  bool empty() const { return at_ == words_.size(); }
  /// The next option, such as "--out".
  std::string option() {
    const std::string word = words_[at_++];
    if (!word.starts_with("--")) throw usage_error("unexpected argument '" + word + "'");
    current_ = word;
    return word;
  }
  /// The one value of the current option.
  std::string value() {
    if (empty()) throw usage_error(current_ + " needs a value");
    return words_[at_++];
  }
  /// One or more values, up to the next option.
  std::vector<std::string> values() {
    std::vector<std::string> all{value()};
    while (!empty() && !words_[at_].starts_with("--")) all.push_back(words_[at_++]);
    return all;
  }
  template <class Number>
  Number number() {
    return parse<Number>(value(), current_);
  }
  /// "MIN:MAX"
  template <class Number>
  std::pair<Number, Number> range() {
    const std::string text = value();
    const auto colon = text.find(':');
    if (colon == std::string::npos) throw usage_error(current_ + " is '" + text + "', expected MIN:MAX");
    return {parse<Number>(text.substr(0, colon), current_), parse<Number>(text.substr(colon + 1), current_)};
  }

 private:
  template <class Number>
  static Number parse(const std::string& text, const std::string& option) {
    Number number{};
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (problem != std::errc{} || end != text.data() + text.size())
      throw usage_error(option + " is '" + text + "', expected a number");
    return number;
  }

  std::vector<std::string> words_;
  std::size_t at_ = 0;
  std::string current_;
};

}  // namespace examples
