// Sentences from .safetensors and .npy files, one after the other.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <headred/io/npy.hpp>
#include <headred/io/safetensors.hpp>

#include "one_line.hpp"

namespace examples {

/// The files that the paths name: a folder stands for its .safetensors and .npy files, by name.
inline std::vector<std::filesystem::path> attention_files(const std::vector<std::string>& paths) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (const std::string& name : paths) {
    std::error_code problem;
    if (!fs::is_directory(name, problem)) {
      files.emplace_back(name);
      continue;
    }
    std::vector<fs::path> inside;
    for (fs::directory_iterator entry(name, problem), end; !problem && entry != end; entry.increment(problem)) {
      const fs::path& path = entry->path();
      const bool lengths = path.stem().extension() == ".lengths";
      if (path.extension() == ".safetensors" || (path.extension() == ".npy" && !lengths)) inside.push_back(path);
    }
    if (problem) throw headred::file_error(name, "the folder cannot be read: " + problem.message());
    if (inside.empty()) throw headred::file_error(name, "the folder holds no .safetensors or .npy file");
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

/// Number of sentences in a file, from its header.
inline headred::index_t count_sentences(const std::filesystem::path& path) {
  if (path.extension() == ".safetensors") {
    const headred::safetensors_file file(path);
    return static_cast<headred::index_t>(file.header().tensors.size());
  }
  if (path.extension() != ".npy") throw headred::file_error(path.string(), "expected a .safetensors or .npy file");
  const headred::npy_header header = headred::read_npy_header(path);
  return header.rank() == 5 ? header.shape[0] : 1;
}

/// What an error about a sentence says first: file and tensor.
struct sentence_name {
  std::string file, tensor;
  std::string text() const { return tensor.empty() ? file : file + ": " + tensor; }
};

namespace detail {

/// What one stored unit is worth: 1 for floating point; integers need the scale given or the one that the file states.
inline double unit_of(headred::dtype type, std::optional<double> given, std::optional<double> stated,
                      const std::string& file, const std::string& what) {
  using enum headred::dtype;
  if (type == f16 || type == bf16 || type == f32 || type == f64) return 1;
  if (given) return *given;
  if (stated) return *stated;
  throw headred::file_error(
      file, what + " is stored as " + std::string(headred::to_string(type)) + ": give its unit with --scale");
}

/// Valid tokens of each sentence of NAME.npy (B,L,H,T,S) from NAME.lengths.npy; -1 (all) where that is not there.
inline std::vector<headred::index_t> read_lengths(headred::cpu& be, std::filesystem::path path,
                                                  const headred::shape_t<5>& shape) {
  using headred::index_t;
  std::vector<index_t> lengths(static_cast<std::size_t>(shape[0]), -1);
  path.replace_extension(".lengths.npy");
  if (!std::filesystem::exists(path)) return lengths;
  const auto stored = headred::load_npy_as<index_t, 1>(be, path);
  const index_t tokens = std::min(shape[3], shape[4]);
  if (stored.extent(0) != shape[0])
    throw headred::file_error(path.string(), "holds " + std::to_string(stored.extent(0)) + " lengths, expected " +
                                                 std::to_string(shape[0]) + ", one a sentence");
  for (index_t i = 0; i < shape[0]; ++i) {
    if (stored(i) < 0 || stored(i) > tokens)
      throw headred::file_error(path.string(), "length " + std::to_string(i) + " is " + std::to_string(stored(i)) +
                                                   ", expected 0 to " + std::to_string(tokens));
    lengths[static_cast<std::size_t>(i)] = stored(i);
  }
  return lengths;
}

}  // namespace detail

/// Calls f(maps (L,H,T,S) as Real, valid tokens or -1, name) for each sentence of a file.
/// Integers need a scale: the one given, or metadata "scale" of a safetensors file.
template <class Real, class F>
void for_each_sentence(headred::cpu& be, const std::filesystem::path& path, std::optional<double> scale, const F& f) {
  using headred::index_t;
  if (path.extension() == ".safetensors") {
    const headred::safetensors_file file(path);
    const std::optional<double> stated = file.metadata().contains("scale") ? std::optional(file.scale()) : std::nullopt;
    for (const headred::safetensors_info& tensor : file.header().tensors) {
      const std::string what = "tensor " + in_quotes(tensor.name);
      const double unit = detail::unit_of(tensor.type, scale, stated, path.string(), what);
      const auto maps = file.load<Real, 4>(be, tensor.name, unit);
      f(maps.view(), index_t{-1}, sentence_name{path.string(), what});
    }
    return;
  }
  const headred::npy_header header = headred::read_npy_header(path);
  const double unit = detail::unit_of(header.type, scale, std::nullopt, path.string(), "the array");
  if (header.rank() == 4) {
    const auto maps = headred::load_npy_as<Real, 4>(be, path, unit);
    f(maps.view(), index_t{-1}, sentence_name{path.string(), ""});
  } else if (header.rank() == 5) {
    const auto maps = headred::load_npy_as<Real, 5>(be, path, unit);
    const std::vector<index_t> lengths = detail::read_lengths(be, path, maps.shape());
    for (index_t s = 0; s < maps.extent(0); ++s)
      f(maps.view()[s], lengths[static_cast<std::size_t>(s)],
        sentence_name{path.string(), "sentence " + std::to_string(s)});
  } else {
    throw headred::file_error(path.string(), "the array has rank " + std::to_string(header.rank()) +
                                                 ", expected 4 (L,H,T,S) or 5 (B,L,H,T,S)");
  }
}

}  // namespace examples
