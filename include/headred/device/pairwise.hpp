// Distances of all pairs of heads whose maps lie on a device.
#pragma once

#include <cstdint>
#include <string>

#include <headred/backend/tensor.hpp>
#include <headred/core/matrix.hpp>
#include <headred/device/close_pairs.hpp>
#include <headred/device/pair_tiles.hpp>

namespace headred::device {
namespace detail {

/// Pieces of one allocation, each aligned to 256 bytes.
class carved_memory {
 public:
  explicit carved_memory(void* from) : at_(static_cast<std::byte*>(from)) {}
  template <class T>
  T* take(index_t count) {
    T* const p = reinterpret_cast<T*>(at_);
    at_ += bytes<T>(count);
    return p;
  }
  template <class T>
  static std::size_t bytes(index_t count) {
    return (static_cast<std::size_t>(count) * sizeof(T) + 255) / 256 * 256;
  }

 private:
  std::byte* at_;
};

struct broken_row_number {
  const int* kind;
  index_t rows;
  HEADRED_FUNCTION index_t operator()(index_t, index_t r) const { return kind[r] == broken_row ? r : rows; }
};
struct take_least {
  HEADRED_FUNCTION index_t operator()(index_t a, index_t b) const { return a < b ? a : b; }
};
struct store_number {
  index_t* to;
  HEADRED_FUNCTION void operator()(index_t, index_t value) const { *to = value; }
};

/// out(i,j) = out(j,i): the groups' sums, divided by the number of tokens.
struct mean_distance {
  const long long* partial;
  index_t groups, heads;
  double tokens;
  tensor_view<double, 2, device_space> out;
  HEADRED_FUNCTION void operator()(index_t at) const {
    const index_t i = at / heads, j = at % heads;
    double sum = 0;
    if (i != j)
      for (index_t g = 0; g < groups; ++g)
        sum += pair_sum::value(partial[(g * heads + (i < j ? i : j)) * heads + (i < j ? j : i)]);
    out(i, j) = sum / tokens;
  }
};

}  // namespace detail

/// Distances of all pairs of heads of one sentence, all on the device.
/// attention: (L,H,T,S), float or double, rows sum to 1 (deviations up to `sum_tolerance` are renormalised), padding cut
/// off by narrow(); out: (LH,LH), heads in the order layer * H + head, in [0,1], diagonal exactly 0, symmetric bits.
/// Degenerate rows as on the CPU: two zero rows are at 0, one at 1; a constant row is at 1/2 from another (pearson).
/// Groups of tokens in which a pair comes out close are recomputed in double. Throws data_error naming layer, head and
/// row; shape_error. Cost: (LH)^2/2 T S terms; scratch memory 16 (LH)^2 8 bytes of the backend's workspace.
template <class Rule, class T, device_backend Backend>
void pairwise(Backend& be, tensor_view<const T, 4, device_space> attention, const Rule&,
              tensor_view<double, 2, device_space> out, double sum_tolerance = 1e-2) {
  const index_t heads = attention.extent(0) * attention.extent(1), tokens = attention.extent(2);
  const auto fail = [](const std::string& what) { throw shape_error(std::string(Rule::name) + ": " + what); };
  if (attention.size() <= 0)
    fail("attention is " + shape_text(attention.shape()) + ", expected at least 1 valid token");
  if (out.extent(0) != heads || out.extent(1) != heads)
    fail("out is " + shape_text(out.shape()) + ", expected " + shape_text(shape_t<2>{heads, heads}));
  const index_t rows = heads * tokens, groups = detail::token_groups(tokens);
  if (heads > (index_t{1} << 20) || rows > (index_t{1} << 31) - 1 || attention.extent(3) > (index_t{1} << 31) - 64)
    fail("attention is " + shape_text(attention.shape()) + ", expected at most 2^20 heads, 2^31 rows and keys");

  using carved = detail::carved_memory;
  carved memory(be.workspace(3 * carved::bytes<double>(rows) + 3 * carved::bytes<T>(rows) + carved::bytes<int>(rows) +
                             carved::bytes<long long>(groups * heads * heads) + carved::bytes<index_t>(1)));
  detail::pair_memory<T> m{};
  m.sum = memory.take<double>(rows);
  m.shift = memory.take<double>(rows);
  m.scale = memory.take<double>(rows);
  m.first = memory.take<T>(rows);
  m.rest = memory.take<T>(rows);
  m.unit = memory.take<T>(rows);
  m.kind = memory.take<int>(rows);
  m.partial = memory.take<long long>(groups * heads * heads);
  m.groups = groups;
  index_t* const worst = memory.take<index_t>(1);

  be.launch(rows, detail::pair_rows_kernel<T, Rule>{attention, m, sum_tolerance});
  be.reduce(1, rows, rows, detail::broken_row_number{m.kind, rows}, detail::take_least{}, detail::store_number{worst});
  index_t broken = rows;
  be.download(&broken, worst, sizeof broken);
  if (broken < rows) {
    double sum = 0;
    be.download(&sum, m.sum + broken, sizeof sum);
    const index_t head = broken / tokens;
    throw data_error(
        "attention: the row has an entry that is no number >= 0, or sums to " + std::to_string(sum) + ", expected 1",
        {head / attention.extent(1), head % attention.extent(1), broken % tokens});
  }
  using tiles = detail::pair_tiles_kernel<T, Rule>;
  using close = detail::close_pairs_kernel<T, Rule>;
  be.launch(tiles::blocks(heads, groups), tiles{attention, m});
  be.launch(close::blocks(heads, groups), close{attention, m});
  be.for_each(heads * heads, detail::mean_distance{m.partial, groups, heads, static_cast<double>(tokens), out});
}

/// The same, with the result on the host.
template <class Rule, class T, device_backend Backend>
matrix pairwise(Backend& be, tensor_view<const T, 4, device_space> attention, const Rule& rule) {
  const index_t heads = attention.extent(0) * attention.extent(1);
  matrix result(heads, heads);
  tensor<double, 2, Backend> out(be, {heads, heads});
  device::pairwise(be, attention, rule, out.view());
  be.download(result.data(), out.data(), out.bytes());
  return result;
}

}  // namespace headred::device
