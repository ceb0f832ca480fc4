// fixed_masks: attention masks of zeros and ones that a model is used with, or trained under, without the work of their
// zeros.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include <headred/nn/forward_options.hpp>
#include <headred/nn/op/sparse_attention.hpp>

namespace headred {

/// Masks of zeros and ones for a model's passes, by kind and layer: give it to forward_options::attention. Wherever
/// `sparse_attention_pays`, attention goes to the ones alone, forward and back; elsewhere, and where a pass wants to
/// see probabilities, it is dense under the same mask. Results are those of forward_options::masks to rounding;
/// attention's dropout draws otherwise. Masks are listed once, those that are the same view once for all layers.
/// The masks' memory, and this, must outlive a recording. One pass at a time.
template <class T, host_backend Backend>
class fixed_masks final : public attention_path<T, Backend> {
 public:
  /// No layer is masked.
  fixed_masks() = default;
  /// Lists the masks as they are now; their gradients are not collected. Throws argument_error for an entry that is
  /// neither 0 nor 1, shape_error for an extent from 2^31 on. Cost: O(entries).
  fixed_masks(Backend& be, const model_masks<T, Backend>& masks) {
    for (const auto& [place, mask] : masks) {
      const tensor_view<const T, 3> view = mask.values;
      const auto alike = [&view](const listed& l) {
        return l.view.data() == view.data() && l.view.shape() == view.shape() && l.view.strides() == view.strides();
      };
      auto found = std::find_if(lists_.begin(), lists_.end(), alike);
      if (found == lists_.end()) found = lists_.insert(lists_.end(), listed{view, sparse_mask(be, view)});
      by_place_[place] = &*found;
    }
  }
  fixed_masks(const fixed_masks&) = delete;
  fixed_masks& operator=(const fixed_masks&) = delete;

  /// The ones of a layer's mask, or nullptr where it has none.
  const sparse_mask* find(attention_kind kind, index_t layer) const {
    const auto found = by_place_.find({kind, layer});
    return found == by_place_.end() ? nullptr : &found->second->ones;
  }

  attention_mask_view<T> mask(attention_kind kind, index_t layer) const override {
    const auto found = by_place_.find({kind, layer});
    return found == by_place_.end() ? attention_mask_view<T>{} : attention_mask_view<T>(found->second->view);
  }
  slot attend(tape<T, Backend>& t, const attention_call<T, Backend>& call, attention_kind kind,
              index_t layer) override {
    const sparse_mask* const ones = find(kind, layer);
    return ones == nullptr ? attention(t, call) : sparse_attention(t, call, *ones, workspace_);
  }

 private:
  struct listed {
    tensor_view<const T, 3> view;
    sparse_mask ones;
  };
  std::deque<listed> lists_;  // at one address each
  std::map<std::pair<attention_kind, index_t>, const listed*> by_place_;
  sparse_attention_workspace<T> workspace_;
};

}  // namespace headred
