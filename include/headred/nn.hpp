// A compact Transformer with gates: run, train, decode.
#pragma once

#include <headred/nn/adam.hpp>
#include <headred/nn/clip_gradients.hpp>
#include <headred/nn/learning_rate.hpp>
#include <headred/nn/model_gates.hpp>
#include <headred/nn/op/softmax_cross_entropy.hpp>
#include <headred/nn/transformer.hpp>
#include <headred/nn/translation_grammar.hpp>
