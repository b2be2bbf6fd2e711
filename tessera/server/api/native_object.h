// The final object of POST /completion. Answers of the OpenAI API contain it as `__verbose` if the client asks for it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/server/api/generation.h"

namespace tessera::server {

/// Parts of the object that are known before the generation.
struct NativeFacts {
  std::string settings{};              // JSON: generation_settings
  std::vector<std::string> prompts{};  // as the model sees them, special tokens shown
};

/// The seed of `fields` is drawn already.
NativeFacts native_facts(const ServedModel& model, const GenerationFields& fields, std::vector<std::string> prompts);

/// The texts of prompts that are tokens, special tokens shown. Errors: 400 for a prompt that has no text.
FieldResult<std::vector<std::string>> shown_texts(const ServedModel& model,
                                                  std::span<const std::vector<int32_t>> prompts);

/// Writes the members of the object for a choice that has ended, without `trace` and probabilities.
void write_native_members(JsonWriter& writer, const ServedModel& model, const GenerationFields& fields,
                          const Choice& choice, const NativeFacts& facts);
/// Writes the member `__verbose`, whose object has these members.
void write_verbose_object(JsonWriter& writer, const ServedModel& model, const GenerationFields& fields,
                          const Choice& choice, const NativeFacts& facts);

}  // namespace tessera::server
