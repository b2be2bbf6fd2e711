// Tells a GGUF file from what users have in its place: other model formats, downloads that went wrong. Called
// by the reader.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "tessera/base/result.h"

namespace tessera {

inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr size_t kGgufMagicBytes = kGgufMagic.size();

/// An error unless the bytes start with "GGUF". It names the format found and says how to get a GGUF file.
Result<> check_gguf_magic(std::span<const std::byte> bytes);

}  // namespace tessera
