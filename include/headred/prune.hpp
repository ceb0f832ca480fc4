// Plans: which heads stay. Needs Eigen alone.
#pragma once

#include <headred/prune/keep_representatives.hpp>
#include <headred/prune/plan.hpp>
#include <headred/prune/plan_algebra.hpp>
#include <headred/prune/plan_layout.hpp>
#include <headred/prune/plan_overlap.hpp>
#include <headred/prune/plan_text.hpp>
#include <headred/prune/prune_unit.hpp>
#include <headred/prune/random_plan.hpp>
