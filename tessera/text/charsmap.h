// SentencePiece's compiled normalisation (tokenizer.ggml.precompiled_charsmap), which maps byte sequences to
// replacements. The blob consists of the length of a trie in bytes (u32, little-endian), the trie as a double array of
// u32 (Yata's darts-clone), and NUL-terminated strings. The blob is untrusted: every index is checked at its use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::text {

/// Longest byte sequence that is replaced as a whole. It bounds the work per byte (sequences in SentencePiece's own
/// maps are shorter than 20).
inline constexpr size_t kMaxReplacedBytes = 256;

class Charsmap {
 public:
  Charsmap() = default;  // replaces nothing

  /// Error: format, if the lengths in the blob do not match its size.
  static Result<Charsmap> create(std::span<const uint8_t> blob);

  struct Replacement {
    size_t n_bytes;  // of the text to replace
    std::string_view text;
  };

  /// Returns the replacement of the longest prefix of text that has one. n_bytes is 0 if there is none.
  Replacement find(std::string_view text) const;

 private:
  std::vector<uint32_t> trie_;
  std::string strings_;
};

}  // namespace tessera::text
