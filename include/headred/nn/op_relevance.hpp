// op_relevance: the relevance of this library's own ops on a tape. Apart from them, since it is the larger part of what
// they compile to, and most programs train and never sweep.
#pragma once

#include <headred/nn/op/add.hpp>
#include <headred/nn/op/attention.hpp>
#include <headred/nn/op/dropout.hpp>
#include <headred/nn/op/embedding.hpp>
#include <headred/nn/op/gate_columns.hpp>
#include <headred/nn/op/gate_layer.hpp>
#include <headred/nn/op/gelu.hpp>
#include <headred/nn/op/layer_norm.hpp>
#include <headred/nn/op/linear.hpp>
#include <headred/nn/op/relu.hpp>
#include <headred/nn/op/select_rows.hpp>
#include <headred/nn/op/silu.hpp>
#include <headred/nn/op/softmax.hpp>
#include <headred/nn/op/softmax_cross_entropy.hpp>

namespace headred::detail {

template <class T, backend Backend>
struct op_relevance {
  static void run(const char* tag, const void* state, tape<T, Backend>& t, relevance_sweep<T, Backend>& sweep) {
    const bool found =
        run_nodes<add_node<T, Backend>, attention_node<T, Backend>, dropout_node<T, Backend>,
                  embedding_node<T, Backend>, gate_columns_node<T, Backend>, gate_layer_node<T, Backend>,
                  gelu_node<T, Backend>, layer_norm_node<T, Backend>, linear_node<T, Backend>, relu_node<T, Backend>,
                  select_rows_node<T, Backend>, silu_node<T, Backend>, softmax_node<T, Backend>,
                  softmax_cross_entropy_node<T, Backend>>(tag, state, t, sweep);
    if (!found) throw argument_error("sweep: an op says relevance_by_sweep and is not in nn/op_relevance.hpp");
  }

 private:
  template <class... Nodes>
  static bool run_nodes(const char* tag, const void* state, tape<T, Backend>& t, relevance_sweep<T, Backend>& sweep) {
    return ((tag == &node_tag<Nodes> ? (static_cast<const Nodes*>(state)->relevance(t, sweep), true) : false) || ...);
  }
};

}  // namespace headred::detail
