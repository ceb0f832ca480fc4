// parameter_list: the parameters that are trained, bound once so that no step looks them up by name.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <headred/nn/model_gates.hpp>
#include <headred/nn/parameter.hpp>

namespace headred {

/// One trained parameter: `size` values and their gradients, side by side in the backend's memory.
template <class T>
struct trained_parameter {
  std::string name;
  std::vector<index_t> shape;
  index_t size = 0;
  T* value = nullptr;
  T* gradient = nullptr;
};

/// Some entries of one parameter: what one task of an optimiser works on.
struct parameter_block {
  index_t parameter = 0;
  index_t begin = 0;
  index_t size = 0;
};

/// The trained parameters of a model, its gates, a user's own struct, in the order in which they were added. It points
/// into them: build it anew after `train`, pruning or loading of another model.
template <class T, backend Backend>
class parameter_list {
 public:
  parameter_list() = default;
  /// All trained parameters that visit_parameters finds.
  template <class Weights>
  explicit parameter_list(Weights& weights) {
    add_all(weights);
  }

  /// Adds a parameter if it is trained. Throws argument_error for a name or a parameter that is in the list already,
  /// shape_error for a gradient of another shape.
  template <int Rank>
  void add(const std::string& name, parameter<T, Rank, Backend>& p) {
    if (!p.trained() || p.value.size() == 0) return;
    if (p.gradient.shape() != p.value.shape())
      throw shape_error("parameter_list: the gradient of " + name + " is " + shape_text(p.gradient.shape()) +
                        ", expected " + shape_text(p.value.shape()));
    for (const auto& other : parameters_) {
      if (other.name == name) throw argument_error("parameter_list: " + name + " is given twice");
      if (other.value == p.value.data())
        throw argument_error("parameter_list: " + name + " is the same parameter as " + other.name);
    }
    const auto& shape = p.value.shape();
    parameters_.push_back({name, {shape.begin(), shape.end()}, p.value.size(), p.value.data(), p.gradient.data()});
    constexpr index_t block = index_t{1} << 14;
    for (index_t begin = 0; begin < p.value.size(); begin += block)
      blocks_.push_back({size() - 1, begin, std::min(block, p.value.size() - begin)});
  }

  /// Adds what visit_parameters(weights, f) finds, names preceded by `prefix`.
  template <class Weights>
  void add_all(Weights& weights, const std::string& prefix = {}) {
    visit_parameters(weights, [&](const std::string& name, auto& p) { add(prefix + name, p); });
  }

  /// Adds the gates of every layer's heads of a model, by names such as "gates.cross.2"; those of neurons and layers are
  /// gate_training's business.
  void add_gates(model_gates<T, Backend>& gates, const transformer_config& config) {
    for (const attention_kind kind : attention_kinds(config))
      for (std::size_t l = 0; l < attention_blocks(config, kind).size(); ++l)
        add("gates." + std::string(to_string(kind)) + "." + std::to_string(l), gates.of(kind, static_cast<index_t>(l)));
  }

  index_t size() const noexcept { return static_cast<index_t>(parameters_.size()); }
  bool empty() const noexcept { return parameters_.empty(); }
  const trained_parameter<T>& operator[](index_t i) const { return parameters_[static_cast<std::size_t>(i)]; }
  auto begin() const noexcept { return parameters_.begin(); }
  auto end() const noexcept { return parameters_.end(); }

  /// All entries of all parameters in pieces, cut by the shapes alone.
  std::span<const parameter_block> blocks() const noexcept { return blocks_; }

  /// Number of values.
  index_t values() const noexcept {
    index_t n = 0;
    for (const auto& p : parameters_) n += p.size;
    return n;
  }

 private:
  std::vector<trained_parameter<T>> parameters_;
  std::vector<parameter_block> blocks_;
};

/// Whether a parameter's name says that it is a bias or belongs to a norm: those are commonly not decayed.
inline bool is_bias_or_norm(std::string_view name) {
  return name.ends_with("bias") || name.ends_with(".scale") || name.ends_with(".shift");
}

}  // namespace headred
