// The pre-tokenizer of a tokenizer.json as a list of steps, and its name in GGUF files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/json/json.h"

namespace tessera::convert {

struct PreStep {
  std::string form{};   // as in vocabularies.def
  std::string shown{};  // for messages
};

struct PreTokenizerSteps {
  std::vector<PreStep> steps{};
  bool has_byte_level = false;
  std::optional<bool> adds_space{};  // of a step Metaspace
  bool splits_at_spaces = false;     // a step WhitespaceSplit
};

/// Flattens a pre-tokenizer; null has no steps. Errors: format (no type; a member of another type); limit (more than
/// 64 steps).
Result<PreTokenizerSteps> flatten_pre_tokenizer(const Json& json);

/// The name of a pre-tokenizer with these steps. whole_words: a word that is a token becomes that token, whatever the
/// merges are. The class of the model chooses among names that mean the same. A family that treats whole words
/// otherwise is a warning. Error: unsupported (no family has these steps; the message lists them).
Result<std::string> name_pre_tokenizer(const std::vector<PreStep>& steps, bool whole_words, std::string_view class_name,
                                       std::vector<std::string>& warnings);

/// One pattern as the steps of a pre-tokenizer.
std::vector<PreStep> steps_of_pattern(std::string_view pattern);

}  // namespace tessera::convert
