// tape: what a forward pass did, so that it can be walked backwards.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <headred/lrp/relevance_ledger.hpp>
#include <headred/lrp/relevance_rules.hpp>
#include <headred/lrp/relevance_workspace.hpp>
#include <headred/nn/arena.hpp>
#include <headred/nn/op/attention_workspace.hpp>
#include <headred/nn/sequence.hpp>

namespace headred {

/// Whether a tape can be walked back.
enum class tape_mode {
  inference,  ///< nothing is recorded; memory can be rewound
  recording,  ///< every op is recorded, every activation kept
};

/// Number of an activation on a tape.
struct slot {
  index_t number = -1;
  friend bool operator==(slot, slot) = default;
};

template <class T, backend Backend>
class relevance_sweep;

namespace detail {
/// Its address tells one type of node from another.
template <class Node>
inline constexpr char node_tag = 0;
/// Finds the relevance of this library's own ops. Complete in nn/op_relevance.hpp, which start_relevance.hpp includes:
/// programs that never sweep need not compile it.
template <class T, backend Backend>
struct op_relevance;
}  // namespace detail

/// The activations of one forward pass and the ops that made them. An activation is a matrix (rows, cols), addressed by
/// its slot. `backward` walks the ops from last to first; each adds to the gradients of its inputs and parameters.
/// A node (what `record` takes) is a small trivially copyable struct with a member `gradient(tape&) const`; for `sweep`
/// also `relevance(tape&, relevance_sweep&) const`, and a `name` and the slot `y` of its output for messages.
/// All memory is kept by `clear`: the same pass again allocates nothing. The backend must outlive the tape.
template <class T, backend Backend>
class tape {
 public:
  using value_type = T;
  using space = typename Backend::space;
  using view_type = tensor_view<T, 2, space>;
  using const_view_type = tensor_view<const T, 2, space>;

  /// An empty tape on this backend's memory.
  explicit tape(Backend& be, tape_mode mode = tape_mode::recording)
      : backend_(&be), memory_(be), relevance_memory_(be), mode_(mode) {}
  tape(tape&&) noexcept = default;
  tape& operator=(tape&&) noexcept = default;

  Backend& backend() const noexcept { return *backend_; }
  bool recording() const noexcept { return mode_ == tape_mode::recording; }

  /// Forgets everything but the memory.
  void clear(tape_mode mode) {
    activations_.clear();
    nodes_.clear();
    memory_.clear();
    relevance_memory_.clear();
    mode_ = mode;
  }
  /// The same, in the mode that it is in.
  void clear() { clear(mode_); }

  /// A new activation (rows, cols), uninitialised.
  slot add(index_t rows, index_t cols) {
    if (rows < 0 || cols < 0 || (cols > 0 && rows > limit / cols))
      throw shape_error("tape: an activation of shape " + shape_text(shape_t<2>{rows, cols}));
    activations_.push_back({rows, cols, memory_.template take<T>(rows * cols), nullptr, nullptr, nullptr, 0});
    return {static_cast<index_t>(activations_.size()) - 1};
  }
  /// The same with the rows of `x`, and its samples.
  slot add_like(slot x, index_t cols) {
    const activation from = at(x);
    const slot y = add(from.rows, cols);
    activations_.back().samples = from.samples;
    activations_.back().sample_count = from.sample_count;
    return y;
  }

  /// Which rows of an activation belong to one sample, for rules that rescale; none were named: all rows to one. Copied,
  /// by a tape that records.
  void set_samples(slot s, std::span<const sequence> samples) {
    if (!recording()) return;
    const index_t n = static_cast<index_t>(samples.size());
    sequence* const kept = keep<sequence>(n);
    for (index_t b = 0; b < n; ++b) kept[b] = samples[static_cast<std::size_t>(b)];
    at(s).samples = kept;
    at(s).sample_count = n;
  }
  std::span<const sequence> samples(slot s) const {
    return {at(s).samples, static_cast<std::size_t>(at(s).sample_count)};
  }

  /// An activation, to write and to read; valid until `clear` or `rewind`.
  view_type value(slot s) { return {at(s).value, {at(s).rows, at(s).cols}}; }
  const_view_type input(slot s) const { return {at(s).value, {at(s).rows, at(s).cols}}; }
  index_t rows(slot s) const { return at(s).rows; }
  index_t cols(slot s) const { return at(s).cols; }

  /// dLoss/dvalue of an activation, zero when first asked for.
  view_type gradient(slot s) {
    activation& a = at(s);
    if (a.gradient == nullptr && a.rows * a.cols > 0) {
      a.gradient = memory_.template take<T>(a.rows * a.cols);
      zero(a.gradient, a.rows * a.cols);
    }
    return {a.gradient, {a.rows, a.cols}};
  }
  /// The same, but uninitialised when first asked for: `fresh` then says so, and the caller writes every entry.
  view_type gradient_to_write(slot s, bool& fresh) {
    activation& a = at(s);
    fresh = a.gradient == nullptr;
    if (fresh) a.gradient = memory_.template take<T>(a.rows * a.cols);
    return {a.gradient, {a.rows, a.cols}};
  }
  /// Whether any gradient has reached this activation; a node whose output has none has nothing to pass on.
  bool has_gradient(slot s) const { return at(s).gradient != nullptr; }

