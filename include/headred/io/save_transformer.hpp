// save_transformer: a model into a folder, so that it can be loaded with nothing but its files.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <headred/core/atomic_file.hpp>
#include <headred/io/fingerprint.hpp>
#include <headred/io/parameter_shapes.hpp>
#include <headred/io/save_safetensors.hpp>
#include <headred/io/transformer_config_json.hpp>

namespace headred {
namespace detail {

/// Two files of a folder that are replaced together. Both are written in a temporary folder beside them first.
/// What undoes and what moves allocates nothing: a program that runs out of memory leaves no half either.
class staged_pair {
 public:
  explicit staged_pair(std::filesystem::path directory) : directory_(std::move(directory)) {
    std::error_code failed;
    created_ = std::filesystem::create_directories(directory_, failed);
    try {
      if (failed || !std::filesystem::is_directory(directory_))
        throw file_error(directory_.string(), "is no folder and cannot be made one" + reason(failed));
      for (int attempt = 0; attempt < 100; ++attempt) {
        auto path =
            directory_ / (".headred-" + std::to_string(std::chrono::steady_clock::now().time_since_epoch().count()));
        if (std::filesystem::create_directory(path, failed)) {
          staging_ = std::move(path);
          return;
        }
        if (failed) break;
      }
      throw file_error(directory_.string(), "cannot be written to" + reason(failed));
    } catch (...) {
      clean_up();
      throw;
    }
  }
  staged_pair(const staged_pair&) = delete;
  staged_pair& operator=(const staged_pair&) = delete;
  ~staged_pair() { clean_up(); }

  /// write(path) is to write the file, whole and flushed, in the temporary folder; errors name the place it is meant
  /// for.
  template <class Write>
  void stage(const char* name, const Write& write) {
    staged_.push_back(staging_ / name);
    try {
      write(staged_.back());
    } catch (const file_error& problem) {
      throw file_error((directory_ / name).string(), std::string(problem.what()).substr(problem.file().size() + 2));
    }
    std::error_code ignored;  // where permissions do not exist the new file's stand
    const auto old = std::filesystem::status(directory_ / name, ignored);
    if (std::filesystem::is_regular_file(old)) std::filesystem::permissions(staged_.back(), old.permissions(), ignored);
  }

  /// Moves `first`, then `second` into place; where the second cannot follow, the first is undone.
  void install(const char* first, const char* second) {
    const auto kept = staging_ / "replaced", new_first = staging_ / first, new_second = staging_ / second;
    const auto to_first = directory_ / first, to_second = directory_ / second;
    staged_.push_back(kept);
    std::error_code failed, ignored;
    const bool replaces = std::filesystem::exists(to_first, ignored);
    if (replaces) std::filesystem::create_hard_link(to_first, kept, ignored);
    std::filesystem::rename(new_first, to_first, failed);
    if (failed) fail(first, failed);
    std::filesystem::rename(new_second, to_second, failed);
    if (failed) {
      if (replaces)
        std::filesystem::rename(kept, to_first, ignored);
      else
        std::filesystem::remove(to_first, ignored);
      fail(second, failed);
    }
    created_ = false;
  }

 private:
  static std::string reason(const std::error_code& code) { return code ? ": " + code.message() : std::string(); }
  [[noreturn]] void fail(const char* name, const std::error_code& code) const {
    throw file_error((directory_ / name).string(), "cannot be replaced" + reason(code));
  }
  void clean_up() noexcept {
    std::error_code ignored;
    for (const auto& path : staged_) std::filesystem::remove(path, ignored);
    if (!staging_.empty()) std::filesystem::remove(staging_, ignored);
    if (created_) std::filesystem::remove(directory_, ignored);  // only if it is empty
  }

