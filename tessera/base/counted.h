// Counts with their noun, for messages.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace tessera {

/// Returns "1 tensor", "2 tensors". The noun takes an "s".
inline std::string counted(std::integral auto n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

}  // namespace tessera
