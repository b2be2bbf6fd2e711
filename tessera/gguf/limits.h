// Limits of the GGUF reader. All are far above the values in real files. They ensure that a hostile file causes an
// error instead of excessive memory or time. Limits that the format itself defines are marked.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

inline constexpr uint32_t kGgufVersionWritten = 3;
inline constexpr uint32_t kGgufOldestVersionRead = 2;  // version 1 had 32-bit counts and lengths

inline constexpr uint64_t kGgufMaxKeyBytes = 65535;          // set by the format
inline constexpr uint64_t kGgufMaxTensorNameBytes = 63;      // ggml's names are 64 bytes with their NUL
inline constexpr uint64_t kGgufMaxStringBytes = 1u << 30;    // as llama.cpp
inline constexpr uint64_t kGgufMaxArrayElements = 1u << 30;  // as llama.cpp
inline constexpr size_t kGgufMaxArrayNesting = 4;            // an array of scalars has nesting 1
inline constexpr size_t kGgufMaxNestedArrays = 1u << 12;     // arrays inside arrays, in one file; no known file has any
inline constexpr uint64_t kGgufMaxKeys = 1u << 16;
inline constexpr uint64_t kGgufMaxTensors = 1u << 20;
inline constexpr uint64_t kGgufMaxSplitCount = 65535;  // split.count is a u16

inline constexpr uint64_t kGgufDefaultAlignment = 32;  // set by the format
inline constexpr uint64_t kGgufMinAlignment = 8;       // set by the format
inline constexpr uint64_t kGgufMaxAlignment = 1u << 20;

// Minimum size of an item in a file. Counts are compared with the bytes left before memory is reserved.
inline constexpr uint64_t kGgufMinKeyBytes = 8 + 1 + 4 + 1;         // length, one letter, type, a u8
inline constexpr uint64_t kGgufMinTensorBytes = 8 + 1 + 4 + 4 + 8;  // length, one letter, rank 0, type, offset

}  // namespace tessera
