// The object `generation_settings` of native answers, also `params` of slots and of GET /props: the values with which a
// request runs. Its keys are the rows of fields.def that are shown.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tessera/sample/params.h"
#include "tessera/server/json/generation_fields.h"
#include "tessera/server/json/writer.h"

namespace tessera::server {

/// Values that are not fields of a request, or differ from what the client sent.
struct SettingsContext {
  int64_t seed = -1;                                // the drawn one
  std::span<const sample::LogitBias> logit_bias{};  // by id, with the bans of ignore_eos
  std::string_view grammar{};                       // also that of a schema or of tools
  bool grammar_lazy = false;
  std::string_view chat_format = "Content-only";
  std::string_view reasoning_format = "none";
  std::string_view generation_prompt{};
};

enum class SettingsPlace : uint8_t { answer, slot };  // slots leave out texts and lists of the client

/// Writes the object.
void write_generation_settings(JsonWriter& writer, const GenerationFields& fields, const SettingsContext& context,
                               SettingsPlace place);

}  // namespace tessera::server
