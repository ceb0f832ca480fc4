// Torch tensors as views and the other way: what converts without a copy, what is refused and with which words.
#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>

#include <concepts>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>

#include <headred/backend/cpu.hpp>
#include <headred/backend/tensor.hpp>
#include <headred/core/matrix.hpp>
#include <headred/interop/dlpack.hpp>
#include <headred/interop/torch.hpp>

namespace {

namespace hr = headred;

bool all_well = true;

void check(const char* what, bool well) {
  std::cout << (well ? "ok    " : "WRONG ") << what << '\n';
  all_well = all_well && well;
}

template <class F>
void refuses(const char* what, const char* text, const F& f) {
  std::string said = "nothing";
  try {
    f();
  } catch (const hr::error& e) {
    said = e.what();
  }
  check(what, said == text);
  if (said != text) std::cout << "      said: " << said << '\n';
}

template <class A>
concept goes_out = requires(A&& a) { hr::to_torch(std::forward<A>(a)); };
using owned = hr::tensor<float, 2, hr::cpu>;
static_assert(goes_out<owned> && goes_out<hr::matrix> && goes_out<hr::tensor_view<float, 2>&>);
static_assert(!goes_out<owned&> && !goes_out<const owned> && !goes_out<const hr::matrix&>);

void in() {
  at::Tensor t = at::arange(24, at::kFloat).reshape({2, 3, 4});
  check("a view looks at torch's memory", &hr::torch_view<float, 3>(t)(1, 2, 3) == t.data_ptr<float>() + 23);
  const at::Tensor turned = t.permute({2, 0, 1}).slice(0, 1, 4, 2);
  check("strides are followed", hr::torch_view<const float, 3>(turned)(1, 1, 2) == turned[1][1][2].item<float>());
  check("expanded axes may be read",
        hr::torch_view<const float, 3>(at::ones({1, 3, 1}).expand({4, 3, 2}))(3, 2, 1) == 1);
  check("half", float(hr::torch_view<const hr::float16, 1>(at::full({2}, 1.5, at::kHalf))(1)) == 1.5f);
  check("bfloat16", float(hr::torch_view<const hr::bfloat16, 1>(at::full({2}, -3., at::kBFloat16))(0)) == -3.f);
  check("integers", hr::torch_view<const std::int32_t, 1>(at::arange(5, at::kInt))(4) == 4);
  check("no element", hr::torch_view<float, 2>(at::empty({0, 4})).empty());

  refuses("undefined", "torch_view: the tensor is undefined, expected one with memory",
          [] { hr::torch_view<const float, 1>(at::Tensor()); });
  refuses("another rank", "torch_view: the tensor has rank 3, expected 4", [&] { hr::torch_view<const float, 4>(t); });
  refuses("another dtype", "torch_view: the elements are Float, expected Double",
          [&] { hr::torch_view<const double, 3>(t); });
  refuses("sparse", "torch_view: the tensor is sparse or nested, expected a dense one",
          [] { hr::torch_view<const float, 2>(at::eye(3).to_sparse()); });
  refuses("no memory", "torch_view: the tensor lies on meta, expected host memory",
          [] { hr::torch_view<const float, 1>(at::empty({3}, at::device(at::kMeta))); });
  refuses("lazy negative", "torch_view: the tensor is a lazy negative, expected resolve_neg() of it",
          [] { hr::torch_view<const float, 1>(at::_neg_view(at::ones({3}))); });
  refuses("expanded, to write",
          "torch_view: the tensor is expanded along axis 0, expected const elements or a copy of it", [] {
            hr::torch_view<float, 2>(at::ones({1, 3}).expand({4, 3}));
          });
  refuses("recorded, to write",
          "torch_view: autograd records this tensor, expected const elements, or a guard against recording",
          [] { hr::torch_view<float, 1>(at::ones({3}).requires_grad_()); });

  const at::Tensor leaf = at::ones({3}).requires_grad_();
  const c10::NoGradGuard no_recording;
  hr::torch_view<float, 1>(leaf)(0) = 2;
  check("under a guard it may be written", leaf[0].item<float>() == 2);
  const auto version = t.unsafeGetTensorImpl()->version_counter().current_version();
  hr::torch_view<const float, 3>(t);
  check("reading is no change", t.unsafeGetTensorImpl()->version_counter().current_version() == version);
  hr::torch_view<float, 3>(t);
  check("writing is one", t.unsafeGetTensorImpl()->version_counter().current_version() == version + 1);
}

void autograd_notices() {
  const at::Tensor x = at::full({3}, 2.f).requires_grad_();
  at::Tensor y = x.exp();  // exp keeps its result for the way back
  const at::Tensor loss = y.sum();
  bool noticed = false;
  {
    const c10::NoGradGuard no_recording;
    hr::torch_view<float, 1>(y)(0) = 0;
  }
  try {
    loss.backward();
  } catch (const c10::Error&) {
    noticed = true;
  }
  check("autograd refuses to use what was changed since", noticed);
}

void out() {
  hr::cpu be{{.threads = 1}};
  owned mine(be, {2, 3});
  mine(1, 2) = 5;
  float* const memory = mine.data();
  {
    at::Tensor theirs = hr::to_torch(std::move(mine));
    check("torch owns the memory it is given", theirs.data_ptr<float>() == memory && mine.data() == nullptr);
    check("and its values", theirs.sum().item<float>() == 5 && theirs.is_contiguous());
    const at::Tensor part = theirs[1];
    theirs = at::Tensor();
    check("a part of it keeps the whole", part[2].item<float>() == 5);
  }
  hr::matrix d(2, 2);
  d(0, 1) = .25;
  check("a matrix", hr::to_torch(std::move(d))[0][1].item<double>() == .25);
  float values[6] = {0, 1, 2, 3, 4, 5};
  const at::Tensor lent = hr::to_torch(hr::tensor_view<float, 2>(values, {3, 2}, {1, 3}));
  check("a view is lent, with its strides", lent[2][1].item<float>() == 5 && lent.data_ptr<float>() == values);
  check("no element", hr::to_torch(owned(be, {0, 3})).numel() == 0);
  refuses("negative strides", "to_torch: the strides are (-3,1), expected none below 0", [&] {
    hr::to_torch(hr::tensor_view<float, 2>(values + 3, {2, 3}, {-3, 1}));
  });
}

/// The same through DLPack, with torch's own structs.
void dlpack() {
  const at::Tensor turned = at::arange(24, at::kFloat).reshape({2, 3, 4}).permute({2, 0, 1});
  {
    const hr::dlpack_pointer<DLManagedTensor> held(at::toDLPack(turned));
    check("torch's tensor through DLPack", hr::dlpack_view<const float, 3>(*held)(3, 1, 2) == 23);
    check("its memory", hr::dlpack_view<float, 3>(*held).data() == turned.data_ptr<float>());
  }
  hr::cpu be{{.threads = 1}};
  owned mine(be, {2, 3});
  mine(1, 2) = 5;
  float* const memory = mine.data();
  const at::Tensor theirs = at::fromDLPack(hr::to_dlpack<DLManagedTensor>(std::move(mine)).release());
  check("ours through DLPack", theirs.data_ptr<float>() == memory && theirs[1][2].item<float>() == 5);
}

}  // namespace

int main() {
  in();
  autograd_notices();
  out();
  dlpack();
  return all_well ? EXIT_SUCCESS : EXIT_FAILURE;
}
