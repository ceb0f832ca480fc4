// The text form of a plan: for people to read, and to read back.
#pragma once

#include <charconv>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/prune/plan.hpp>

namespace headred {

/// One line a layer after a line that names schema, unit and number of layers; no line end after the last line:
///
///     prune_plan schema 1 unit head layers 3
///     encoder_self 0: 0 4 7 (3 of 12)
///     encoder_self 1: (0 of 12)
///     decoder_self 0: 1 2 (2 of 6, groups 3+3)
///
/// The numbers are kept heads, or kept key/value groups in a plan of unit kv_group (then "of" counts groups, and their
/// sizes are always given); `groups` lists the sizes of shared key/value groups. Where the layout names stacks, the
/// schema is 2, the first line also counts their layers, and a line follows for the neurons of each:
///
///     prune_plan schema 2 unit head layers 2 neurons 2
///     encoder_self 0: 0 4 7 (3 of 12)
///     encoder_self 1: (0 of 12)
///     encoder 0: 0-511 600 (513 of 2048)
///     encoder 1: removed (of 2048)
inline std::string to_text(const prune_plan& plan) {
  const auto stacks = plan.layout().stacks();
  std::string text = "prune_plan schema " + std::to_string(stacks.empty() ? 1 : prune_plan::schema) + " unit ";
  text += to_string(plan.unit());
  index_t layers = 0;
  for (const attention_kind kind : plan.layout().kinds()) layers += plan.layout().heads(kind).layers();
  text += " layers " + std::to_string(layers);
  if (!stacks.empty()) {
    layers = 0;
    for (const model_stack stack : stacks) layers += plan.layout().layers(stack);
    text += " neurons " + std::to_string(layers);
  }
  const bool by_group = plan.unit() == prune_unit::kv_group;
  for (const attention_kind kind : plan.layout().kinds()) {
    const head_layout& heads = plan.layout().heads(kind);
    for (index_t layer = 0; layer < heads.layers(); ++layer) {
      const auto kept = by_group ? plan.kept_groups(kind, layer) : plan.kept(kind, layer);
      const auto groups = plan.layout().groups(kind, layer);
      text.append("\n").append(to_string(kind)).append(" ").append(std::to_string(layer)).append(":");
      for (const index_t number : kept) text.append(" ").append(std::to_string(number));
      text.append(" (").append(std::to_string(kept.size())).append(" of ");
      text += std::to_string(by_group ? static_cast<index_t>(groups.size()) : heads.heads(layer));
      if (!groups.empty() && (by_group || plan.layout().grouped(kind, layer))) {
        text += ", groups ";
        for (std::size_t i = 0; i < groups.size(); ++i) text.append(i ? "+" : "").append(std::to_string(groups[i]));
      }
      text += ")";
    }
  }
  for (const model_stack stack : stacks) {
    for (index_t layer = 0; layer < plan.layout().layers(stack); ++layer) {
      const auto& kept = plan.kept_neurons(stack, layer);
      text.append("\n").append(to_string(stack)).append(" ").append(std::to_string(layer)).append(":");
      for (std::size_t i = 0, last = 0; i < kept.size(); i = last + 1) {
        last = i;
        while (last + 1 < kept.size() && kept[last + 1] == kept[last] + 1) ++last;
        text.append(" ").append(std::to_string(kept[i]));
        if (last > i) text.append("-").append(std::to_string(kept[last]));
      }
      const bool stays = plan.is_kept(stack, layer);
      text.append(stays ? " (" + std::to_string(kept.size()) + " of " : " removed (of ");
      text += std::to_string(plan.layout().neurons(stack)[static_cast<std::size_t>(layer)]) + ")";
    }
  }
  return text;
}

/// Prints to_text(plan).
inline std::ostream& operator<<(std::ostream& out, const prune_plan& plan) { return out << to_text(plan); }

namespace detail {

// Takes a text apart from its front; every mismatch is an argument_error that names line and expectation.
class plan_text_reader {
 public:
  explicit plan_text_reader(std::string_view text) : rest_(text) {}

