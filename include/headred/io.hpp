// Arrays and plans as files. Models have headers of their own: io/load_transformer.hpp, io/save_transformer.hpp,
// io/checkpoint.hpp, io/vocabulary.hpp, io/parallel_text.hpp. Needs nlohmann-json beside Eigen.
#pragma once

#include <headred/core/atomic_file.hpp>
#include <headred/io/dtype.hpp>
#include <headred/io/mapped_file.hpp>
#include <headred/io/npy.hpp>
#include <headred/io/npy_header.hpp>
#include <headred/io/plan_json.hpp>
#include <headred/io/safetensors.hpp>
