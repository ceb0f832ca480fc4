// Views, the cpu backend, distances, clusters and plans. nn.hpp (models), sparsity.hpp (gates, masks), io.hpp (files) and
// report.hpp (a page) are doors of their own. Needs Eigen alone.
#pragma once

#include <headred/backend/cpu.hpp>
#include <headred/backend/tensor.hpp>
#include <headred/cluster.hpp>
#include <headred/core/as_view.hpp>
#include <headred/core/version.hpp>
#include <headred/distance.hpp>
#include <headred/prune.hpp>
