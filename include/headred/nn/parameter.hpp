// parameter: a weight and, while it is trained, its gradient.
#pragma once

#include <headred/backend/tensor.hpp>

namespace headred {

/// A weight of a model. `gradient` is empty for weights that are not trained; otherwise it has the shape of `value` and
/// is added to by every reverse pass.
template <class T, int Rank, backend Backend>
struct parameter {
  using view_type = tensor_view<T, Rank, typename Backend::space>;
  using const_view_type = tensor_view<const T, Rank, typename Backend::space>;

  tensor<T, Rank, Backend> value;
  tensor<T, Rank, Backend> gradient;

  parameter() = default;
  parameter(Backend& be, const shape_t<Rank>& shape) : value(be, shape) {}

  bool trained() const noexcept { return gradient.data() != nullptr; }
  /// Begins (with zeros) or stops to collect gradients.
  void train(Backend& be, bool on = true) {
    if (on == trained()) return;
    gradient = on ? tensor<T, Rank, Backend>(be, value.shape()) : tensor<T, Rank, Backend>();
  }
};

}  // namespace headred
