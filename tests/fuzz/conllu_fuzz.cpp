// libFuzzer target: any text is either refused with a file_error of one line, or is sentences that are trees.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <headred/io/conllu.hpp>
#include <headred/io/frequency_list.hpp>

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void require_tree(const headred::conllu_sentence& s) {
  const auto words = static_cast<headred::index_t>(s.forms.size());
  require(words > 0 && s.heads.size() == s.forms.size() && s.relations.size() == s.forms.size());
  for (headred::index_t w = 0; w < words; ++w) {
    headred::index_t at = w, steps = 0;
    for (; at >= 0 && steps <= words; ++steps) {
      require(at < words);
      at = s.heads[static_cast<std::size_t>(at)];
    }
    require(at == -1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 1 << 16) return 0;  // walking up from every word is quadratic
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    headred::conllu_reader reader(text, "fuzz");
    while (const auto sentence = reader.next()) require_tree(*sentence);
  } catch (const headred::file_error& e) {
    require(std::strstr(e.what(), "\n") == nullptr);
  }
  try {
    const auto list = headred::parse_frequency_list(text, "fuzz");
    for (headred::index_t i = 0; i < list.size(); ++i)
      require(list.rank(list.entries()[static_cast<std::size_t>(i)].word) == i);
  } catch (const headred::file_error& e) {
    require(std::strstr(e.what(), "\n") == nullptr);
  }
  return 0;
}
