// Prompts of a request, in all the forms of llama-server: a text, ids, a mix of both, {"prompt_string": text}, or a
// list of these. Then their tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/server/json/field_reader.h"
#include "tessera/text/tokenizer.h"

namespace tessera::server {

/// A text, or consecutive ids.
using PromptPart = std::variant<std::string, std::vector<int32_t>>;
using PromptParts = std::vector<PromptPart>;

struct PromptLimits {
  size_t max_prompts = 2048;
  int64_t n_vocab = INT32_MAX;  // ids are below this
};

/// Reads the prompts of a value.
///   text, {"prompt_string"}           one prompt
///   list with a number in it          one prompt of ids, or of texts and ids
///   another list                      a prompt per element: text, object, list of texts and ids
/// Errors: 400 for other types, an id outside of the vocabulary, an empty list, multimodal_data, too many prompts.
FieldResult<std::vector<PromptParts>> read_prompts(const Json& value, std::string_view field,
                                                   const PromptLimits& limits);

/// The reading of special tokens that are spelled out in a text.
enum class SpecialText : uint8_t { parsed, plain };

/// The tokens of a prompt. BOS is added where the vocabulary adds it and the first part is a text.
///   field   path of the prompt for errors
/// Errors: 400 for no tokens, an id outside of the vocabulary, a text that it cannot spell; 501 without a vocabulary.
FieldResult<std::vector<int32_t>> tokenize_prompt(const PromptParts& prompt, const text::Tokenizer& tokenizer,
                                                  std::string_view field, SpecialText special = SpecialText::parsed);

}  // namespace tessera::server
