// GET /api/tags, GET /api/ps, POST /api/show, and the rest of the Ollama API that is about models.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>

#include "tessera/server/api/context.h"
#include "tessera/server/json/field_reader.h"

namespace tessera::server {

/// The time until which clients want the model to stay loaded. The only model of a server always stays: GET /api/ps
/// shows the time.
class OllamaState {
 public:
  /// A request has used the model. Below 0, or nothing: without end.
  void note_use(std::optional<std::chrono::milliseconds> keep_alive);
  std::chrono::system_clock::time_point expires_at() const;

  /// SHA-256 of the metadata and the size of the model's file, in hexadecimal. Computed at the first call.
  std::string digest(const ServedModel& model);

 private:
  std::atomic<int64_t> expires_ms_{-1};  // since 1970; -1: never
  std::mutex mutex_;
  std::string digest_;
};

FieldResult<> answer_ollama_tags(OllamaState& state, ServedModel& model, Exchange& exchange);
FieldResult<> answer_ollama_ps(OllamaState& state, ServedModel& model, Exchange& exchange);
FieldResult<> answer_ollama_show(ServedModel& model, Exchange& exchange);
/// The model is here or it is not: nothing is fetched. Errors: 501 for another model.
FieldResult<> answer_ollama_pull(OllamaState& state, ServedModel& model, Exchange& exchange);

/// The model's name of a body, "model" or "name". Errors: 400 for none.
FieldResult<std::string_view> required_ollama_name(const FieldReader& reader);
/// 404 model 'NAME' not found
FieldError ollama_model_not_found(std::string_view name);

}  // namespace tessera::server