  /// Relevance of an activation, of which `sweep` fills what the start reaches; zero when first asked for. Lives until
  /// `clear` or `clear_relevance`.
  view_type relevance(slot s) {
    bool fresh = false;
    const view_type r = relevance_to_write(s, fresh);
    if (fresh && r.data() != nullptr) zero(r.data(), r.size());
    return r;
  }
  view_type relevance_to_write(slot s, bool& fresh) {
    activation& a = at(s);
    fresh = a.relevance == nullptr;
    if (fresh) a.relevance = relevance_memory_.template take<T>(a.rows * a.cols);
    return {a.relevance, {a.rows, a.cols}};
  }
  /// Whether any relevance has reached this activation.
  bool has_relevance(slot s) const { return at(s).relevance != nullptr; }
  /// Forgets all relevance, so that another start can be set on the same recording.
  void clear_relevance() {
    for (activation& a : activations_) a.relevance = nullptr;
    relevance_memory_.clear();
  }

  /// Memory that lives as long as the recording: what an op keeps for its way back.
  template <class U = T>
  U* keep(index_t n) {
    return memory_.template take<U>(n);
  }

  /// Scratch memory of attention ops, whose calls on one tape follow one another.
  attention_workspace<T>& workspace() noexcept { return workspace_; }

  /// Adds an op, if the tape records.
  template <class Node>
  void record(const Node& node) {
    static_assert(std::is_trivially_copyable_v<Node> && sizeof(Node) <= sizeof(record_type::state));
    if (!recording()) return;
    record_type& r = nodes_.emplace_back();
    ::new (static_cast<void*>(r.state)) Node(node);
    r.gradient = [](tape& t, const void* state) { static_cast<const Node*>(state)->gradient(t); };
    r.tag = &detail::node_tag<Node>;
    if constexpr (requires { Node::relevance_by_sweep; })
      r.relevance = nullptr;  // one of ours, found by its tag
    else
      r.relevance = [](tape& t, const void* state, relevance_sweep<T, Backend>& sweep) {
        const Node& n = *static_cast<const Node*>(state);
        if constexpr (requires { n.relevance(t, sweep); }) {
          n.relevance(t, sweep);
        } else {
          std::string name = "an op without a name";
          if constexpr (requires { Node::name; }) name = Node::name;
          if constexpr (requires { t.has_relevance(n.y); })
            if (!t.has_relevance(n.y)) return;
          throw argument_error("sweep: " + name + " has no relevance, expected a start before it");
        }
      };
  }
  index_t recorded() const noexcept { return static_cast<index_t>(nodes_.size()); }

  /// Every recorded op's gradient, last to first. Seed the gradients of the outputs before. The recording stays: hooks
  /// can read activations and gradients afterwards. Throws argument_error on a tape that did not record.
  void backward() {
    if (!recording()) throw argument_error("tape: backward on a tape in inference mode, expected tape_mode::recording");
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) node->gradient(*this, node->state);
  }

  /// Every recorded op's relevance, last to first, by the rules; their accounts, if wanted, replace the ledger's
  /// entries. Set the start before: entries of the relevance of an activation (`start_relevance`). The recording and
  /// gradients stay as they are. Throws argument_error on a tape that did not record, for a rule that an op cannot
  /// follow, and for an op without relevance that the start reaches.
  void sweep(const relevance_rules<T>& rules, relevance_ledger* ledger = nullptr) {
    if (!recording()) throw argument_error("tape: sweep on a tape in inference mode, expected tape_mode::recording");
    if (ledger != nullptr) ledger->entries.clear();
    relevance_sweep<T, Backend> s(*this, rules, ledger, relevance_workspace_);
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node)
      if (node->relevance != nullptr)
        node->relevance(*this, node->state, s);
      else
        detail::op_relevance<T, Backend>::run(node->tag, node->state, *this, s);
  }

  /// Where the memory stands; `rewind` forgets the activations made since. For passes that record nothing.
  struct mark {
    typename arena<Backend>::mark memory;
    std::size_t activations = 0;
  };
  mark here() const { return {memory_.here(), activations_.size()}; }
  /// Throws argument_error on a tape that records.
  void rewind(const mark& to) {
    if (recording()) throw argument_error("tape: rewind of a recording");
    activations_.resize(to.activations);
    memory_.rewind(to.memory);
  }

  /// Bytes held from the backend.
  std::size_t bytes() const noexcept { return memory_.bytes() + workspace_.bytes() + relevance_bytes(); }
  /// Those of relevance and its scratch memory among them: none before the first sweep.
  std::size_t relevance_bytes() const noexcept { return relevance_memory_.bytes() + relevance_workspace_.bytes(); }

 private:
  static constexpr index_t limit = index_t{1} << 46;

  struct activation {
    index_t rows, cols;
    T* value;
    T* gradient;
    T* relevance;
    const sequence* samples;
    index_t sample_count;
  };
  struct record_type {
    alignas(std::max_align_t) std::byte state[640];
    void (*gradient)(tape&, const void*);
    void (*relevance)(tape&, const void*, relevance_sweep<T, Backend>&);
    const char* tag;
  };

  const activation& at(slot s) const {
    if (s.number < 0 || s.number >= static_cast<index_t>(activations_.size()))
      throw argument_error("tape: there is no activation " + std::to_string(s.number));
    return activations_[static_cast<std::size_t>(s.number)];
  }
  activation& at(slot s) { return const_cast<activation&>(static_cast<const tape*>(this)->at(s)); }

  struct zero_body {
    T* p;
    HEADRED_FUNCTION void operator()(index_t i) const { p[i] = T(0); }
  };
  void zero(T* p, index_t n) {
    if constexpr (host_backend<Backend>)
      std::memset(static_cast<void*>(p), 0, static_cast<std::size_t>(n) * sizeof(T));
    else
      backend_->for_each(n, zero_body{p});
  }

  Backend* backend_;
  arena<Backend> memory_, relevance_memory_;
  attention_workspace<T> workspace_;
  relevance_workspace<T> relevance_workspace_;
  tape_mode mode_;
  std::vector<activation> activations_;
  std::vector<record_type> nodes_;
};

}  // namespace headred
