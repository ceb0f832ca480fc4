// checkpoint: all that a training run needs to go on, in one file.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headred/core/number_text.hpp>
#include <headred/io/fingerprint.hpp>
#include <headred/io/safetensors_file.hpp>
#include <headred/io/save_safetensors.hpp>
#include <headred/io/transformer_config_json.hpp>
#include <headred/nn/training_step.hpp>

namespace headred {

namespace detail {

/// Where one tensor of a checkpoint lives in memory.
template <class T>
struct checkpoint_tensor {
  std::string name;
  std::vector<index_t> shape;
  T* values = nullptr;
  index_t size = 0;
};

/// Weights ("model.NAME"), what else the optimiser trains ("more.NAME": gates) and its state ("optimizer.NAME").
template <class T, class Trainer>
std::vector<checkpoint_tensor<T>> checkpoint_tensors(Trainer& run) {
  std::vector<checkpoint_tensor<T>> all;
  std::set<const T*> seen;
  visit_parameters(run.model().weights(), [&](const std::string& name, auto& p) {
    const auto& shape = p.value.shape();
    all.push_back({"model." + name, {shape.begin(), shape.end()}, p.value.data(), p.value.size()});
    seen.insert(p.value.data());
  });
  for (const auto& p : run.optimizer().parameters())
    if (!seen.contains(p.value)) all.push_back({"more." + p.name, p.shape, p.value, p.size});
  run.optimizer().visit_state([&](const std::string& name, const tensor_view<T, 1>& state) {
    all.push_back({"optimizer." + name, {state.extent(0)}, state.data(), state.size()});
  });
  return all;
}

template <class T>
safetensors_entry checkpoint_entry(const checkpoint_tensor<T>& t) {
  const auto of_rank = [&]<int Rank>(std::integral_constant<int, Rank>) {
    shape_t<Rank> shape;
    std::copy_n(t.shape.begin(), Rank, shape.begin());
    return safetensors_entry(t.name, tensor_view<const T, Rank>(t.values, shape));
  };
  switch (t.shape.size()) {
    case 1: return of_rank(std::integral_constant<int, 1>{});
    case 2: return of_rank(std::integral_constant<int, 2>{});
    case 3: return of_rank(std::integral_constant<int, 3>{});
    case 4: return of_rank(std::integral_constant<int, 4>{});
    default:
      throw shape_error("save_checkpoint: " + t.name + " has shape " + shape_text(t.shape) + ", expected rank 1 to 4");
  }
}

/// The metadata of a checkpoint, read strictly.
class checkpoint_metadata {
 public:
  explicit checkpoint_metadata(const safetensors_file& file) : file_(file) {}

  const std::string& text(const std::string& key) const {
    const auto found = file_.metadata().find(key);
    if (found == file_.metadata().end())
      throw file_error(file_.name(), "metadata \"" + key + "\" is missing: it is not a headred checkpoint");
    return found->second;
  }
  template <class Number>
  Number number(const std::string& key, const char* expected) const {
    const std::string& from = text(key);
    Number value{};
    const auto [end, failed] = std::from_chars(from.data(), from.data() + from.size(), value);
    if (failed != std::errc() || end != from.data() + from.size() || !(value >= Number(0)) || !finite(value))
      throw file_error(file_.name(), "metadata \"" + key + "\" is " + quoted_name(from) + ", expected " + expected);
    return value;
  }
  index_t count(const std::string& key) const { return number<index_t>(key, "a whole number of at least 0"); }
  std::uint64_t bits(const std::string& key) const {
    return number<std::uint64_t>(key, "a whole number of at least 0");
  }
  double real(const std::string& key) const { return number<double>(key, "a finite number of at least 0"); }

