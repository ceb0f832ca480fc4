// Several output files that appear together or not at all.
#pragma once

#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#if __has_include(<sys/file.h>)
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#endif

#include <headred/core/error.hpp>

namespace examples {
namespace detail {

/// A folder that other processes keep out of; where the system has no such locks, `held` and `busy` are false.
class folder_lock {
 public:
  folder_lock() = default;
  folder_lock(const std::filesystem::path& folder, bool wait) {
#if __has_include(<sys/file.h>)
    descriptor_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    held_ = descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX | (wait ? 0 : LOCK_NB)) == 0;
    busy_ = descriptor_ >= 0 && !held_ && errno == EWOULDBLOCK;
#else
    (void)folder, (void)wait;
#endif
  }
  folder_lock(folder_lock&& other) noexcept { *this = std::move(other); }
  folder_lock& operator=(folder_lock&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(held_, other.held_);
    std::swap(busy_, other.busy_);
    return *this;
  }
  ~folder_lock() {
#if __has_include(<sys/file.h>)
    if (descriptor_ >= 0) ::close(descriptor_);
#endif
  }
  bool held() const { return held_; }
  /// Another process has it.
  bool busy() const { return busy_; }

 private:
  int descriptor_ = -1;
  bool held_ = false, busy_ = false;
};

}  // namespace detail

/// Where files lie until they are moved out.
inline constexpr std::string_view unfinished_prefix = ".unfinished-";

/// A message that names a file where it lies until it is moved out, with the name under which the user knows it.
inline std::string with_final_names(std::string text) {
  const std::string hidden = "/" + std::string(unfinished_prefix);
  for (std::size_t at = 0; (at = text.find(hidden, at)) != std::string::npos;) {
    const std::size_t end = text.find_first_not_of("0123456789", at + hidden.size());
    text.erase(at, (end == std::string::npos ? text.size() : end) - at);
  }
  return text;
}

/// Files are written to a hidden folder inside the output folder and moved out by commit(). Without it nothing is left
/// behind, an output folder that was made for the purpose included, and what lay there before stays as it was.
/// Several processes may write to one folder: the last to commit wins, whole. What a killed process left is cleaned up.
class output_folder {
 public:
  /// Throws file_error where the folder cannot be made or written.
  explicit output_folder(std::filesystem::path where) : where_(std::move(where)) {
    try {
      make(where_);
      const detail::folder_lock all(where_, true);
      if (all.held()) remove_abandoned();
      staging_ = where_ / (std::string(unfinished_prefix) + std::to_string(std::random_device{}()));
      if (!std::filesystem::create_directory(staging_)) throw headred::file_error(staging_.string(), "exists already");
      lock_ = detail::folder_lock(staging_, false);
    } catch (const std::filesystem::filesystem_error& problem) {
      undo();
      fail(where_, problem.code());
    }
  }
  ~output_folder() { undo(); }
  output_folder(const output_folder&) = delete;
  output_folder& operator=(const output_folder&) = delete;

  /// Where to write the file that will be called so.
  std::filesystem::path file(const std::string& name) {
    names_.push_back(name);
    return staging_ / name;
  }
  /// A file of an earlier result that has no successor in this one: it goes when commit() succeeds.
  void remove(const std::string& name) { obsolete_.push_back(name); }

  /// All files appear under their names, or none and file_error.
  void commit() {
    namespace fs = std::filesystem;
    const detail::folder_lock all(where_, true);
    const fs::path earlier = staging_ / "earlier";
    std::vector<std::pair<fs::path, fs::path>> moved;
    fs::path current = where_;
    const auto move = [&](const fs::path& from, const fs::path& to) {
      fs::rename(from, to);
      moved.emplace_back(from, to);
    };
    try {
      fs::create_directory(earlier);
      for (const auto* names : {&obsolete_, &names_})
        for (const std::string& name : *names) {
          current = where_ / name;
          if (fs::is_directory(current))
            throw headred::file_error(current.string(), "cannot be written: it is a folder");
          if (fs::exists(fs::symlink_status(current))) move(current, earlier / name);
          if (names == &names_) move(staging_ / name, current);
        }
    } catch (const std::exception& problem) {
      std::error_code ignored;
      for (auto step = moved.rbegin(); step != moved.rend(); ++step) fs::rename(step->second, step->first, ignored);
      if (const auto* reason = dynamic_cast<const fs::filesystem_error*>(&problem)) fail(current, reason->code());
      throw;
    }
    made_.clear();
    undo();
  }

 private:
  [[noreturn]] static void fail(const std::filesystem::path& path, std::error_code problem) {
    throw headred::file_error(path.string(), "cannot be written: " + problem.message());
  }
  void make(const std::filesystem::path& folder) {
    if (std::filesystem::is_directory(folder)) return;
    if (std::filesystem::exists(folder))
      throw headred::file_error(folder.string(), "cannot be written: it is not a folder");
    if (folder.has_parent_path() && folder.parent_path() != folder) make(folder.parent_path());
    if (std::filesystem::create_directory(folder)) made_.push_back(folder);
  }
  void remove_abandoned() const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(where_))
      if (entry.path().filename().string().starts_with(unfinished_prefix) && entry.is_directory())
        found.push_back(entry.path());
    std::error_code ignored;
    for (const auto& folder : found)
      if (const detail::folder_lock mine(folder, false); mine.held()) std::filesystem::remove_all(folder, ignored);
  }
  void undo() noexcept {
    std::error_code ignored;
    if (!staging_.empty()) std::filesystem::remove_all(staging_, ignored);
    staging_.clear();
    for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) std::filesystem::remove(*folder, ignored);
    made_.clear();
  }

  std::filesystem::path where_, staging_;
  detail::folder_lock lock_;                 // of staging_: its process lives
  std::vector<std::filesystem::path> made_;  // outermost first
  std::vector<std::string> names_, obsolete_;
};

}  // namespace examples
