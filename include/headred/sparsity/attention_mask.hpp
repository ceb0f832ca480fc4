// attention_mask: masks (H,T,S) from few parameters, for any number of heads and any length, and the way back.
#pragma once

#include <string>

#include <headred/sparsity/element_loops.hpp>

namespace headred {

namespace detail {

/// M[h,i,j] = v[h,|i-j|].
template <class T, class Space>
struct spread_offsets {
  tensor_view<const T, 2, Space> v;
  tensor_view<T, 3, Space> mask;
  HEADRED_FUNCTION void operator()(index_t row) const {
    const index_t h = row / mask.extent(1), i = row % mask.extent(1);
    for (index_t j = 0; j < mask.extent(2); ++j) mask(h, i, j) = v(h, i < j ? j - i : i - j);
  }
};
/// dv[h,d] += sum of dM[h,i,j] over |i-j| = d, by rows; of two entries of a row the left one first.
template <class T, class Space>
struct gather_offsets {
  tensor_view<const T, 3, Space> dmask;
  tensor_view<T, 2, Space> dv;
  HEADRED_FUNCTION void operator()(index_t number) const {
    const index_t h = number / dv.extent(1), d = number % dv.extent(1);
    double sum = 0;
    for (index_t i = 0; i < dmask.extent(1); ++i) {
      if (i - d >= 0 && i - d < dmask.extent(2)) sum += static_cast<double>(dmask(h, i, i - d));
      if (d > 0 && i + d < dmask.extent(2)) sum += static_cast<double>(dmask(h, i, i + d));
    }
    dv(h, d) += static_cast<T>(sum);
  }
};

/// M[h,i,j] = a[h, min(i,j), max(i,j)].
template <class T, class Space>
struct mirror_triangle {
  tensor_view<const T, 3, Space> a;
  tensor_view<T, 3, Space> mask;
  HEADRED_FUNCTION void operator()(index_t row) const {
    const index_t h = row / mask.extent(1), i = row % mask.extent(1);
    for (index_t j = 0; j < mask.extent(2); ++j) mask(h, i, j) = i < j ? a(h, i, j) : a(h, j, i);
  }
};
/// da[h,i,j] += dM[h,i,j] + dM[h,j,i] for i < j, dM[h,i,i] on the diagonal, where the mask has these places.
template <class T, class Space>
struct fold_triangle {
  tensor_view<const T, 3, Space> dmask;
  tensor_view<T, 3, Space> da;
  HEADRED_FUNCTION T at(index_t h, index_t i, index_t j) const {
    return i < dmask.extent(1) && j < dmask.extent(2) ? dmask(h, i, j) : T(0);
  }
  HEADRED_FUNCTION void operator()(index_t row) const {
    const index_t h = row / da.extent(1), i = row % da.extent(1);
    for (index_t j = i; j < da.extent(2); ++j) da(h, i, j) += i == j ? at(h, i, i) : at(h, i, j) + at(h, j, i);
  }
};

template <class T, class Space>
struct clear_diagonal {
  tensor_view<T, 3, Space> mask;
  index_t length;
  HEADRED_FUNCTION void operator()(index_t number) const {
    mask(number / length, number % length, number % length) = T(0);
  }
};

template <class View>
struct is_zero_entry {
  View mask;
  HEADRED_FUNCTION double operator()(index_t i) const { return element(mask, i) == 0 ? 1 : 0; }
};
template <class View>
struct entry_size {
  View mask;
  HEADRED_FUNCTION double operator()(index_t i) const {
    const auto m = static_cast<double>(element(mask, i));
    return m < 0 ? -m : m;
  }
};

template <class A, class B, int Rank, class Space>
void require_structured(const char* op, const tensor_view<A, 2, Space>& v, const tensor_view<B, Rank, Space>& mask) {
  const index_t length = mask.extent(1) > mask.extent(2) ? mask.extent(1) : mask.extent(2);
  if (v.extent(0) != mask.extent(0) || v.extent(1) < length)
    throw shape_error(std::string(op) + ": the parameters are " + shape_text(v.shape()) + ", expected " +
                      shape_text(shape_t<2>{mask.extent(0), length}) + " at least for a mask of " +
                      shape_text(mask.shape()));
}
template <class A, class B, class Space>
void require_unstructured(const char* op, const tensor_view<A, 3, Space>& a, const tensor_view<B, 3, Space>& mask) {
  const index_t length = mask.extent(1) > mask.extent(2) ? mask.extent(1) : mask.extent(2);
  if (a.extent(0) != mask.extent(0) || a.extent(1) != a.extent(2) || a.extent(1) < length)
    throw shape_error(std::string(op) + ": the parameters are " + shape_text(a.shape()) + ", expected " +
                      shape_text(shape_t<3>{mask.extent(0), length, length}) + " at least for a mask of " +
                      shape_text(mask.shape()));
}

}  // namespace detail

/// The structured (Toeplitz) mask: M[h,i,j] = v[h,|i-j|].
/// v : (H,N), of sampled or evaluated entries; mask : (H,T,S), T and S up to N, so that one set of parameters serves
/// every length. Throws shape_error. Cost O(H T S). Source: SparseBERT, section 3.3.
template <backend Backend, class T>
void structured_mask(Backend& be, detail::input_view<T, 2, Backend> v,
                     tensor_view<T, 3, typename Backend::space> mask) {
  detail::require_structured("structured_mask", v, mask);
  be.for_each(mask.extent(0) * mask.extent(1), detail::spread_offsets<T, typename Backend::space>{v, mask});
}

/// The pull-back of structured_mask: dv[h,d] += sum of dM[h,i,j] over |i-j| = d, in a fixed order, in double.
/// Throws shape_error. Cost O(H N T).
template <backend Backend, class T>
void structured_mask_gradient(Backend& be, detail::input_view<T, 3, Backend> dmask,
                              tensor_view<T, 2, typename Backend::space> dv) {
  detail::require_structured("structured_mask_gradient", dv, dmask);
  be.for_each(dv.size(), detail::gather_offsets<T, typename Backend::space>{dmask, dv});
}

/// The unstructured mask, symmetrised from the upper triangle: M[h,i,j] = a[h,min(i,j),max(i,j)].
/// a : (H,N,N), its lower triangle is not read; mask : (H,T,S), T and S up to N. Throws shape_error. Cost O(H T S).
template <backend Backend, class T>
void unstructured_mask(Backend& be, detail::input_view<T, 3, Backend> a,
                       tensor_view<T, 3, typename Backend::space> mask) {
  detail::require_unstructured("unstructured_mask", a, mask);
  be.for_each(mask.extent(0) * mask.extent(1), detail::mirror_triangle<T, typename Backend::space>{a, mask});
}

/// The pull-back of unstructured_mask: da[h,i,j] += dM[h,i,j] + dM[h,j,i] for i < j, dM[h,i,i] on the diagonal; the lower
/// triangle stays. Throws shape_error. Cost O(H N^2).
template <backend Backend, class T>
void unstructured_mask_gradient(Backend& be, detail::input_view<T, 3, Backend> dmask,
                                tensor_view<T, 3, typename Backend::space> da) {
  detail::require_unstructured("unstructured_mask_gradient", da, dmask);
  be.for_each(da.extent(0) * da.extent(1), detail::fold_triangle<T, typename Backend::space>{dmask, da});
}

/// M[h,i,i] = 0: nobody looks at its own place. Applied to dM before a pull-back it is its own pull-back. A row of one
/// valid key is then fully masked, which attention answers with zero output and zero gradient. Cost O(H min(T,S)).
template <backend Backend, class T>
void remove_diagonal(Backend& be, tensor_view<T, 3, typename Backend::space> mask) {
  const index_t length = mask.extent(1) < mask.extent(2) ? mask.extent(1) : mask.extent(2);
  be.for_each(mask.extent(0) * length, detail::clear_diagonal<T, typename Backend::space>{mask, length});
}

/// Share of the mask's entries that are 0, in [0,1]; 0 for an empty mask. mask : any shape.
template <backend Backend, class T, int Rank>
double mask_sparsity(Backend& be, tensor_view<T, Rank, typename Backend::space> mask) {
  if (mask.empty()) return 0;
  return detail::fold_elements(be, mask.size(), 0.,
                               detail::is_zero_entry<tensor_view<T, Rank, typename Backend::space>>{mask},
                               detail::plus{}) /
         static_cast<double>(mask.size());
}

/// sum |M|, the penalty of a mask, in double in a fixed order. Its gradient with respect to every entry is 1, as M >= 0:
/// add lambda to dM before the pull-back.
template <backend Backend, class T, int Rank>
double mask_penalty(Backend& be, tensor_view<T, Rank, typename Backend::space> mask) {
  return detail::fold_elements(be, mask.size(), 0.,
                               detail::entry_size<tensor_view<T, Rank, typename Backend::space>>{mask}, detail::plus{});
}

}  // namespace headred
