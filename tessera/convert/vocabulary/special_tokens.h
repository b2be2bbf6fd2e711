// The ids of special tokens, and which of them a tokenizer adds to texts.
#pragma once

#include <span>
#include <string_view>

#include "tessera/convert/vocabulary/draft.h"
#include "tessera/convert/vocabulary/tokenizer_folder.h"

namespace tessera::convert {

/// A special token that configs name: bos_token in tokenizer_config.json, bos_token_id in config.json.
struct NamedSpecialToken {
  std::string_view name;
  text::SpecialToken which;
};
std::span<const NamedSpecialToken> named_special_tokens();

/// Sets the ids of special tokens. The first of these that knows one counts: the rules of the class of the model
/// (vocabulary_classes.def), tokenizer_config.json, config.json, the tokenizer's own file. Without BOS and EOS the
/// tokens cls and sep take their places. An id that is no token is left out, with a warning.
/// Error: format (an id in config.json that is no integer).
Result<> set_special_ids(const TokenizerFolder& folder, VocabularyDraft& draft);

/// Sets add_bos, add_eos and add_sep: as tokenizer_config.json says, else as the tokenizer's file. A token that is not
/// known is not added, with a warning. Call set_special_ids() before.
void set_added_ends(const TokenizerFolder& folder, VocabularyDraft& draft);

}  // namespace tessera::convert
