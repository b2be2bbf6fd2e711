// The chunks of a text and a session that decodes them, for perplexity and importance matrices.
#pragma once

#include <memory>

#include "tessera/capi/call_support.h"
#include "tessera/eval/chunks.h"

namespace tessera::capi {

/// The options of a session for chunks: those of a caller, of which the sizes are not used. Errors: those of
/// read_session_options(); invalid_argument (it would compute embeddings).
Result<SessionOptions> chunk_session_options(const tessera_model& model, const tessera_session_options* options);

struct ChunkSession {
  eval::ChunkRun run;
  BudgetShare memory;
  std::unique_ptr<Session> session;
  std::unique_ptr<ThreadPool> threads;  // for work on logits
};

/// A session for chunks of n_ctx tokens, with room for the logits of the positions `outputs`. Errors: those of
/// create_session().
Result<ChunkSession> create_chunk_session(const tessera_model& model, SessionOptions options, int64_t n_ctx,
                                          Range outputs);

/// n_chunks of a caller as that of eval::ChunkOptions. Error: invalid_argument.
Result<int64_t> max_chunks(int64_t n_chunks);

inline constexpr int64_t kUsualChunkTokens = 512;

}  // namespace tessera::capi
