// U+2581, which represents a space in SentencePiece vocabularies. Shared by the tokenizers of such vocabularies.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/text/vocab.h"

namespace tessera::text {

inline constexpr std::string_view kSpaceSign = "\xE2\x96\x81";

/// Appends text with its spaces replaced by the sign.
void append_with_signs(std::string_view text, std::string& out);

/// Appends the bytes of a token of such a vocabulary. A byte token gives its byte. A token that spells text gives the
/// text with signs replaced by spaces. Any other token gives its stored text.
void append_signed_piece(const Vocab& vocab, int32_t id, std::string& out);

}  // namespace tessera::text
