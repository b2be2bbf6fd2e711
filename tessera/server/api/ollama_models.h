// GET /api/tags, GET /api/ps, POST /api/show, and the rest of the Ollama API that is about models.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "tessera/server/api/context.h"
#include "tessera/server/json/field_reader.h"
#include "tessera/server/json/writer.h"

namespace tessera::server {

/// Facts of a model's files.
struct OllamaFacts {
  std::string family{};  // the architecture
  std::string format{};
  uint64_t n_parameters = 0;
  uint64_t n_bytes = 0;
  std::string digest{};  // SHA-256 of the metadata and the size, in hexadecimal
};

/// The facts of models, also of those that are not loaded. They are computed once for each model.
class OllamaFiles {
 public:
  /// Errors: those of ModelFiles::open().
  Result<OllamaFacts> facts_of(const ModelView& view);
  OllamaFacts facts_of(const ServedModel& model);

 private:
  std::mutex mutex_;
  std::map<std::string, OllamaFacts> by_path_;
};

/// Sets how long the model stays loaded after a request: as its client asks, else 5 minutes. The only model of a server
/// always stays, but GET /api/ps shows the time.
void note_ollama_use(ApiContext& context, const ServedModel& model,
                     std::optional<std::chrono::milliseconds> keep_alive);

/// Writes the members of a model in lists, under this name. Its file may be unreadable: then only the name.
void write_ollama_entry(JsonWriter& writer, const std::string& name, const ModelView& view, OllamaFiles& files);

FieldResult<> answer_ollama_tags(ApiContext& context, OllamaFiles& files, Exchange& exchange);
FieldResult<> answer_ollama_ps(ApiContext& context, OllamaFiles& files, Exchange& exchange);
FieldResult<> answer_ollama_show(OllamaFiles& files, ServedModel& model, Exchange& exchange);
/// The model is here or it is not: nothing is fetched. Errors: 501 for another model.
FieldResult<> answer_ollama_pull(ApiContext& context, OllamaFiles& files, Exchange& exchange);

/// The model's name of a body, "model" or "name". Errors: 400 for none.
FieldResult<std::string_view> required_ollama_name(const FieldReader& reader);

}  // namespace tessera::server