  std::filesystem::path directory_, staging_;
  std::vector<std::filesystem::path> staged_;  // what may lie in staging_
  bool created_ = false;
};

/// The parameters as tensors for a file.
template <class T, host_backend Backend>
std::vector<safetensors_entry> weight_entries(const transformer_weights<T, Backend>& weights) {
  std::vector<safetensors_entry> entries;
  visit_parameters(weights, [&](const std::string& name, const auto& parameter) {
    entries.emplace_back(name, parameter.value.view());
  });
  return entries;
}
/// The same from any memory, by way of `copies`, which must live as long as the result.
template <class T, backend Backend>
std::vector<safetensors_entry> weight_entries(Backend& be, const transformer_weights<T, Backend>& weights,
                                              std::list<std::vector<T>>& copies) {
  std::vector<safetensors_entry> entries;
  visit_parameters(weights, [&](const std::string& name, const auto& parameter) {
    constexpr int rank = std::remove_cvref_t<decltype(parameter)>::view_type::rank;
    auto& host = copies.emplace_back(static_cast<std::size_t>(parameter.value.size()));
    if (!host.empty()) be.download(host.data(), parameter.value.data(), parameter.value.bytes());
    entries.emplace_back(name, tensor_view<const T, rank>(host.data(), parameter.value.shape()));
  });
  be.synchronize();
  return entries;
}

inline void require_same_shapes(const std::vector<parameter_shape>& found,
                                const std::vector<parameter_shape>& expected) {
  for (std::size_t i = 0; i < found.size() || i < expected.size(); ++i) {
    if (i < found.size() && i < expected.size() && found[i] == expected[i]) continue;
    const bool same_name = i < found.size() && i < expected.size() && found[i].name == expected[i].name;
    if (same_name)
      throw shape_error("save_transformer: " + found[i].name + " has shape " + shape_text(found[i].shape) +
                        ", expected " + shape_text(expected[i].shape) + " by the configuration");
    throw shape_error("save_transformer: the weights are not those of the configuration: found " +
                      (i < found.size() ? found[i].name : "nothing more") + ", expected " +
                      (i < expected.size() ? expected[i].name : "nothing more"));
  }
}

inline void save_model_files(const std::filesystem::path& directory, transformer_document document,
                             const std::vector<safetensors_entry>& entries) {
  fingerprint saved;
  const std::string text = to_json_text(document);
  saved.add(std::as_bytes(std::span(text)));
  for (const auto& entry : entries) entry.write_to([&](std::span<const std::byte> bytes) { saved.add(bytes); });
  document.saved = saved.text();
  staged_pair files(directory);
  files.stage("model.safetensors", [&](const std::filesystem::path& path) {
    save_safetensors(path, entries, {{"format", "headred"}, {"saved", document.saved}});
  });
  files.stage("config.json",
              [&](const std::filesystem::path& path) { write_file_atomically(path, to_json_text(document)); });
  files.install("model.safetensors", "config.json");
}

}  // namespace detail

/// Writes config.json (see to_json_text) and model.safetensors (the names of visit_parameters, T's own type) into a
/// folder, which is made if need be; load_transformer gives the parameters back bit by bit. Equal input, equal bytes.
///   Both files are written and flushed elsewhere in the folder before either is replaced: an exception (a full disk)
///   leaves what lay there. The weights are put in place first, so that a folder with a config.json has its weights;
///   both carry a fingerprint of the save, by which load_transformer refuses a pair that a crash in between left
///   behind.
/// Throws file_error where something cannot be written, argument_error for an impossible configuration, shape_error
/// where the weights are not those of the configuration.
template <class T, host_backend Backend>
void save_transformer(const std::filesystem::path& directory, const transformer_config& config,
                      const transformer_weights<T, Backend>& weights,
                      const std::optional<prune_plan>& plan = std::nullopt) {
  detail::require_same_shapes(detail::shapes_of(weights), detail::parameter_shapes(config));
  detail::save_model_files(directory, {config, plan, ""}, detail::weight_entries(weights));
}
/// The same from any memory.
template <class T, backend Backend>
void save_transformer([[maybe_unused]] Backend& be, const std::filesystem::path& directory,
                      const transformer_config& config, const transformer_weights<T, Backend>& weights,
                      const std::optional<prune_plan>& plan = std::nullopt) {
  if constexpr (host_backend<Backend>) {
    save_transformer(directory, config, weights, plan);
  } else {
    detail::require_same_shapes(detail::shapes_of(weights), detail::parameter_shapes(config));
    std::list<std::vector<T>> copies;
    detail::save_model_files(directory, {config, plan, ""}, detail::weight_entries(be, weights, copies));
  }
}

}  // namespace headred
