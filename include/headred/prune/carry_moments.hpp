// carry_moments: the state of an optimiser follows its model through pruning.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <headred/nn/adam.hpp>
#include <headred/prune/select_pieces.hpp>

namespace headred {
namespace detail {

template <class T>
struct copy_body {
  const T* from;
  T* to;
  HEADRED_FUNCTION void operator()(index_t i) const { to[i] = from[i]; }
};

/// to = what `part` takes of `from`, which has this shape but lies flat.
template <int Rank, class T, backend Backend>
void carry_flat(Backend& be, const T* from, const std::vector<index_t>& extents, const parameter_selection& part,
                tensor_view<T, 1, typename Backend::space> to) {
  shape_t<Rank> shape{};
  std::copy(extents.begin(), extents.end(), shape.begin());
  const auto taken = select_pieces(be, tensor_view<const T, Rank, typename Backend::space>(from, shape), part);
  if (taken.size() != to.extent(0))
    throw shape_error("carry_moments: " + std::to_string(taken.size()) + " values of " + part.from + ", expected " +
                      std::to_string(to.extent(0)));
  be.for_each(taken.size(), copy_body<T>{taken.data(), to.data()});
  be.synchronize();
}

}  // namespace detail

/// Gives the optimiser of a pruned model the moments that its parameters had before, and the number of steps taken, as if
/// the removed heads had never been trained. Factors of folded gates do not enter the moments.
/// Throws argument_error for a parameter of `to` whose origin `from` does not train, shape_error for one of another shape;
/// `to` may then hold some of the moments.
template <class T, backend Backend>
void carry_moments(const model_selection& selection, adam<T, Backend>& from, adam<T, Backend>& to) {
  struct origin {
    const T* values;
    std::vector<index_t> shape;
  };
  std::map<std::string, std::vector<index_t>> shapes;
  for (const auto& p : from.parameters()) shapes[p.name] = p.shape;
  std::map<std::string, origin> origins;
  from.visit_state([&](const std::string& name, auto values) {
    origins[name] = {values.data(), shapes.at(name.substr(name.find('.') + 1))};
  });
  Backend& be = to.backend();
  to.visit_state([&](const std::string& name, auto values) {
    const std::size_t dot = name.find('.') + 1;
    const parameter_selection part = selection.of(name.substr(dot));
    const auto found = origins.find(name.substr(0, dot) + part.from);
    if (found == origins.end())
      throw argument_error("carry_moments: there are no moments of " + part.from + " for " + name.substr(dot));
    const origin& o = found->second;
    if (o.shape.size() == 1)
      detail::carry_flat<1>(be, o.values, o.shape, part, values);
    else if (o.shape.size() == 2)
      detail::carry_flat<2>(be, o.values, o.shape, part, values);
    else
      throw shape_error("carry_moments: " + part.from + " is " + shape_text(o.shape) + ", expected 1 or 2 axes");
  });
  to.set_steps(from.steps());
}

}  // namespace headred
