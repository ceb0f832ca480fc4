#pragma once

namespace c10 {
struct GradMode {
  static bool is_enabled();
};
}  // namespace c10
