// The fields that POST /api/generate and POST /api/chat share: options, format, think, logprobs, keep_alive.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "tessera/server/api/chat_call.h"
#include "tessera/server/api/context.h"
#include "tessera/server/json/field_reader.h"
#include "tessera/server/json/generation_fields.h"

namespace tessera::server {

struct OllamaFields {
  GenerationFields generation{};
  std::string ignored{};  // names of unknown fields
  std::string model{};    // the name in answers
  int64_t n_ctx = 0;      // the most tokens of prompt and answer
  std::string schema{};   // of the answer, as JSON; empty: any text
  std::optional<bool> thinks{};
  std::optional<std::string> effort{};
  int32_t n_probs = -1;  // see SequenceSpec
  std::optional<std::chrono::milliseconds> keep_alive{};
};

/// Reads the common fields of a body. Errors: 400 with the path of the field; a model that cannot think and should.
FieldResult<OllamaFields> read_ollama_fields(ApiContext& context, ServedModel& model, const FieldReader& reader,
                                             const Client& client);

/// Checks an object of options, and a list of messages, that a name of a model keeps. Errors: 400 with the path of the
/// field.
FieldResult<> check_ollama_options(const Json& options, std::string_view path);
FieldResult<> check_ollama_messages(const Json& messages);

/// A chat call with these fields, without messages.
ChatCall ollama_chat_call(const OllamaFields& fields);

/// Ends the plan's only sequence when it has the tokens that num_ctx allows. Errors: a prompt that leaves no room.
FieldResult<> bound_ollama_context(GenerationPlan& plan, int64_t n_ctx);

/// Whether replies of the model may have reasoning.
bool can_think(const ServedModel& model);

/// Refuses images, wherever a body may have them.
FieldResult<> refuse_images(const FieldReader& reader);

}  // namespace tessera::server
