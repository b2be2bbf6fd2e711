// Requests for embeddings and scores, on their way to the embedder and back. Used by every dialect.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/server/api/context.h"

namespace tessera::server {

struct EmbeddingCall {
  std::vector<std::vector<int32_t>> texts{};  // each fits into the context: see require_fit()
  bool wants_scores = false;                  // of a query and a document each, not embeddings
  GenerationFields fields{};                  // priority, timeout_ms
  std::string ignored{};                      // names of unknown fields
};

/// Results by text: an embedding [n_embd], or [n_embd, n_tokens] without pooling; or scores [n_scores].
struct EmbeddingResults {
  std::vector<std::vector<float>> values{};
  int64_t n_tokens = 0;  // of all texts
};

/// Writes the answer. Runs on a worker.
using EmbeddingWriter = std::function<std::string(EmbeddingResults& results)>;

/// Refuses embeddings or scores that the server does not compute: 501, with the flag that switches them on.
FieldResult<> require_embeddings(const ServedModel& model);
FieldResult<> require_scores(const ServedModel& model);

/// Refuses a text that the context does not hold. Requires an embedder.
FieldResult<> require_fit(const ServedModel& model, int64_t n_tokens);

/// Gives the texts to the embedder and answers once all have results. Errors: the refusal of a full queue; results that
/// are too large.
FieldResult<> start_embedding(ApiContext& context, ServedModel& model, const std::shared_ptr<Exchange>& exchange,
                              EmbeddingCall call, EmbeddingWriter writer);

}  // namespace tessera::server
