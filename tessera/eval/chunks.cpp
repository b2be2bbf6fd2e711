#include "tessera/eval/chunks.h"

#include <algorithm>

namespace tessera::eval {

Result<Chunks> Chunks::create(const text::Tokenizer& tokenizer, std::string_view text, const ChunkOptions& options) {
  const int64_t n_ctx = options.n_ctx;
  if (n_ctx < kMinChunkTokens || n_ctx > kMaxContext)
    return fail(ErrorCode::invalid_argument, "chunks of {} tokens, want {} to {}", n_ctx, kMinChunkTokens, kMaxContext);
  if (options.n_skip < 0)
    return fail(ErrorCode::invalid_argument, "{} chunks to skip, want at least 0", options.n_skip);
  Chunks chunks;
  chunks.n_ctx_ = n_ctx;
  auto tokens = tokenizer.tokenize(text, {.add_special = true});
  if (!tokens) return forward_error(tokens, "text");
  const auto n_tokens = static_cast<int64_t>(tokens->size()), n_whole = n_tokens / n_ctx;
  if (n_whole < 2)
    return fail(ErrorCode::limit, "text of {} tokens, want at least {}: two chunks of {} (-c sets it)", n_tokens,
                2 * n_ctx, n_ctx);
  if (options.n_skip >= n_whole)
    return fail(ErrorCode::limit, "text of {} chunks of {} tokens: none is left after {} that are skipped", n_whole,
                n_ctx, options.n_skip);
  int64_t n_chunks = n_whole - options.n_skip;
  if (options.n_max_chunks >= 0) n_chunks = std::min(n_chunks, options.n_max_chunks);
  const auto first = tokens->begin() + options.n_skip * n_ctx;
  chunks.tokens_.assign(first, first + n_chunks * n_ctx);
  const text::Vocab& vocab = tokenizer.vocab();
  if (const auto bos = vocab.special(text::SpecialToken::bos); vocab.add_bos() && bos)
    for (int64_t i = 0; i < n_chunks; ++i) chunks.tokens_[static_cast<size_t>(i * n_ctx)] = *bos;
  return chunks;
}

int64_t ChunkRun::n_parallel(int64_t n_ctx) const {
  return std::clamp<int64_t>(n_call / n_ctx, 1, std::min<int64_t>(kMaxSequences, kMaxContext / n_ctx));
}

void ChunkRun::set_up(SessionOptions& options, int64_t n_ctx) const {
  options.n_ctx = n_ctx * n_parallel(n_ctx);
  options.n_sequences = static_cast<int32_t>(n_parallel(n_ctx));
  options.n_ubatch = std::min(options.n_ubatch, n_call);
  options.n_outputs = std::max<int64_t>(std::min(n_call, outputs.size() * n_parallel(n_ctx)), 1);
}

Result<> decode_chunks(Session& session, const Chunks& chunks, Range which, const ChunkRun& run, LogitsVisitor visit,
                       const CancelToken* cancel) {
  TESSERA_TRY(session.clear());
  const int64_t n_ctx = chunks.n_ctx(), n_tokens = which.size() * n_ctx;
  Batch batch;
  // Calls of n_call tokens, whose logits have room, across the chunks' borders.
  for (int64_t begin = 0; begin < n_tokens; begin += run.n_call) {
    batch.clear();
    const int64_t end = std::min(begin + run.n_call, n_tokens);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t position = i % n_ctx;
      batch.add({.token = chunks.tokens(which.begin + i / n_ctx)[static_cast<size_t>(position)],
                 .position = static_cast<int32_t>(position),
                 .sequence = static_cast<int32_t>(i / n_ctx),
                 .wants_logits = position >= run.outputs.begin && position < run.outputs.end});
    }
    TESSERA_TRY(session.decode(batch, cancel));
    int64_t i_output = 0;
    for (const BatchToken& t : batch.tokens())
      if (t.wants_logits) TESSERA_TRY(visit(which.begin + t.sequence, t.position, session.logits(i_output++)));
  }
  return {};
}

}  // namespace tessera::eval
