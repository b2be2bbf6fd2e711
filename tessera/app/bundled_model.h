// The model that is part of the program, so that it shows something without any file: see data/README.md.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace tessera {

inline constexpr std::string_view kBundledModelName = "tales.gguf (bundled)";

/// The bytes of its GGUF file; they live as long as the program.
std::span<const std::byte> bundled_model();

}  // namespace tessera
