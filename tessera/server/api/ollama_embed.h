// POST /api/embed and POST /api/embeddings of the Ollama API.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/server/api/context.h"

namespace tessera::server {

// These read the request. They run on workers.
FieldResult<> start_ollama_embed(ApiContext& context, ServedModel& model, const std::shared_ptr<Exchange>& exchange);
FieldResult<> start_ollama_embeddings(ApiContext& context, ServedModel& model,
                                      const std::shared_ptr<Exchange>& exchange);

enum class OllamaEmbedForm : uint8_t {
  list,  // {"embeddings": [[...]], ...}
  one,   // {"embedding": [...]}
};

struct OllamaEmbedCall {
  OllamaEmbedForm form = OllamaEmbedForm::list;
  std::string model{};               // the name in the answer
  std::vector<std::string> texts{};  // at most 2048
  bool truncates = true;             // a text beyond the context is cut; otherwise it is refused
  std::optional<int64_t> dimensions{};
};

/// Computes the embeddings and answers. Errors: 501, as the server has no session for embeddings.
FieldResult<> compute_ollama_embeddings(ApiContext& context, ServedModel& model,
                                        const std::shared_ptr<Exchange>& exchange, OllamaEmbedCall call);

}  // namespace tessera::server
