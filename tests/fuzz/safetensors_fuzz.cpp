// libFuzzer target: any bytes are either refused with a file_error, or are tensors whose every element can be read;
// the mapped and the streamed reader agree on both.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <sstream>
#include <string>

#include <headred/backend/cpu.hpp>
#include <headred/io/safetensors.hpp>

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

headred::cpu& backend() {
  static headred::cpu be{{.threads = 1}};
  return be;
}

template <class Call>
bool refused(const Call& call) {
  try {
    call();
  } catch (const headred::file_error& e) {
    require(std::strncmp(e.what(), "fuzz: ", 6) == 0 && std::strstr(e.what(), "\n") == nullptr);
    return true;
  }
  return false;
}

template <int Rank>
void load(const headred::safetensors_file& file, const headred::safetensors_info& t) {
  if (t.shape.size() != static_cast<std::size_t>(Rank)) return;
  const auto wide = file.load<double, Rank>(backend(), t.name);
  require(static_cast<std::size_t>(wide.size()) * headred::size_of(t.type) == t.end - t.begin);
  file.load<float, Rank>(backend(), t.name, 0.5);
  refused([&] { file.load<std::int32_t, Rank>(backend(), t.name); });
  refused([&] { file.view<float, Rank>(t.name); });
  refused([&] { file.view<std::uint8_t, Rank>(t.name); });
  require(refused([&] { file.load<double, Rank + 1>(backend(), t.name); }));
}

// Every tensor of rank 2 off the stream, the others skipped; true if the stream was refused somewhere.
bool read_streamed(const std::string& text, const headred::safetensors_file* file) {
  std::istringstream in(text);
  return refused([&] {
    headred::safetensors_stream stream(in, "fuzz");
    while (stream.next()) {
      if (stream.info().shape.size() != 2) continue;
      const auto streamed = stream.load<double, 2>(backend());
      if (file == nullptr) continue;
      const auto mapped = file->load<double, 2>(backend(), stream.info().name);
      require(mapped.shape() == streamed.shape());
      require(mapped.size() == 0 || std::memcmp(mapped.data(), streamed.data(), mapped.bytes()) == 0);
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const bool bad = refused([&] {
    const headred::safetensors_file file(std::as_bytes(std::span(data, size)), "fuzz");
    std::size_t position = file.header().data_offset;
    for (const auto& t : file.header().tensors) {
      require(file.header().find(t.name) == &t);
      require(file.bytes(t.name).data() == reinterpret_cast<const std::byte*>(data) + position);
      position += file.bytes(t.name).size();
      load<1>(file, t);
      load<2>(file, t);
      load<3>(file, t);
      load<4>(file, t);
      load<5>(file, t);
    }
    require(position == size);
    refused([&] { require(file.scale() > 0); });
    require(!read_streamed(text, &file));
  });
  require(!bad || read_streamed(text, nullptr));
  return 0;
}