 private:
  template <class Number>
  static bool finite(Number value) {
    if constexpr (std::is_floating_point_v<Number>) return std::isfinite(value);
    return true;
  }
  const safetensors_file& file_;
};

/// Throws file_error with the first fields in which two texts differ.
inline void require_same_model(const std::string& file, std::string_view found, std::string_view expected) {
  const auto line = [](std::string_view& text) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view first = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    first.remove_prefix(std::min(first.find_first_not_of(' '), first.size()));
    return first;
  };
  while (!found.empty() || !expected.empty()) {
    std::string_view a = line(found), b = line(expected);
    if (a == b) continue;
    // from the field on in which they differ: a line may hold a layer
    std::size_t same = 0;
    while (same < std::min(a.size(), b.size()) && a[same] == b[same]) ++same;
    const std::size_t field = a.substr(0, same).find_last_of(",{");
    if (field != std::string_view::npos) {
      a.remove_prefix(field + 1);
      b.remove_prefix(field + 1);
      a.remove_prefix(std::min(a.find_first_not_of(' '), a.size()));
      b.remove_prefix(std::min(b.find_first_not_of(' '), b.size()));
    }
    const auto plain = [](std::string_view json) {
      std::string text(json.substr(0, json.ends_with(',') ? json.size() - 1 : json.size()));
      std::erase(text, '"');
      return quoted_name(text);
    };
    throw file_error(file, "is a checkpoint of another model: it has " + plain(a) + ", expected " + plain(b));
  }
}

constexpr std::string_view state_prefix = "state.";

/// The states of a run as metadata: numbers with a space between them.
template <class Trainer>
std::map<std::string, std::string> state_texts(Trainer& run) {
  std::map<std::string, std::string> texts;
  for (const training_state& s : run.settings().states) {
    std::string text;
    for (const double value : s.save()) {
      if (!std::isfinite(value))
        throw argument_error("save_checkpoint: state " + s.name + " holds " + number_text(value) +
                             ", expected finite numbers");
      text += (text.empty() ? "" : " ") + number_text(value);
    }
    if (!texts.emplace(std::string(state_prefix) + s.name, std::move(text)).second)
      throw argument_error("save_checkpoint: there are two states " + s.name + ", expected names of their own");
  }
  return texts;
}

inline std::vector<double> state_values(const std::string& file, const std::string& key, std::string_view text) {
  std::vector<double> values;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(' '));
    double value = 0;
    const auto [end, failed] = std::from_chars(one.data(), one.data() + one.size(), value);
    if (failed != std::errc() || end != one.data() + one.size() || !std::isfinite(value))
      throw file_error(file, "metadata \"" + key + "\" holds " + quoted_name(one) + ", expected finite numbers");
    values.push_back(value);
    text.remove_prefix(std::min(text.size(), one.size() + 1));
  }
  return values;
}

/// Sets the states of a run to those of a file: all of them, or none where that throws.
template <class Trainer>
void load_states(const safetensors_file& file, Trainer& run) {
  const auto& states = run.settings().states;
  std::set<std::string> known;
  for (const training_state& s : states) known.insert(std::string(state_prefix) + s.name);
  for (const auto& [key, text] : file.metadata())
    if (key.starts_with(state_prefix) && !known.contains(key))
      throw file_error(file.name(), "holds " + quoted_name(key) + ", which is no state of this run");
  std::vector<std::vector<double>> before, wanted;
  for (const training_state& s : states) {
    const std::string key = std::string(state_prefix) + s.name;
    const auto found = file.metadata().find(key);
    if (found == file.metadata().end())
      throw file_error(file.name(), "holds no " + quoted_name(key) + ", which is a state of this run");
    wanted.push_back(state_values(file.name(), key, found->second));
    before.push_back(s.save());
  }
  std::size_t at = 0;
  try {
    for (; at < states.size(); ++at) states[at].load(wanted[at]);
  } catch (const argument_error& problem) {
    while (at-- > 0) states[at].load(before[at]);
    throw file_error(file.name(), problem.what());
  } catch (...) {
    while (at-- > 0) states[at].load(before[at]);
    throw;
  }
}

inline std::string data_text(const batch_order& order) {
  const batch_options& o = order.options();
  fingerprint lengths;
  lengths.add(std::as_bytes(order.lengths()));
  return std::to_string(order.sentences()) + " sentences in " + std::to_string(order.batches()) + " batches of " +
         std::to_string(o.tokens) + " tokens, seed " + std::to_string(o.seed) + (o.shuffle ? "" : ", not shuffled") +
         ", lengths " + lengths.text().substr(0, 8);
}

}  // namespace detail

