// As much of LibTorch as <headred/interop/torch.hpp> names, for pairs that are compiled where torch is not. Declared, not
// defined: nothing here runs. examples/torch is built with the real one.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace c10 {
enum class ScalarType { Float, Double, Half, BFloat16 };
template <class T>
struct CppTypeToScalarType;
template <>
struct CppTypeToScalarType<float> {
  static constexpr ScalarType value = ScalarType::Float;
};
template <>
struct CppTypeToScalarType<double> {
  static constexpr ScalarType value = ScalarType::Double;
};
const char* toString(ScalarType);
}  // namespace c10

namespace at {
using c10::ScalarType;
enum class Layout { Strided, Sparse };
inline constexpr Layout kStrided = Layout::Strided;
struct Device {
  bool is_cpu() const;
  std::string str() const;
};
struct TensorImpl {
  void bump_version();
};
using IntArrayRef = std::vector<std::int64_t>;
struct Tensor {
  bool defined() const, is_nested() const, is_neg() const, is_inference() const, requires_grad() const;
  Layout layout() const;
  Device device() const;
  ScalarType scalar_type() const;
  std::int64_t dim() const, size(std::int64_t) const, stride(std::int64_t) const;
  const IntArrayRef &sizes() const, &strides() const;
  TensorImpl* unsafeGetTensorImpl() const;
  void* data_ptr() const;
};
struct TensorOptions {
  TensorOptions dtype(ScalarType) const;
};
}  // namespace at
