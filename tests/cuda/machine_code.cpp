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
void use_all_activations() {
  const auto both = []<class F>(F) {
    use(detail::for_each_kernel<device::detail::entry_value<T, F>>{});
    use(detail::for_each_kernel<device::detail::entry_slope<T, F>>{});
  };
  both(device::detail::relu{});
  both(device::detail::silu{});
  both(device::detail::gelu_by_erf{});
  both(device::detail::gelu_by_tanh{});
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
  use_all_activations<T>();
  use(detail::for_each_kernel<k::sum_of_entries<T>>{});
  use(detail::for_each_kernel<k::bias_entry<T>>{});
  use(k::column_part_kernel<T>{});
  use(detail::for_each_kernel<k::add_column_parts<T>>{});
  use(detail::for_each_kernel<k::dropped_entries<T>>{0, {random_stream(1), 0, {}, {}, {}, {}}});
  use(detail::for_each_kernel<k::scaled_entry<T>>{});
  use(k::signed_sums_kernel<T>{});
  use(k::signed_contraction_kernel<T>{});
  use(k::linear_sum_factors<T>{});
  use(detail::for_each_kernel<k::linear_sum_entry<T>>{});
  use(k::linear_sign_factors<T>{});
  use(k::add_relevance_kernel<T>{});
  use(k::softmax_relevance_kernel<T>{});
  use(k::layer_norm_sign_factors<T>{});
  use(detail::for_each_kernel<k::layer_norm_sign_entry<T>>{});
  use(k::layer_norm_sum_kernel<T>{});
  use(detail::fold_kernel<double, k::term_as_double<T>, detail::add, k::store_term>{});
  use(k::attention_factors_kernel<T>{});
  use(k::attention_flow_kernel<T>{});
  use(detail::for_each_kernel<k::parts_by_sign<T>>{});
  use(detail::for_each_kernel<k::times_input<T>>{});
  use(detail::for_each_kernel<k::zero_entry<T>>{});
  use(detail::for_each_kernel<k::score_signs<T>>{});
  use(detail::for_each_kernel<k::output_signs<T>>{});
  use(k::query_signs_kernel<T>{});
  use(detail::for_each_kernel<k::flow_signs<T>>{});
  use(detail::for_each_kernel<k::key_signs<T>>{});
  use(k::sparse_attention_kernel<T>{});
  use(k::sparse_scores_kernel<T>{});
  use(k::sparse_sum_kernel<T>{});
  use(k::map_distances_kernel<T>{});
  use(k::map_spread_kernel<T>{});
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
  use(detail::for_each_kernel<device::detail::centred_distance>{});
  use(device::detail::unit_vector_kernel{});
  use(device::detail::correlation_distance_kernel{});
}

}  // namespace headred
