// Shape checks that every op makes before it touches memory.
#pragma once

#include <string>
#include <string_view>

#include <headred/core/error.hpp>
#include <headred/core/view.hpp>

namespace headred::detail {

/// Throws shape_error unless m is (rows, cols) and the entries of a row lie side by side.
template <class T, class Space>
void require_matrix(std::string_view op, std::string_view name, const tensor_view<T, 2, Space>& m, index_t rows,
                    index_t cols) {
  if (m.extent(0) != rows || m.extent(1) != cols)
    throw shape_error(std::string(op) + ": " + std::string(name) + " is " + shape_text(m.shape()) + ", expected " +
                      shape_text(shape_t<2>{rows, cols}));
  if (cols > 1 && m.stride(1) != 1)
    throw shape_error(std::string(op) + ": the entries of a row of " + std::string(name) + " are " +
                      std::to_string(m.stride(1)) + " apart, expected 1");
}

/// Throws shape_error unless v holds n values side by side.
template <class T, class Space>
void require_vector(std::string_view op, std::string_view name, const tensor_view<T, 1, Space>& v, index_t n) {
  if (v.extent(0) != n)
    throw shape_error(std::string(op) + ": " + std::string(name) + " is " + shape_text(v.shape()) + ", expected " +
                      shape_text(shape_t<1>{n}));
  if (n > 1 && v.stride(0) != 1)
    throw shape_error(std::string(op) + ": the entries of " + std::string(name) + " are " +
                      std::to_string(v.stride(0)) + " apart, expected 1");
}

}  // namespace headred::detail
