// Sentences from .safetensors and .npy files, one after the other.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <headred/backend/cpu.hpp>
#include <headred/io/npy.hpp>
#include <headred/io/safetensors.hpp>

#include "one_line.hpp"

namespace examples {

/// The files that the paths name: a folder stands for its .safetensors and .npy files, by name. Throws file_error for a
/// folder that cannot be read, has no such file, or holds an earlier result.
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
      if (path.extension() == ".npy" && path.filename().string().starts_with("redundancy_"))
        throw headred::file_error(name, "the folder holds " + in_quotes(path.filename().string()) +
                                            ", so it is an earlier result; expected a folder of attention maps");
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
  std::error_code unknown;
  if (std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path, unknown) &&
      !std::filesystem::is_directory(path, unknown))  // that is told apart below
    throw headred::file_error(path.string(), "is no regular file, which is read more than once");
  if (path.extension() == ".safetensors") {
    const headred::safetensors_file file(path);
    return static_cast<headred::index_t>(file.header().tensors.size());
  }
  if (path.extension() != ".npy") throw headred::file_error(path.string(), "expected a .safetensors or .npy file");
  const headred::npy_header header = headred::read_npy_header(path);
  const bool batch = header.rank() == 5;
  // of so many sentences that nothing is said of each
  if (batch && header.shape[0] > 100000 &&
      std::find(header.shape.begin() + 1, header.shape.end(), 0) != header.shape.end())
    throw headred::file_error(path.string(), headred::shape_text(header.shape) + " holds no token");
  return batch ? header.shape[0] : 1;
}

/// What an error about a sentence says first: file and tensor.
struct sentence_name {
  std::string file, tensor;
  std::string text() const { return tensor.empty() ? file : file + ": " + tensor; }
};

namespace detail {

/// What one stored unit is worth: 1 for floating point, where none may be given; integers need the scale given or the
/// one that the file states.
inline double unit_of(headred::dtype type, std::optional<double> given, std::optional<double> stated,
                      const std::string& file, const std::string& what) {
  using enum headred::dtype;
  const std::string name(headred::to_string(type));
  if (type == f16 || type == bf16 || type == f32 || type == f64) {
    if (given) throw headred::file_error(file, what + " is " + name + ", which needs no --scale");
    return 1;
  }
  if (given) return *given;
  if (stated) return *stated;
  throw headred::file_error(file, what + " is stored as " + name + ": give its unit with --scale");
}

/// NAME.lengths.npy, beside NAME.npy
inline std::filesystem::path lengths_file(std::filesystem::path path) { return path.replace_extension(".lengths.npy"); }

/// Valid tokens of each sentence of a file of (B,L,H,T,S), from its lengths file.
inline std::vector<headred::index_t> read_lengths(headred::cpu& be, const std::filesystem::path& path,
                                                  const headred::shape_t<5>& shape) {
  using headred::index_t;
  std::vector<index_t> lengths(static_cast<std::size_t>(shape[0]), -1);
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

/// Throws where the last rows of a sentence are zero in every head: padding, of which nobody said so. advice: what to do.
template <class Real>
void check_not_padded(headred::tensor_view<const Real, 4> maps, const sentence_name& name, const std::string& advice) {
  using headred::index_t;
  const auto zero = [&](index_t row) {
    for (index_t l = 0; l < maps.extent(0); ++l)
      for (index_t h = 0; h < maps.extent(1); ++h)
        for (index_t k = 0; k < maps.extent(3); ++k)
          if (maps(l, h, row, k) != 0) return false;
    return true;
  };
  const index_t rows = maps.extent(2);
  index_t first = rows;
  while (first > 0 && maps.extent(0) * maps.extent(1) * maps.extent(3) > 0 && zero(first - 1)) --first;
  if (first == rows) return;
  const std::string last = std::to_string(rows - 1);
  throw headred::error(
      name.text() + ": " +
      (first + 1 == rows ? "row " + last + " is" : "rows " + std::to_string(first) + " to " + last + " are") +
      " zero in every head: " + advice);
}

}  // namespace detail

/// Calls f(maps (L,H,T,S) as Real, valid tokens or -1, name) for each sentence of a file.
/// Integers need a scale: the one given, or metadata "scale" of a safetensors file. Result: what a reader should know
/// about the file, or nothing.
template <class Real, class F>
std::string for_each_sentence(headred::cpu& be, const std::filesystem::path& path, std::optional<double> scale,
                              const F& f) {
  using headred::index_t;
  const std::string cut = "padding, cut the maps to their tokens";
  if (path.extension() == ".safetensors") {
    const headred::safetensors_file file(path);
    const std::optional<double> stated = file.metadata().contains("scale") ? std::optional(file.scale()) : std::nullopt;
    for (const headred::safetensors_info& tensor : file.header().tensors) {
      const std::string what = "tensor " + in_quotes(tensor.name);
      const double unit = detail::unit_of(tensor.type, scale, stated, path.string(), what);
      const auto maps = file.load<Real, 4>(be, tensor.name, unit);
      const sentence_name name{path.string(), what};
      detail::check_not_padded<Real>(maps.view(), name, cut);
      f(maps.view(), index_t{-1}, name);
    }
    return "";
  }
  const headred::npy_header header = headred::read_npy_header(path);
  const double unit = detail::unit_of(header.type, scale, std::nullopt, path.string(), "the array");
  if (header.rank() == 4) {
    const auto maps = headred::load_npy_as<Real, 4>(be, path, unit);
    const sentence_name name{path.string(), ""};
    detail::check_not_padded<Real>(maps.view(), name, cut);
    f(maps.view(), index_t{-1}, name);
  } else if (header.rank() == 5) {
    const auto maps = headred::load_npy_as<Real, 5>(be, path, unit);
    const std::filesystem::path beside = detail::lengths_file(path);
    const bool known = std::filesystem::exists(beside);
    std::vector<index_t> lengths(static_cast<std::size_t>(maps.extent(0)), -1);
    if (known) lengths = detail::read_lengths(be, beside, maps.shape());
    for (index_t s = 0; s < maps.extent(0); ++s) {
      const sentence_name name{path.string(), "sentence " + std::to_string(s)};
      if (!known)
        detail::check_not_padded(maps.view()[s], name, "give the valid tokens in " + beside.filename().string());
      f(maps.view()[s], lengths[static_cast<std::size_t>(s)], name);
    }
    if (known) return "";
    const index_t queries = maps.extent(3), keys = maps.extent(4);
    return "no " + one_line(beside.filename().string()) + ": all " +
           (queries == keys ? plural(queries, "token") : plural(queries, "query row") + " and " + plural(keys, "key")) +
           " of each sentence are taken";
  } else {
    throw headred::file_error(path.string(), "the array has rank " + std::to_string(header.rank()) +
                                                 ", expected 4 (L,H,T,S) or 5 (B,L,H,T,S)");
  }
  return "";
}

}  // namespace examples
