// Results of a study's runs, each in a file of its own, so that a study that was interrupted goes on.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <headred/core/atomic_file.hpp>
#include <headred/core/error.hpp>
#include <headred/io/fingerprint.hpp>
#include <headred/io/mapped_file.hpp>

#include <nlohmann/json.hpp>

#include "output_folder.hpp"

namespace examples {

/// What files hold; one that is not there counts as empty.
inline std::string fingerprint(const std::vector<std::filesystem::path>& files) {
  headred::detail::fingerprint all;
  for (const auto& file : files) {
    if (!std::filesystem::is_regular_file(file) || std::filesystem::file_size(file) == 0) {
      all.add({});
      continue;
    }
    const headred::mapped_file mapped(file);
    all.add(mapped.bytes());
  }
  return all.text();
}
/// The same of a model's folder.
inline std::string model_fingerprint(const std::filesystem::path& folder) {
  if (folder.empty()) return "";
  return fingerprint({folder / "config.json", folder / "model.safetensors", folder / "vocab.txt",
                      folder / "source_vocabulary.txt", folder / "target_vocabulary.txt"});
}

/// <name>.json in a folder, or nothing but the results in memory where there is no folder.
class kept_runs {
 public:
  using json = nlohmann::ordered_json;

  /// `settings` is what every run depends on, `program` the name of whose runs these are.
  kept_runs(std::string program, std::filesystem::path folder, json settings)
      : program_(std::move(program)), folder_(std::move(folder)), settings_(std::move(settings)) {
    if (folder_.empty()) return;
    std::error_code problem;
    std::filesystem::create_directories(folder_, problem);
    if (problem) throw headred::file_error(folder_.string(), "cannot be made: " + problem.message());
    // in a folder of its own: results may be put into the same folder, under its lock, while runs are kept
    std::filesystem::create_directory(folder_ / in_use, problem);
    lock_ = detail::folder_lock(folder_ / in_use, false);
    if (lock_.busy()) throw headred::file_error(folder_.string(), "is in use by another process");
  }

  ~kept_runs() {
    std::error_code ignored;
    if (lock_.held()) std::filesystem::remove(folder_ / in_use, ignored);
  }
  kept_runs(const kept_runs&) = delete;
  kept_runs& operator=(const kept_runs&) = delete;

  /// Where a run may keep files of its own.
  std::filesystem::path place(const std::string& name) const { return folder_ / name; }
  /// read(j) of the j in the file of that name if it is there, else of compute(), which is kept.
  /// Throws file_error for a file that is no run of these settings.
  template <class Read, class Compute>
  auto get(const std::string& name, const Read& read, const Compute& compute) const {
    return get(name, read, compute, [] { return true; });
  }
  /// The same; a run whose own files are not there, as whole() tells, is done again.
  template <class Read, class Compute, class Whole>
  auto get(const std::string& name, const Read& read, const Compute& compute, const Whole& whole) const {
    if (folder_.empty()) return read(compute());
    const std::filesystem::path file = folder_ / (name + ".json");
    if (!std::filesystem::exists(file)) keep(file, compute());
    const json found = result(file);
    if (whole()) return read_from(file, found, read);
    keep(file, compute());
    return read_from(file, result(file), read);
  }

 private:
  static constexpr const char* in_use = ".in_use";

  void keep(const std::filesystem::path& file, const json& result) const {
    headred::write_file_atomically(file, json{{"settings", settings_}, {"result", result}}.dump(1) + "\n");
  }
  json result(const std::filesystem::path& file) const {
    const headred::mapped_file mapped(file);
    const auto bytes = mapped.bytes();
    json document;
    try {
      const auto* const text = reinterpret_cast<const char*>(bytes.data());
      document = json::parse(text, text + bytes.size());
      if (document.at("settings") == settings_) return document.at("result");
    } catch (const nlohmann::json::exception&) {
      fail(file);
    }
    throw headred::file_error(file.string(), "is of a study with other settings, expected these: " + settings_.dump());
  }
  template <class Read>
  auto read_from(const std::filesystem::path& file, const json& result, const Read& read) const {
    try {
      return read(result);
    } catch (const nlohmann::json::exception&) {
      fail(file);
    }
  }
  [[noreturn]] void fail(const std::filesystem::path& file) const {
    throw headred::file_error(file.string(), "is no run of " + program_ + ", expected one or no such file");
  }

  std::string program_;
  std::filesystem::path folder_;
  json settings_;
  detail::folder_lock lock_;
};

}  // namespace examples
