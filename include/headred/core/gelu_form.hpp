// gelu_form: which of two functions gelu means.
#pragma once

namespace headred {

/// The two functions that go by this name.
enum class gelu_form {
  erf,   ///< x (1 + erf(x / sqrt 2)) / 2, Hugging Face's "gelu"
  tanh,  ///< x (1 + tanh(sqrt(2/pi) (x + .044715 x^3))) / 2, Hugging Face's "gelu_new" and "gelu_pytorch_tanh"
};

}  // namespace headred
