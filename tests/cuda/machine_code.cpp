// Every kernel in float and double, for machine_code.cmake to look at.
#include <headred/cuda.hpp>
#include <headred/sparsity/gate_noise.hpp>
#include <headred/sparsity/gumbel_sigmoid_rule.hpp>
#include <headred/sparsity/hard_concrete_rule.hpp>

namespace headred {
namespace {

template <class Kernel>
void use(const Kernel& kernel) {
  detail::launch_kernel(nullptr, 0, kernel);
}

template <class T>
void use_all() {
  namespace k = device::detail;
  use(k::softmax_kernel<T>{});
  use(k::softmax_gradient_kernel<T>{});
  use(k::layer_norm_kernel<T>{});
  use(k::layer_norm_gradient_kernel<T>{});
  use(detail::for_each_kernel<k::layer_norm_column<T>>{});
  use(k::cross_entropy_kernel<T>{});
  use(k::cross_entropy_gradient_kernel<T>{});
  use(k::row_mean_kernel<T>{});
  use(detail::for_each_kernel<k::column_mean<T>>{});
  use(detail::for_each_kernel<k::subtract_means<T>>{});
  use(detail::for_each_kernel<k::adam_entry<T>>{});
  const gate_noise noise(random_stream(1));
  use(detail::for_each_kernel<k::gate_of_one<T, detail::hard_concrete_rule<T>, gate_noise>>{0,
                                                                                            {{}, noise, {}, {}, {}}});
  use(detail::for_each_kernel<k::entry_of_two<T, detail::gumbel_sigmoid_rule<T>, gate_noise>>{0,
                                                                                              {{}, noise, {}, {}, {}}});
  use(k::attention_kernel<T>{});
  use(k::attention_scores_kernel<T>{});
  use(k::attention_sum_kernel<T>{});
  use(detail::for_each_kernel<k::add_scores<T>>{});
  use(detail::for_each_kernel<k::clear_between<T>>{});
  use(k::head_dots_kernel<T>{});
  use(detail::for_each_kernel<k::add_sentences<T>>{});
  use(detail::for_each_kernel<k::embedded_entry<T>>{});
  use(k::embedding_gradient_kernel<T>{});
  use(detail::fold_kernel<double, k::entry_as_double<T, true>, detail::add, k::store_sum>{});
  use(k::pair_tiles_kernel<T, device::jensen_shannon>{});
  use(k::pair_tiles_kernel<T, device::bhattacharyya>{});
  use(k::pair_tiles_kernel<T, device::cosine>{});
  use(k::pair_tiles_kernel<T, device::pearson>{});
  use(k::pair_rows_kernel<T, device::jensen_shannon>{});
  use(k::pair_rows_kernel<T, device::pearson>{});
  use(k::close_pairs_kernel<T, device::jensen_shannon>{});
  use(k::close_pairs_kernel<T, device::pearson>{});
  use(detail::for_each_kernel<gemm_row<T, device_space>>{});
}

}  // namespace

void every_kernel() {
  use_all<float>();
  use_all<double>();
}

}  // namespace headred
