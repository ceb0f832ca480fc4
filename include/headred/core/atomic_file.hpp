// atomic_file: a file that appears under its name complete, or not at all.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#if __has_include(<unistd.h>)
#include <unistd.h>
#endif

#include <headred/core/error.hpp>

namespace headred {

/// Output file: bytes go to a temporary file in the same folder, and commit() flushes it to the disk and renames it.
///   Without commit() (an exception on the way) the temporary file is removed, and what lay under the name stays.
///   A symbolic link is followed, an existing file's permissions are kept. A device or pipe (/dev/stdout) is written to
///   directly, since replacing it would destroy it.
/// Every failure is a file_error with the file's name and the system's reason.
class atomic_file {
 public:
  /// Opens a temporary file beside the target, links followed. Throws file_error.
  explicit atomic_file(const std::filesystem::path& path) : name_(path.string()), target_(path) {
    std::error_code ignored;
    for (int hops = 0; std::filesystem::is_symlink(target_, ignored); ++hops) {
      std::error_code failed;
      if (hops == 40) failed = std::make_error_code(std::errc::too_many_symbolic_link_levels);
      const auto next = failed ? std::filesystem::path() : std::filesystem::read_symlink(target_, failed);
      if (failed) throw file_error(name_, "cannot be written: " + failed.message());
      target_ = target_.parent_path() / next;
    }
    const auto status = std::filesystem::status(target_, ignored);
    if (std::filesystem::is_directory(status)) throw file_error(name_, "cannot be written: it is a directory");
    if (target_.filename().empty()) throw file_error(name_, "cannot be written: the path names no file");
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
      stream_ = std::fopen(target_.string().c_str(), "wb");
      if (stream_ == nullptr) fail("cannot be opened for writing");
      return;
    }
    open_temporary();
    if (std::filesystem::exists(status)) {
      // where permissions do not exist the new file's stand
      std::filesystem::permissions(temporary_, status.permissions(), ignored);
    }
  }
  atomic_file(const atomic_file&) = delete;
  atomic_file& operator=(const atomic_file&) = delete;
  ~atomic_file() { discard(); }

  void write(std::span<const std::byte> bytes) {
    if (stream_ == nullptr) throw file_error(name_, "cannot be written: it was committed or has failed before");
    errno = 0;
    if (!bytes.empty() && std::fwrite(bytes.data(), 1, bytes.size(), stream_) != bytes.size())
      fail("cannot be written");
  }
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  /// Makes the file appear under its name; call once, last.
  void commit() {
    write(std::span<const std::byte>());
    errno = 0;
    if (std::fflush(stream_) != 0) fail("cannot be written");
#if __has_include(<unistd.h>)
    if (!temporary_.empty() && ::fsync(::fileno(stream_)) != 0) fail("cannot be flushed to the disk");
#endif
    if (std::fclose(std::exchange(stream_, nullptr)) != 0) fail("cannot be closed");
    if (temporary_.empty()) return;
    std::error_code failed;
    std::filesystem::rename(temporary_, target_, failed);
    if (failed) {
      errno = failed.value();
      fail("cannot be renamed from its temporary file");
    }
    temporary_.clear();
  }

 private:
  void open_temporary() {
    // The name does not contain the target's, which may be as long as a name can be.
    for (int attempt = 0; attempt < 100; ++attempt) {
      // put together anew: libstdc++ 12 crashes where replace_filename runs out of memory
      auto path = target_.parent_path() /
                  (".headred-" + std::to_string(std::chrono::steady_clock::now().time_since_epoch().count()) + ".tmp");
      errno = 0;
      stream_ = std::fopen(path.string().c_str(), "wbx");  // x: never an existing file
      if (stream_ != nullptr) {
        temporary_ = std::move(path);
        return;
      }
      if (errno != EEXIST) break;
    }
    fail("cannot be created");
  }

  [[noreturn]] void fail(const char* what) {
    const int reason = errno;
    discard();
    throw file_error(name_, std::string(what) + (reason != 0 ? ": " + std::generic_category().message(reason) : ""));
  }

  void discard() noexcept {
    if (stream_ != nullptr) std::fclose(std::exchange(stream_, nullptr));
    if (temporary_.empty()) return;
    std::error_code ignored;
    std::filesystem::remove(temporary_, ignored);
    temporary_.clear();
  }

  std::string name_;              // as the caller wrote it
  std::filesystem::path target_;  // with symbolic links resolved
  std::filesystem::path temporary_;
  std::FILE* stream_ = nullptr;
};

/// The whole file from a text, or from `write_to(atomic_file&)`: complete or not at all. Throws file_error.
inline void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  atomic_file file(path);
  file.write(text);
  file.commit();
}
/// The same from a callable that writes.
template <class WriteTo>
  requires requires(WriteTo& write_to, atomic_file& file) { write_to(file); }
void write_file_atomically(const std::filesystem::path& path, WriteTo&& write_to) {
  atomic_file file(path);
  write_to(file);
  file.commit();
}

}  // namespace headred