/// What a checkpoint says besides tensors.
struct checkpoint_state {
  index_t steps = 0;
  index_t skipped = 0;
  epoch_position position;  ///< of the next batch
  learning_rate rate;
  double label_smoothing = 0;
  double longest_gradient = 0;
  std::uint64_t seed = 0;
};

namespace detail {

template <class T, class Trainer>
void save_checkpoint(const std::filesystem::path& path, Trainer& run, epoch_position position,
                     const std::string& data) {
  std::vector<safetensors_entry> entries;
  for (const auto& t : checkpoint_tensors<T>(run)) entries.push_back(checkpoint_entry(t));
  const auto& o = run.settings();
  std::map<std::string, std::string> metadata = state_texts(run);
  metadata.insert({{"format", "headred checkpoint"},
                   {"schema", o.states.empty() ? "1" : "2"},
                   {"model", to_json_text(transformer_document{run.model().config(), {}, ""})},
                   {"optimizer", run.optimizer().description()},
                   {"optimizer_steps", std::to_string(run.optimizer().steps())},
                   {"steps", std::to_string(run.steps())},
                   {"skipped", std::to_string(run.skipped())},
                   {"epoch", std::to_string(position.epoch)},
                   {"batch", std::to_string(position.batch)},
                   {"data", data},
                   {"rate", std::string(to_string(o.rate.kind))},
                   {"rate_peak", number_text(o.rate.peak)},
                   {"rate_lowest", number_text(o.rate.lowest)},
                   {"rate_warm_up", std::to_string(o.rate.warm_up)},
                   {"rate_total", std::to_string(o.rate.total)},
                   {"label_smoothing", number_text(o.label_smoothing)},
                   {"longest_gradient", number_text(o.longest_gradient)},
                   {"seed", std::to_string(o.seed)}});
  save_safetensors(path, std::move(entries), std::move(metadata));
}

inline checkpoint_state read_checkpoint_state(const safetensors_file& file) {
  const checkpoint_metadata m(file);
  if (m.text("format") != "headred checkpoint")
    throw file_error(file.name(),
                     "metadata \"format\" is " + quoted_name(m.text("format")) + ", expected \"headred checkpoint\"");
  if (m.text("schema") != "1" && m.text("schema") != "2")
    throw file_error(file.name(),
                     "metadata \"schema\" is " + quoted_name(m.text("schema")) + ", expected \"1\" or \"2\"");
  checkpoint_state s;
  s.steps = m.count("steps");
  s.skipped = m.count("skipped");
  s.position = {m.count("epoch"), m.count("batch")};
  constexpr decay_kind kinds[] = {decay_kind::constant, decay_kind::noam, decay_kind::linear, decay_kind::cosine};
  const auto kind = std::ranges::find(kinds, m.text("rate"), [](decay_kind k) { return to_string(k); });
  if (kind == std::end(kinds))
    throw file_error(file.name(), "metadata \"rate\" is " + quoted_name(m.text("rate")) +
                                      ", expected constant, noam, linear or cosine");
  s.rate = {*kind, m.real("rate_peak"), m.count("rate_warm_up"), m.count("rate_total"), m.real("rate_lowest")};
  s.label_smoothing = m.real("label_smoothing");
  s.longest_gradient = m.real("longest_gradient");
  s.seed = m.bits("seed");
  try {
    learning_rate::checked(s.rate);
  } catch (const argument_error& problem) {
    throw file_error(file.name(), problem.what());
  }
  if (s.skipped > s.steps)
    throw file_error(file.name(), "metadata \"skipped\" is " + std::to_string(s.skipped) + ", expected at most " +
                                      std::to_string(s.steps) + " steps");
  if (s.label_smoothing >= 1)
    throw file_error(file.name(),
                     "metadata \"label_smoothing\" is " + number_text(s.label_smoothing) + ", expected [0,1)");
  return s;
}

template <class T, class Trainer>
checkpoint_state load_checkpoint(const std::filesystem::path& path, Trainer& run, batch_order* order) {
  const safetensors_file file(path);
  const checkpoint_metadata m(file);
  const checkpoint_state state = read_checkpoint_state(file);
  require_same_model(file.name(), m.text("model"), to_json_text(transformer_document{run.model().config(), {}, ""}));
  if (m.text("optimizer") != run.optimizer().description())
    throw file_error(file.name(), "is a checkpoint of optimizer " + quoted_name(m.text("optimizer")) + ", expected " +
                                      quoted_name(run.optimizer().description()));
  const index_t optimizer_steps = m.count("optimizer_steps");
  const auto tensors = checkpoint_tensors<T>(run);
  for (const auto& t : tensors) {
    const safetensors_info& info = file.info(t.name);
    if (info.type != dtype_of<T>() || info.shape != t.shape)
      throw file_error(file.name(), tensor_text(t.name) + " is " + std::string(to_string(info.type)) +
                                        shape_text(info.shape) + ", expected " + std::string(to_string(dtype_of<T>())) +
                                        shape_text(t.shape));
  }
  if (file.names().size() != tensors.size()) {
    std::set<std::string> expected;
    for (const auto& t : tensors) expected.insert(t.name);
    for (const auto& name : file.names())
      if (!expected.contains(name))
        throw file_error(file.name(), tensor_text(name) + " is not of this model and optimizer");
  }
  const epoch_position before = order == nullptr ? epoch_position() : order->position();
  if (order != nullptr) {
    if (m.text("data") != data_text(*order))
      throw file_error(file.name(), "was trained on " + quoted_name(m.text("data")) + ", expected " +
                                        quoted_name(data_text(*order)));
    try {
      order->seek(state.position);
    } catch (const argument_error& problem) {
      throw file_error(file.name(), problem.what());
    }
  }
  try {
    load_states(file, run);
  } catch (...) {
    if (order != nullptr) order->seek(before);
    throw;
  }
  for (const auto& t : tensors)
    if (t.size > 0) std::memcpy(t.values, file.bytes(t.name).data(), static_cast<std::size_t>(t.size) * sizeof(T));
  run.optimizer().set_steps(optimizer_steps);
  auto& o = run.settings();
  o.rate = state.rate;
  o.label_smoothing = state.label_smoothing;
  o.longest_gradient = state.longest_gradient;
  o.seed = state.seed;
  run.resume(state.steps, state.skipped);
  return state;
}

}  // namespace detail

