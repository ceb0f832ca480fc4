// mapped_file: the bytes of a file, mapped into memory where the system can.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#if __has_include(<sys/mman.h>)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#include <headred/core/error.hpp>

namespace headred {
namespace detail {

struct close_stream {
  void operator()(std::FILE* stream) const noexcept { std::fclose(stream); }
};

[[noreturn]] inline void fail_reading(const std::string& name, const char* what, int reason) {
  throw file_error(name, std::string(what) + ": " + std::generic_category().message(reason));
}

/// The bytes of a file or pipe in memory, which grows with what arrives, never with what a header promises.
inline std::vector<std::byte> read_whole_file(const std::string& name) {
  errno = 0;
  const std::unique_ptr<std::FILE, close_stream> stream(std::fopen(name.c_str(), "rb"));
  if (stream == nullptr) fail_reading(name, "cannot be opened", errno);
  std::vector<std::byte> bytes;
  std::size_t filled = 0;
  do {
    if (filled == bytes.size()) bytes.resize(filled < (1u << 16) ? (1u << 16) : 2 * filled);
    filled += std::fread(bytes.data() + filled, 1, bytes.size() - filled, stream.get());
  } while (filled == bytes.size());
  if (std::ferror(stream.get()) != 0) fail_reading(name, "cannot be read", errno);
  bytes.resize(filled);
  return bytes;
}

}  // namespace detail

/// Read-only bytes of a file, for as long as the object lives. Move-only; moving leaves bytes() where they are.
///   Regular files are mapped (POSIX), their pages read when touched; pipes, and files of systems without mapping, are
///   read into memory. The file must not be cut short by others while it is mapped.
/// Throws file_error for a file that is missing, unreadable, a directory or a device.
class mapped_file {
 public:
  mapped_file() = default;
  explicit mapped_file(const std::filesystem::path& path) : name_(path.string()) {
    std::error_code failed;
    const auto status = std::filesystem::status(path, failed);
    // in this order: for a missing file some systems report an error as well
    if (status.type() == std::filesystem::file_type::not_found) throw file_error(name_, "does not exist");
    if (failed) throw file_error(name_, "cannot be opened: " + failed.message());
    if (std::filesystem::is_directory(status)) throw file_error(name_, "is a directory, expected a file");
    if (!std::filesystem::is_regular_file(status) && !std::filesystem::is_fifo(status))
      throw file_error(name_, "is neither a regular file nor a pipe");
#if __has_include(<sys/mman.h>)
    if (std::filesystem::is_regular_file(status) && map()) return;
#endif
    content_ = detail::read_whole_file(name_);
    bytes_ = content_;
  }
  mapped_file(mapped_file&& other) noexcept { swap(other); }
  mapped_file& operator=(mapped_file&& other) noexcept {
    mapped_file(std::move(other)).swap(*this);
    return *this;
  }
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;
  ~mapped_file() {
#if __has_include(<sys/mman.h>)
    if (mapping_ != nullptr) ::munmap(mapping_, bytes_.size());
#endif
  }

  const std::string& name() const noexcept { return name_; }
  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  std::size_t size() const noexcept { return bytes_.size(); }

  void swap(mapped_file& other) noexcept {
    std::swap(name_, other.name_);
    std::swap(content_, other.content_);
    std::swap(mapping_, other.mapping_);
    std::swap(bytes_, other.bytes_);
  }

 private:
#if __has_include(<sys/mman.h>)
  /// False where this file cannot be mapped (empty, or a file system without mapping), so that it is read instead.
  bool map() {
    const int descriptor = ::open(name_.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) detail::fail_reading(name_, "cannot be opened", errno);
    struct ::stat about {};
    const bool sized = ::fstat(descriptor, &about) == 0 && about.st_size > 0;
    const auto size = sized ? static_cast<std::size_t>(about.st_size) : 0;
    void* memory = sized ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0) : MAP_FAILED;
    ::close(descriptor);
    if (memory == MAP_FAILED) return false;
    mapping_ = memory;
    bytes_ = {static_cast<const std::byte*>(memory), size};
    return true;
  }
#endif

  std::string name_;
  std::vector<std::byte> content_;  // empty if mapped
  void* mapping_ = nullptr;
  std::span<const std::byte> bytes_;
};

}  // namespace headred
