// Distances between attention heads and their redundancy matrices. Needs Eigen alone.
#pragma once

#include <headred/distance/bhattacharyya.hpp>
#include <headred/distance/bootstrap.hpp>
#include <headred/distance/canonical_correlation.hpp>
#include <headred/distance/chance_corrected.hpp>
#include <headred/distance/compare.hpp>
#include <headred/distance/cosine.hpp>
#include <headred/distance/distance_correlation.hpp>
#include <headred/distance/jensen_shannon.hpp>
#include <headred/distance/layer_gap.hpp>
#include <headred/distance/mantel.hpp>
#include <headred/distance/pairwise.hpp>
#include <headred/distance/pairwise_by_blocks.hpp>
#include <headred/distance/pearson.hpp>
#include <headred/distance/procrustes.hpp>
#include <headred/distance/redundancy.hpp>
#include <headred/distance/redundancy_state.hpp>
