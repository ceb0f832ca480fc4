// safetensors: reading from a file (mapped) or from a stream, and writing.
#pragma once

#include <headred/io/safetensors_file.hpp>
#include <headred/io/safetensors_header.hpp>
#include <headred/io/safetensors_stream.hpp>
#include <headred/io/save_safetensors.hpp>
