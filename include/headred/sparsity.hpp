#pragma once

#include <headred/sparsity/attention_mask.hpp>
#include <headred/sparsity/gate_report.hpp>
#include <headred/sparsity/gumbel_sigmoid.hpp>
#include <headred/sparsity/hard_concrete.hpp>
#include <headred/sparsity/patterns.hpp>
#include <headred/sparsity/sparse_mask.hpp>
#include <headred/sparsity/target_sparsity.hpp>
#include <headred/sparsity/temperature.hpp>
