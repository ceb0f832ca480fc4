// Clusters of heads on a redundancy matrix. Needs Eigen alone.
#pragma once

#include <headred/cluster/affinity.hpp>
#include <headred/cluster/auto_clusters.hpp>
#include <headred/cluster/cluster_count.hpp>
#include <headred/cluster/clustering.hpp>
#include <headred/cluster/hierarchical_order.hpp>
#include <headred/cluster/kmeans.hpp>
#include <headred/cluster/leading_embedding.hpp>
#include <headred/cluster/representatives.hpp>
#include <headred/cluster/silhouette.hpp>
#include <headred/cluster/spectral.hpp>
