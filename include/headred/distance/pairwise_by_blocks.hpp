// pairwise_by_blocks: distances of so many heads that what is computed of their maps must not lie side by side.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <headred/distance/pairwise.hpp>

namespace headred {

/// How heads are cut into blocks.
struct block_options {
  index_t block = 512;                              ///< heads taken at a time, 1 or more
  sentence_options sentence = {};                   ///< valid tokens and the like, the same for all heads
  std::function<bool(index_t done)> progress = {};  ///< called with the number of pairs of blocks done; false ends it
};

namespace detail {

/// What reads maps (count,T,S): a view, or an owner of them, that is valid while it lives.
template <class Read>
concept block_reader = requires(const Read& read) {
  { read(index_t{}, index_t{}) } -> viewable_as<3>;
};

template <block_reader Read>
using block_of = std::decay_t<decltype(std::declval<const Read&>()(index_t{}, index_t{}))>;
template <block_reader Read>
using block_element = std::remove_const_t<typename decltype(as_view(std::declval<block_of<Read>&>()))::value_type>;

/// Heads [first, first + count) of all.
struct head_block {
  index_t first, count;
};

/// "of heads 0 to 7 with 8 to 15: ", before numbers that count within the blocks.
inline std::string blocks_text(const head_block blocks[2]) {
  const auto range = [](const head_block& b) {
    return std::to_string(b.first) + " to " + std::to_string(b.first + b.count - 1);
  };
  return "pairwise_by_blocks: of heads " + range(blocks[0]) + " with " + range(blocks[1]) + ", numbered from 0: ";
}

/// A fault in a block, told of the head's number among all.
[[noreturn]] inline void rethrow_of_block(const data_error& e, const head_block blocks[2]) {
  const std::string text = e.what();
  const head_block& own = blocks[e.where().layer == 1 ? 1 : 0];
  throw data_error(text.substr(std::min(text.size(), text.find(": ") + 2)),
                   {0, own.first + e.where().head, e.where().row});
}

}  // namespace detail

/// Distances of all pairs of `heads` heads on one sentence, two blocks of heads at a time.
///   read(first, count) -> viewable (count,T,S), rows sum to 1: the maps of heads first .. first + count, as a view or an
///   owner of them; called once for every pair of blocks at most, two results are held at a time
///   out : (heads,heads), float or double, overwritten: what `pairwise` gives, in double to the bit
/// Memory besides out: two blocks of maps and O(block^2). Cost: that of `pairwise`; distances at sentence level, whose heads
/// are prepared for every pair of blocks, more than twice that.
/// Throws as `pairwise` (layer 0), shape_error for another shape of out or of a block, cancelled.
template <class Precision = void, host_backend Backend, detail::block_reader Read, distance_policy Distance, class Out>
void pairwise_by_blocks(Backend& be, index_t heads, const Read& read, const Distance& distance, tensor_view<Out, 2> out,
                        const block_options& options = {}) {
  using value = detail::block_element<Read>;
  using real = detail::precision_of<Precision, value>;
  if (options.block < 1)
    throw argument_error("pairwise_by_blocks: block is " + std::to_string(options.block) + ", expected 1 or more");
  if (heads < 1 || out.extent(0) != heads || out.extent(1) != heads)
    throw shape_error("pairwise_by_blocks: out is " + shape_text(out.shape()) + " for " + std::to_string(heads) +
                      " heads, expected (heads,heads)");
  const index_t block = std::min(options.block, heads);
  task_runner<Backend> tasks(be);
  typename detail::workspace_of<Distance, real>::type work;
  detail::sentence_maps maps;
  matrix found(std::min(2 * block, heads), std::min(2 * block, heads));
  const auto view_of = [](detail::block_of<Read>& maps_of_block, const detail::head_block& b) {
    const auto view = as_view(maps_of_block);
    detail::require_host_memory<decltype(view)>();
    if (view.extent(0) != b.count)
      throw shape_error("pairwise_by_blocks: heads " + std::to_string(b.first) + " to " +
                        std::to_string(b.first + b.count - 1) + " are " + shape_text(view.shape()) + ", expected (" +
                        std::to_string(b.count) + ",T,S)");
    return tensor_view<const value, 3>(view);
  };
  index_t done = 0;
  for (index_t first = 0; first < heads; first += block) {
    const detail::head_block left{first, std::min(block, heads - first)};
    detail::block_of<Read> left_maps = read(left.first, left.count);
    tensor_view<const value, 3> layers[2] = {view_of(left_maps, left), {}};
    const auto compare_with = [&](const detail::head_block& right, std::size_t parts) {
      if (options.progress && !options.progress(done++)) throw cancelled();
      const detail::head_block both[2] = {left, right};
      const index_t split = parts == 1 ? 0 : left.count, size = split + right.count;
      const head_layout layout(parts == 1 ? std::vector<index_t>{left.count}
                                          : std::vector<index_t>{left.count, right.count});
      try {
        maps.assign(layout, std::span<const tensor_view<const value, 3>>(layers, parts), options.sentence);
        if (maps.empty() || maps.queries() < detail::least_tokens(distance))
          throw shape_error(std::string(Distance::name) + ": maps " + shape_text(layers[0].shape()) + " have " +
                            std::to_string(maps.queries()) + " valid queries, expected at least " +
                            std::to_string(detail::least_tokens(distance)));
        const tensor_view<double, 2> to = found.view().narrow(0, 0, size).narrow(1, 0, size);
        if constexpr (requires { distance.template pairs<real>(tasks, maps, work, to, split); }) {
          distance.template pairs<real>(tasks, maps, work, to, split);
        } else {
          detail::all_pairs<real>(distance, tasks, maps, work, to);
        }
      } catch (const data_error& e) {
        detail::rethrow_of_block(e, both);
      } catch (const shape_error& e) {
        throw shape_error(detail::blocks_text(both) + e.what());
      } catch (const argument_error& e) {
        throw argument_error(detail::blocks_text(both) + e.what());
      }
      tasks.run_rows(left.count, [&](index_t i, int) {
        for (index_t j = 0; j < right.count; ++j)
          out(left.first + i, right.first + j) = static_cast<Out>(found(i, split + j));
      });
      if (parts == 2)
        tasks.run_rows(right.count, [&](index_t j, int) {
          for (index_t i = 0; i < left.count; ++i)
            out(right.first + j, left.first + i) = static_cast<Out>(found(i, split + j));
        });
    };
    compare_with(left, 1);
    for (index_t second = first + block; second < heads; second += block) {
      const detail::head_block right{second, std::min(block, heads - second)};
      detail::block_of<Read> right_maps = read(right.first, right.count);
      layers[1] = view_of(right_maps, right);
      compare_with(right, 2);
    }
  }
}

}  // namespace headred