  bool at_end() const noexcept { return rest_.empty(); }
  bool accept(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail("expected \"" + std::string(token) + "\"");
  }
  /// A line end, or the end of the text.
  void expect_line_end() {
    if (rest_.empty()) return;
    if (!accept("\n")) fail("expected the end of the line");
    ++line_;
  }
  /// Digits without sign or leading zeros.
  index_t number(const char* what) {
    index_t value = 0;
    const char* const end = rest_.data() + rest_.size();
    const auto [stop, problem] = std::from_chars(rest_.data(), end, value);
    const auto digits = static_cast<std::size_t>(stop - rest_.data());
    if (problem != std::errc() || value < 0 || rest_.front() == '-' || (rest_.front() == '0' && digits > 1))
      fail(std::string("expected ") + what);
    rest_.remove_prefix(digits);
    return value;
  }
  attention_kind kind() {
    for (const auto kind : {attention_kind::encoder_self, attention_kind::decoder_self, attention_kind::cross})
      if (accept(to_string(kind))) return kind;
    fail("expected an attention kind: encoder_self, decoder_self or cross");
  }
  model_stack stack() {
    for (const auto stack : {model_stack::encoder, model_stack::decoder})
      if (accept(to_string(stack))) return stack;
    fail("expected a stack: encoder or decoder");
  }
  prune_unit unit() {
    for (const auto unit : {prune_unit::head, prune_unit::kv_group})
      if (accept(to_string(unit))) return unit;
    fail("unknown unit, expected head or kv_group");
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw argument_error("parse_plan: line " + std::to_string(line_) + ": " + what);
  }

