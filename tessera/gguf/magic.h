// Distinguishes GGUF files from files that users often pass by mistake: other model formats and failed downloads.
// Called by the reader.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "tessera/base/result.h"

namespace tessera {

inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr size_t kGgufMagicBytes = kGgufMagic.size();

/// Fails unless the bytes start with "GGUF". The error names the format found and explains how to get a GGUF file.
Result<> check_gguf_magic(std::span<const std::byte> bytes);

}  // namespace tessera
