// A compact Transformer with gates: run, train, decode.
#pragma once

#include <headred/backend/cpu.hpp>
#include <headred/nn/adam.hpp>
#include <headred/nn/batch_order.hpp>
#include <headred/nn/batches.hpp>
#include <headred/nn/beam_search.hpp>
#include <headred/nn/greedy.hpp>
#include <headred/nn/initialize.hpp>
#include <headred/nn/learning_rate.hpp>
#include <headred/nn/model_cost.hpp>
#include <headred/nn/progress.hpp>
#include <headred/nn/start_relevance.hpp>
#include <headred/nn/training_step.hpp>
#include <headred/nn/transformer.hpp>
#include <headred/nn/translation_grammar.hpp>
#include <headred/nn/uniform_config.hpp>
