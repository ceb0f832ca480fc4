// Sentences from .safetensors and .npy files, one after the other.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <headred/io/npy.hpp>
#include <headred/io/safetensors.hpp>

namespace examples {

/// The files that the paths name: a folder stands for its .safetensors and .npy files, by name.
inline std::vector<std::filesystem::path> attention_files(const std::vector<std::string>& paths) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (const std::string& name : paths) {
    if (!fs::is_directory(name)) {
      files.emplace_back(name);
      continue;
    }
    std::vector<fs::path> inside;
    for (const auto& entry : fs::directory_iterator(name)) {
      const fs::path& path = entry.path();
      const bool lengths = path.stem().extension() == ".lengths";
      if (path.extension() == ".safetensors" || (path.extension() == ".npy" && !lengths)) inside.push_back(path);
    }
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
    return static_cast<headred::index_t>(file.names().size());
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

/// Calls f(maps (L,H,T,S) as Real, valid tokens or -1, name) for each sentence of a file.
/// Integers need a scale: the one given, or metadata "scale" of a safetensors file.
template <class Real, class F>
void for_each_sentence(headred::cpu& be, const std::filesystem::path& path, std::optional<double> scale, const F& f) {
  using headred::index_t;
  const auto factor = [&](headred::dtype type, std::optional<double> stated, const std::string& tensor) {
    const bool real = type == headred::dtype::f16 || type == headred::dtype::bf16 || type == headred::dtype::f32 ||
                      type == headred::dtype::f64;
    if (scale) return *scale;
    if (stated && !real) return *stated;
    if (!real)
      throw headred::file_error(path.string(), tensor + "is stored as " + std::string(headred::to_string(type)) +
                                                   ": give its unit with --scale");
    return 1.0;
  };
  if (path.extension() == ".safetensors") {
    const headred::safetensors_file file(path);
    const bool stated = file.metadata().contains("scale");
    for (const std::string& name : file.names()) {
      const double unit = factor(file.info(name).type, stated ? std::optional(file.scale()) : std::nullopt, "tensor " + name + " ");
      const auto maps = file.load<Real, 4>(be, name, unit);
      f(maps.view(), index_t{-1}, sentence_name{path.string(), "tensor " + name});
    }
    return;
  }
  const headred::npy_header header = headred::read_npy_header(path);
  const double unit = factor(header.type, std::nullopt, "the array ");
  if (header.rank() == 4) {
    const auto maps = headred::load_npy_as<Real, 4>(be, path, unit);
    f(maps.view(), index_t{-1}, sentence_name{path.string(), ""});
  } else if (header.rank() == 5) {
    const auto maps = headred::load_npy_as<Real, 5>(be, path, unit);
    // valid tokens of each sentence: NAME.lengths.npy beside NAME.npy
    std::filesystem::path beside = path;
    beside.replace_extension(".lengths.npy");
    std::vector<index_t> lengths(static_cast<std::size_t>(maps.extent(0)), -1);
    if (std::filesystem::exists(beside)) {
      const auto stored = headred::load_npy_as<std::int64_t, 1>(be, beside);
      if (stored.extent(0) != maps.extent(0))
        throw headred::file_error(beside.string(), std::to_string(stored.extent(0)) + " lengths for " +
                                                       std::to_string(maps.extent(0)) + " sentences");
      for (index_t i = 0; i < stored.extent(0); ++i) {
        if (stored(i) < 0 || stored(i) > maps.extent(3))
          throw headred::file_error(beside.string(), "length " + std::to_string(i) + " is " + std::to_string(stored(i)) +
                                                         ", expected 0 to " + std::to_string(maps.extent(3)));
        lengths[static_cast<std::size_t>(i)] = static_cast<index_t>(stored(i));
      }
    }
    for (index_t s = 0; s < maps.extent(0); ++s)
      f(maps.view()[s], lengths[static_cast<std::size_t>(s)], sentence_name{path.string(), "sentence " + std::to_string(s)});
  } else {
    throw headred::file_error(path.string(), "the array has rank " + std::to_string(header.rank()) +
                                                 ", expected 4 (L,H,T,S) or 5 (B,L,H,T,S)");
  }
}

}  // namespace examples
