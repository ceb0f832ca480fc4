// json_document: a parsed JSON text that can go where there is no memory.
#pragma once

#include <nlohmann/json.hpp>
#include <utility>

namespace headred::detail {

/// Owner of a parsed document. It is emptied from the inside out before it goes: json's own destructor asks for memory
/// to do so, and must not throw, so that a reader that runs out of memory would end the program.
class json_document {
 public:
  explicit json_document(nlohmann::json parsed) noexcept : root_(std::move(parsed)) {}
  json_document(const json_document&) = delete;
  json_document& operator=(const json_document&) = delete;
  ~json_document() { empty(root_); }

  const nlohmann::json& root() const noexcept { return root_; }

 private:
  // As deep as the text was nested, which its reader limits.
  static void empty(nlohmann::json& value) noexcept {
    if (!value.is_structured()) return;
    for (auto& item : value) empty(item);
    value.clear();
  }

  nlohmann::json root_;
};

}  // namespace headred::detail
