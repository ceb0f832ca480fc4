// tokenize_13a: the tokens that BLEU counts.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/nn/metrics/code_points.hpp>

namespace headred {
namespace detail {

constexpr bool is_digit(char32_t c) { return c >= U'0' && c <= U'9'; }
constexpr bool is_full_stop_or_comma(char32_t c) { return c == U'.' || c == U','; }
/// ASCII punctuation that always stands alone: all but ' , - .
constexpr bool always_alone(char32_t c) {
  return (c >= U'{' && c <= U'~') || (c >= U'[' && c <= U'`') || (c >= U' ' && c <= U'&') || (c >= U'(' && c <= U'+') ||
         (c >= U':' && c <= U'@') || c == U'/';
}
constexpr bool is_blank(char32_t c) {
  return (c >= 0x9 && c <= 0xd) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

inline void replace_all(std::u32string& text, std::u32string_view from, std::u32string_view to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// Sets blanks where two neighbours satisfy `fits`, found from left to right and none twice: before, between or after.
template <class Fits>
std::u32string split_pairs(const std::u32string& text, bool before, bool after, const Fits& fits) {
  std::u32string split;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 == text.size() || !fits(text[i], text[i + 1])) {
      split += text[i];
      continue;
    }
    if (before) split += U' ';
    split += text[i];
    split += U' ';
    split += text[++i];
    if (after) split += U' ';
  }
  return split;
}

}  // namespace detail

/// The tokens of a line as the script mteval-v13a of NIST cuts them, which sacreBLEU calls "13a" (Post 2018): four XML
/// escapes resolved; punctuation alone, but . and , within numbers, - other than after a digit and ' stay where they are;
/// cut at blanks.
inline std::vector<std::u32string> tokenize_13a(std::u32string_view line) {
  using detail::is_digit, detail::is_full_stop_or_comma;
  while (!line.empty() && detail::is_blank(line.back())) line.remove_suffix(1);
  std::u32string text(line);
  detail::replace_all(text, U"<skipped>", U"");
  detail::replace_all(text, U"-\n", U"");
  detail::replace_all(text, U"\n", U" ");
  for (const auto& [from, to] : {std::pair(U"&quot;", U"\""), {U"&amp;", U"&"}, {U"&lt;", U"<"}, {U"&gt;", U">"}})
    detail::replace_all(text, from, to);
  std::u32string apart = U" ";
  for (const char32_t c : text) {
    if (detail::always_alone(c)) {
      apart += U' ';
      apart += c;
      apart += U' ';
    } else {
      apart += c;
    }
  }
  apart += U' ';
  apart = detail::split_pairs(apart, false, true,
                              [](char32_t a, char32_t b) { return !is_digit(a) && is_full_stop_or_comma(b); });
  apart = detail::split_pairs(apart, true, false,
                              [](char32_t a, char32_t b) { return is_full_stop_or_comma(a) && !is_digit(b); });
  apart = detail::split_pairs(apart, false, true, [](char32_t a, char32_t b) { return is_digit(a) && b == U'-'; });
  std::vector<std::u32string> tokens;
  bool within = false;
  for (const char32_t c : apart) {
    if (detail::is_blank(c)) {
      within = false;
      continue;
    }
    if (!within) tokens.emplace_back();
    within = true;
    tokens.back() += c;
  }
  return tokens;
}

}  // namespace headred
