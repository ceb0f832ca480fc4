// What the tests of readers and writers share: a folder of their own, bytes written by hand, the text of an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <random>
#include <span>
#include <string>
#include <string_view>

#include <headred/backend/gemm_rows.hpp>
#include <headred/core/error.hpp>
#include <headred/core/view.hpp>

namespace headred_test {

// A new empty folder, removed with what is in it.
class temporary_folder {
 public:
  temporary_folder() {
    std::random_device random;
    path_ = std::filesystem::temp_directory_path() /
            ("headred-test-" + std::to_string(random()) + "-" + std::to_string(random()));
    std::filesystem::create_directory(path_);
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

  // How many files, hidden ones included, lie in it.
  std::ptrdiff_t count() const {
    return std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator());
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// The number's low bytes, first the lowest.
inline std::string little_endian(std::uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>((number >> (8 * i)) & 0xff);
  return text;
}

template <class T>
std::string raw_bytes(const T& value) {
  std::string text(sizeof(T), '\0');
  std::memcpy(text.data(), &value, sizeof(T));
  return text;
}

// The text of the file_error that the call throws.
template <class Call>
std::string file_error_text(const Call& call) {
  try {
    call();
  } catch (const headred::file_error& e) {
    return e.what();
  }
  return "no file_error was thrown";
}

// Host memory that is counted: how many bytes were asked for at most in one piece, and in all.
struct counting_backend {
  using space = headred::host_space;
  std::size_t largest = 0, total = 0;

  void* allocate(std::size_t bytes) {
    largest = bytes > largest ? bytes : largest;
    total += bytes;
    return ::operator new(bytes, std::align_val_t{64});
  }
  void deallocate(void* p, std::size_t) { ::operator delete(p, std::align_val_t{64}); }
  void upload(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  void synchronize() {}
  template <class T, class Space>
  void gemm(T alpha, headred::tensor_view<const T, 3, Space> a, headred::tensor_view<const T, 3, Space> b, T beta,
            headred::tensor_view<T, 3, Space> c) {
    headred::gemm_by_rows(*this, alpha, a, b, beta, c);
  }
  template <class F>
  void for_each(headred::index_t n, const F& f) {
    for (headred::index_t i = 0; i < n; ++i) f(i);
  }
  template <class T, class Term, class Combine, class Sink>
  void reduce(headred::index_t rows, headred::index_t cols, T init, const Term& term, const Combine& combine,
              const Sink& sink) {
    for (headred::index_t r = 0; r < rows; ++r) {
      T sum = init;
      for (headred::index_t c = 0; c < cols; ++c) sum = combine(sum, term(r, c));
      sink(r, sum);
    }
  }
};

// The same, posing as an accelerator: only upload and download may touch its memory.
struct pretended_device : counting_backend {
  using space = headred::device_space;
};

}  // namespace headred_test
