// Reads the chat template of a model from the metadata of its GGUF file. Used by the commands of conversations.
#pragma once

#include <optional>
#include <string>

#include "tessera/base/result.h"
#include "tessera/gguf/metadata.h"
#include "tessera/text/chat/chat_template.h"
#include "tessera/text/vocab.h"

namespace tessera {

/// Returns the source of the chat template in a file: the one for tools if `has_tools` and the file has one. Nothing if
/// the file has none. Errors: mismatch (the key is no string).
Result<std::optional<std::string>> load_chat_template(const Metadata& metadata, bool has_tools);

/// The texts of BOS and EOS, and whether the tokenizer adds them.
text::ChatTokens chat_tokens(const text::Vocab& vocab);

}  // namespace tessera