/// Writes weights, gates that are trained, the optimiser's state, step, place in the data, seeds, schedule and the
/// settings' `states` (the controller of a target for gates, say) into one .safetensors file: complete or not at all,
/// so that a run killed at any moment goes on from the last one that was saved. Throws file_error where the file cannot
/// be written.
template <class T, host_backend Backend, class Optimizer>
void save_checkpoint(const std::filesystem::path& path, trainer<T, Backend, Optimizer>& run, const batch_order& order) {
  detail::save_checkpoint<T>(path, run, order.position(), detail::data_text(order));
}
/// The same for data that is not in a batch_order.
template <class T, host_backend Backend, class Optimizer>
void save_checkpoint(const std::filesystem::path& path, trainer<T, Backend, Optimizer>& run,
                     epoch_position position = {}) {
  detail::save_checkpoint<T>(path, run, position, "");
}

/// Brings a run of the same shape (built anew in another process) to where the checkpoint was saved: with the same
/// batches every further step gives the same bits. Rate, label smoothing, clipping and seed become those of the file;
/// the order of batches is set to the batch that comes next.
/// Throws file_error for a file that is damaged or belongs to another model, optimiser or data, naming both; nothing
/// has changed then.
template <class T, host_backend Backend, class Optimizer>
checkpoint_state load_checkpoint(const std::filesystem::path& path, trainer<T, Backend, Optimizer>& run,
                                 batch_order& order) {
  return detail::load_checkpoint<T>(path, run, &order);
}
/// The same without the place in the data.
template <class T, host_backend Backend, class Optimizer>
checkpoint_state load_checkpoint(const std::filesystem::path& path, trainer<T, Backend, Optimizer>& run) {
  return detail::load_checkpoint<T>(path, run, nullptr);
}

/// Step, place in the data and settings of a checkpoint, without loading it. Throws file_error.
inline checkpoint_state read_checkpoint_state(const std::filesystem::path& path) {
  return detail::read_checkpoint_state(safetensors_file(path));
}

}  // namespace headred
