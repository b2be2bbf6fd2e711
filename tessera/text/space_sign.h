// U+2581, which SentencePiece's vocabularies have for a space. Shared by the tokenizers of such vocabularies.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/text/vocab.h"

namespace tessera::text {

inline constexpr std::string_view kSpaceSign = "\xE2\x96\x81";

/// Appends text with the sign for its spaces.
void append_with_signs(std::string_view text, std::string& out);

/// Appends what a token of such a vocabulary stands for: a byte token its byte, tokens that spell text their text with
/// spaces for the sign, others their text.
void append_signed_piece(const Vocab& vocab, int32_t id, std::string& out);

}  // namespace tessera::text
