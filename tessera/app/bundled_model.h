// The model inside the program. It allows a first run without any file. See data/README.md.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace tessera {

inline constexpr std::string_view kBundledModelName = "tales.gguf (bundled)";

/// The bytes of its GGUF file, valid for the lifetime of the program.
std::span<const std::byte> bundled_model();

}  // namespace tessera
