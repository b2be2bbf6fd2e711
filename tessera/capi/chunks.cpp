#include "tessera/capi/chunks.h"

#include <algorithm>

#include "tessera/capi/plans.h"
#include "tessera/engine/generate.h"

namespace tessera::capi {

Result<SessionOptions> chunk_session_options(const tessera_model& model, const tessera_session_options* options) {
  TESSERA_ASSIGN(SessionOptions session, read_session_options(model, options));
  if (session.embeddings)
    return fail(ErrorCode::invalid_argument, "session: TESSERA_SESSION_EMBEDDINGS: logits are needed");
  return session;
}

Result<ChunkSession> create_chunk_session(const tessera_model& model, SessionOptions options, int64_t n_ctx,
                                          Range outputs) {
  ChunkSession created;
  created.run = {.n_call = std::min(GenerateOptions{}.n_batch, options.n_ubatch), .outputs = outputs};
  created.run.set_up(options, n_ctx);
  TESSERA_ASSIGN(created.memory, take_session_memory(model, options));
  TESSERA_ASSIGN(created.session, create_session(model, options));
  TESSERA_ASSIGN(created.threads, ThreadPool::create({.n_threads = options.threads.n_threads, .poll = 0}));
  return created;
}

Result<int64_t> max_chunks(int64_t n_chunks) { return count_or(n_chunks, -1, "n_chunks"); }

}  // namespace tessera::capi
