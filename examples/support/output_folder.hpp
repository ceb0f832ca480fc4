// Several output files that appear together or not at all.
#pragma once

#include <filesystem>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <headred/core/error.hpp>

namespace examples {

/// Files are written to a hidden folder inside the output folder and moved out by commit(); without it nothing is left
/// behind, an output folder that was made for the purpose included.
class output_folder {
 public:
  explicit output_folder(std::filesystem::path where) : where_(std::move(where)), staging_(where_ / (".unfinished-" + std::to_string(std::random_device{}()))) {
    namespace fs = std::filesystem;
    std::error_code problem;
    for (fs::path p = where_.lexically_normal(); !p.empty() && !fs::exists(p, problem); p = p.parent_path())
      made_.push_back(p);
    problem.clear();
    fs::create_directories(staging_, problem);
    if (problem) {
      undo();
      throw headred::file_error(where_.string(), "cannot be written: " + problem.message());
    }
  }
  ~output_folder() {
    if (!committed_) undo();
  }
  output_folder(const output_folder&) = delete;
  output_folder& operator=(const output_folder&) = delete;

  /// Where to write the file that will be called so.
  std::filesystem::path file(const std::string& name) {
    names_.push_back(name);
    return staging_ / name;
  }
  void commit() {
    for (const std::string& name : names_) {
      std::error_code problem;
      std::filesystem::rename(staging_ / name, where_ / name, problem);
      if (problem) throw headred::file_error((where_ / name).string(), "cannot be written: " + problem.message());
    }
    std::error_code ignored;
    std::filesystem::remove_all(staging_, ignored);
    committed_ = true;
  }

 private:
  void undo() noexcept {
    std::error_code ignored;
    std::filesystem::remove_all(staging_, ignored);
    for (const auto& folder : made_) std::filesystem::remove(folder, ignored);
  }

  std::filesystem::path where_, staging_;
  std::vector<std::filesystem::path> made_;  // innermost first
  std::vector<std::string> names_;
  bool committed_ = false;
};

}  // namespace examples
