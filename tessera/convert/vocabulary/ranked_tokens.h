// Vocabularies that are ranks of byte strings: tekken.json, and the files of tiktoken.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/convert/vocabulary/draft.h"
#include "tessera/convert/vocabulary/tokenizer_folder.h"

namespace tessera::convert {

/// Whether a file has the form of tiktoken: its first line is a token in base64 and a number.
bool is_ranked_text(std::string_view bytes);

/// Bytes as code points of byte-level vocabularies (text/byte_signs.h).
std::string spell_bytes(std::string_view bytes);

struct RankedMerges {
  std::vector<std::string> merges{};
  size_t n_unreached = 0;  // tokens that merges of lower ranks do not leave in two parts
};

/// The merges of tokens, in the order of their ranks. A token splits into the two parts that merging by lower ranks
/// leaves of its bytes. An empty token is none. Errors: format (two equal tokens); limit (a token of more than 512
/// bytes, more than 16 MiB of tokens).
Result<RankedMerges> merges_of_ranks(const std::vector<std::string>& tokens);

/// Mistral's tekken.json. Nothing if the folder has none. Errors: format, limit; those of name_pre_tokenizer().
Result<std::optional<VocabularyDraft>> read_tekken(const TokenizerFolder& folder);

/// tiktoken.model, *.tiktoken or tokenizer.model. Nothing if the folder has none. Errors: format, limit; unsupported
/// (neither the class of the model nor an option names the pre-tokenizer).
Result<std::optional<VocabularyDraft>> read_tiktoken(const TokenizerFolder& folder);

}  // namespace tessera::convert
