// The check that every device op begins with.
#pragma once

#include <string>

#include <headred/core/error.hpp>
#include <headred/core/view.hpp>

namespace headred::device::detail {

/// Throws shape_error: "softmax: y is (2,3), expected (2,4)".
template <class View>
void require_shape(const char* op, const char* name, const View& view, const shape_t<View::rank>& expected) {
  if (view.shape() != expected)
    throw shape_error(std::string(op) + ": " + name + " is " + shape_text(view.shape()) + ", expected " +
                      shape_text(expected));
}

}  // namespace headred::device::detail
