// hands_over: what may be given away for good to another library.
#pragma once

#include <type_traits>

#include <headred/core/as_view.hpp>

namespace headred::detail {

/// A temporary or moved object that owns memory and shows it by view(), or a tensor_view, which owns nothing.
template <class A>
concept hands_over = !std::is_const_v<std::remove_reference_t<A>> &&
                     (viewable_self<A> || (viewable_member<A> && !std::is_lvalue_reference_v<A>));

}  // namespace headred::detail
