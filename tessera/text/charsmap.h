// SentencePiece's compiled normalisation (tokenizer.ggml.precompiled_charsmap): which bytes a text has in place of
// others. The blob is the length of a trie in bytes (u32, little-endian), the trie as a double array of u32 (Yata's
// darts-clone), and strings that end with NUL. It comes from a file: every index is checked where it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::text {

/// A longer run of bytes is never replaced as one: it bounds the work per byte (SentencePiece's own are below 20).
inline constexpr size_t kMaxReplacedBytes = 256;

class Charsmap {
 public:
  Charsmap() = default;  // replaces nothing

  /// Error: format for a blob whose lengths do not fit it.
  static Result<Charsmap> create(std::span<const uint8_t> blob);

  struct Replacement {
    size_t n_bytes;  // of the text that is replaced
    std::string_view text;
  };

  /// What stands for the longest beginning of text that has a replacement; n_bytes 0: nothing does.
  Replacement find(std::string_view text) const;

 private:
  std::vector<uint32_t> trie_;
  std::string strings_;
};

}  // namespace tessera::text
