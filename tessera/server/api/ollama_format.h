// Parts of requests and answers that the routes of the Ollama API share: names of models, times, durations, and the
// lists of one reply.
//
// Names are NAME:TAG. The tag "latest" may be left out, as may the ending .gguf of a file.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tessera/server/api/generation.h"
#include "tessera/server/api/time_text.h"
#include "tessera/server/json/field_reader.h"
#include "tessera/server/models/served_model.h"

namespace tessera::server {

/// The name of a model as the routes list it: "NAME:latest", or as it is if it has a tag.
std::string ollama_name(std::string_view name);
/// Whether a client's name is one of the model's.
bool is_ollama_name(const ServedModel& model, std::string_view name);
/// The name in answers: that of the client if it is one of the model's, else the model's own.
std::string shown_ollama_name(const ServedModel& model, std::string_view name);

/// Reads a duration: seconds as a number, or a text of numbers with units ("1h30m", "300ms"). A number without a unit
/// counts seconds. Below 0: without end.
FieldResult<std::chrono::milliseconds> read_ollama_duration(const Json& value, const FieldPath& path);

/// The members at the beginning of an answer, and the times at its end.
struct OllamaHead {
  std::string model;
  Clock::time_point received;

  /// model, created_at
  void write(JsonWriter& writer) const;
  /// done, done_reason, the context if there is one, durations and counts
  void write_end(JsonWriter& writer, const SequenceEnd& end, std::optional<std::span<const int32_t>> context) const;
};

/// Writes the member "logprobs" with the probabilities of the choice that are settled, if any, and forgets them.
void write_ollama_logprobs(JsonWriter& writer, Choice& choice, const text::Tokenizer& tokenizer);

inline constexpr std::string_view kLinesOfJsonType = "application/x-ndjson";

}  // namespace tessera::server
