// libFuzzer target: any bytes are either refused with a file_error, or are an array whose every element can be read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include <headred/backend/cpu.hpp>
#include <headred/io/npy.hpp>

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

headred::cpu& backend() {
  static headred::cpu be{{.threads = 1}};
  return be;
}

template <class T, int Rank>
void load(std::span<const std::byte> bytes, const headred::npy_header& header) {
  try {
    const auto array = headred::load_npy_as<T, Rank>(backend(), bytes, "fuzz");
    require(static_cast<std::size_t>(array.size()) * headred::size_of(header.type) == header.data_size);
  } catch (const headred::file_error& e) {
    require(std::strstr(e.what(), "\n") == nullptr);
  }
}

template <int Rank>
void load_all(std::span<const std::byte> bytes, const headred::npy_header& header) {
  if (header.rank() != Rank) {
    bool refused = false;
    try {
      headred::load_npy_as<double, Rank>(backend(), bytes, "fuzz");
    } catch (const headred::file_error&) {
      refused = true;
    }
    require(refused);
    return;
  }
  load<float, Rank>(bytes, header);
  load<double, Rank>(bytes, header);
  load<std::int64_t, Rank>(bytes, header);
  load<std::uint8_t, Rank>(bytes, header);
  if (header.type != headred::dtype::f64) return;

  // what is written for the array says the same of it, and holds its elements
  const auto array = headred::load_npy<double, Rank>(backend(), bytes, "fuzz");
  const std::string prefix = headred::detail::npy_header_text<double>(array.shape());
  std::string copy = prefix;
  headred::detail::write_elements(array.view(), [&copy](std::span<const std::byte> piece) {
    copy.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  require(prefix.size() % 64 == 0);
  const auto again = headred::load_npy<double, Rank>(backend(), std::as_bytes(std::span(copy)), "fuzz");
  require(again.shape() == array.shape());
  require(array.size() == 0 || std::memcmp(again.data(), array.data(), array.bytes()) == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const headred::npy_header header = headred::read_npy_header(bytes, "fuzz");
    require(header.data_offset <= size && header.data_offset + header.data_size == size);
    load_all<1>(bytes, header);
    load_all<2>(bytes, header);
    load_all<3>(bytes, header);
    load_all<4>(bytes, header);
    load_all<5>(bytes, header);
  } catch (const headred::file_error& e) {
    require(std::strncmp(e.what(), "fuzz: ", 6) == 0 && std::strstr(e.what(), "\n") == nullptr);
  }
  return 0;
}