 private:
  std::string_view rest_;
  index_t line_ = 1;
};

// What one line says about its layer.
struct plan_line {
  std::vector<index_t> kept;
  index_t heads = 0;
  std::vector<index_t> groups;
};

inline plan_line read_plan_line(plan_text_reader& in, prune_unit unit) {
  plan_line line;
  while (!in.accept(" (")) {
    in.expect(" ");
    line.kept.push_back(in.number("a number or \"(\""));
  }
  const index_t kept = in.number("the number kept");
  if (kept != static_cast<index_t>(line.kept.size()))
    in.fail("lists " + std::to_string(line.kept.size()) + " numbers but counts " + std::to_string(kept));
  in.expect(" of ");
  const index_t units = in.number("the number of units in the layer");
  if (units > plan_layout::max_heads) in.fail("expected at most " + std::to_string(plan_layout::max_heads) + " units");
  if (in.accept(", groups ")) {
    do line.groups.push_back(in.number("the size of a group"));
    while (in.accept("+"));
  }
  in.expect(")");
  line.heads = units;
  if (unit == prune_unit::kv_group) {
    if (units != static_cast<index_t>(line.groups.size()))
      in.fail("has " + std::to_string(line.groups.size()) + " groups but counts " + std::to_string(units));
    line.heads = 0;
    for (const index_t size : line.groups) {
      if (size < 1 || size > plan_layout::max_heads - line.heads)
        in.fail("expected group sizes of at least 1 that sum to at most " + std::to_string(plan_layout::max_heads));
      line.heads += size;
    }
  }
  return line;
}

// What one line says about the neurons of its layer.
struct neuron_line {
  std::vector<index_t> kept;
  index_t neurons = 0;
  bool stays = true;
};

// `left` : neurons that all lines together may still list; a range of a few bytes stands for many.
inline neuron_line read_neuron_line(plan_text_reader& in, index_t& left) {
  neuron_line line;
  if (in.accept(" removed (of ")) {
    line.stays = false;
  } else {
    while (!in.accept(" (")) {
      in.expect(" ");
      const index_t first = in.number("a number or \"(\"");
      const index_t last = in.accept("-") ? in.number("the end of a range") : first;
      if (last < first || last >= plan_layout::max_neurons || last - first >= left)
        in.fail("expected ranges of neurons below " + std::to_string(plan_layout::max_neurons) + ", " +
                std::to_string(plan_layout::max_neurons_in_all) + " at most in all");
      left -= last - first + 1;
      for (index_t n = first; n <= last; ++n) line.kept.push_back(n);
    }
    const index_t kept = in.number("the number kept");
    if (kept != static_cast<index_t>(line.kept.size()))
      in.fail("lists " + std::to_string(line.kept.size()) + " neurons but counts " + std::to_string(kept));
    in.expect(" of ");
  }
  line.neurons = in.number("the number of neurons in the layer");
  in.expect(")");
  return line;
}

// Takes `lines` lines "KIND LAYER:..." apart; layers of a kind (or stack) must follow each other from 0 on.
template <class Kind, class Line, class ReadKind, class ReadLine>
std::vector<std::pair<Kind, std::vector<Line>>> read_plan_layers(plan_text_reader& in, index_t layers,
                                                                 const ReadKind& read_kind, const ReadLine& read_line) {
  std::vector<std::pair<Kind, std::vector<Line>>> kinds;
  for (index_t read = 0; read < layers; ++read) {
    if (in.at_end())
      in.fail("a layer is missing, " + std::to_string(read) + " of " + std::to_string(layers) + " are given");
    const Kind kind = read_kind();
    in.expect(" ");
    const index_t layer = in.number("a layer");
    if (kinds.empty() || kinds.back().first != kind) kinds.push_back({kind, {}});
    auto& lines = kinds.back().second;
    if (const auto next = static_cast<index_t>(lines.size()); layer != next)
      in.fail(std::string(to_string(kind)) + " layer " + std::to_string(layer) +
              (layer < next ? " is given twice or late" : " comes early") + ", expected layer " + std::to_string(next));
    in.expect(":");
    lines.push_back(read_line());
    in.expect_line_end();
  }
  return kinds;
}

}  // namespace detail

/// The plan that to_text wrote; one line end after the last line is allowed.
/// Throws argument_error, naming the line, for an unknown schema, unit or kind, a missing or repeated layer, a count
/// that does not match, and everything that prune_plan and plan_layout refuse.
inline prune_plan parse_plan(std::string_view text) {
  detail::plan_text_reader in(text);
  in.expect("prune_plan schema ");
  const index_t schema = in.number("a schema version");
  if (schema < 1 || schema > prune_plan::schema)
    in.fail("schema is " + std::to_string(schema) + ", expected 1 to " + std::to_string(prune_plan::schema));
  in.expect(" unit ");
  const prune_unit unit = in.unit();
  in.expect(" layers ");
  const index_t layers = in.number("the number of layers");
  index_t blocks = 0;
  if (schema >= 2) {
    in.expect(" neurons ");
    blocks = in.number("the number of layers with neurons");
  }
  in.expect_line_end();
  const auto kinds = detail::read_plan_layers<attention_kind, detail::plan_line>(
      in, layers, [&] { return in.kind(); }, [&] { return detail::read_plan_line(in, unit); });
  index_t left = plan_layout::max_neurons_in_all;
  const auto stacks = detail::read_plan_layers<model_stack, detail::neuron_line>(
      in, blocks, [&] { return in.stack(); }, [&] { return detail::read_neuron_line(in, left); });
  if (!in.at_end()) in.fail("expected the end after " + std::to_string(layers + blocks) + " layers");

  plan_layout layout;
  for (const auto& [kind, lines] : kinds) {
    std::vector<index_t> heads;
    std::vector<std::vector<index_t>> groups;
    for (const auto& line : lines) {
      heads.push_back(line.heads);
      groups.push_back(line.groups);
    }
    layout.add(kind, head_layout(std::move(heads)), std::move(groups));
  }
  for (const auto& [stack, lines] : stacks) {
    std::vector<index_t> neurons;
    for (const auto& line : lines) neurons.push_back(line.neurons);
    layout.add_stack(stack, std::move(neurons));
  }
  prune_plan plan(std::move(layout), unit);
  for (const auto& [stack, lines] : stacks) {
    std::vector<index_t> kept;
    for (std::size_t i = 0; i < lines.size(); ++i)
      if (lines[i].stays) kept.push_back(static_cast<index_t>(i));
    plan.set_kept_layers(stack, std::move(kept));
    for (std::size_t i = 0; i < lines.size(); ++i) plan.set_kept_neurons(stack, static_cast<index_t>(i), lines[i].kept);
  }
  for (const auto& [kind, lines] : kinds) {
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const auto layer = static_cast<index_t>(i);
      if (unit == prune_unit::head)
        plan.set_kept(kind, layer, lines[i].kept);
      else
        plan.set_kept_groups(kind, layer, lines[i].kept);
    }
  }
  return plan;
}

}  // namespace headred
