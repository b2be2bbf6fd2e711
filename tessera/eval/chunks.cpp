#include "tessera/eval/chunks.h"

#include <algorithm>

#include "tessera/text/utf8.h"

namespace tessera::eval {

namespace {

Result<> require_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const text::Utf8Step step = text::next_utf8(text.substr(i));
    if (step.state != text::Utf8State::valid)
      return fail(ErrorCode::format, "text: byte {} (0x{:02x}) is not UTF-8", i, static_cast<uint8_t>(text[i]));
    i += step.n_bytes;
  }
  return {};
}

Result<> check(const ChunkOptions& options) {
  const int64_t n_ctx = options.n_ctx;
  if (n_ctx < kMinChunkTokens || n_ctx > kMaxContext)
    return fail(ErrorCode::invalid_argument, "chunks of {} tokens, want {} to {}", n_ctx, kMinChunkTokens, kMaxContext);
  if (options.stride < 0 || options.stride >= n_ctx)
    return fail(ErrorCode::invalid_argument, "stride of {} tokens, want 1 to {}: chunks have {}", options.stride,
                n_ctx - 1, n_ctx);
  if (options.n_skip < 0)
    return fail(ErrorCode::invalid_argument, "{} chunks to skip, want at least 0", options.n_skip);
  return {};
}

Result<> require_tokens(const text::Vocab& vocab, std::span<const int32_t> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i)
    if (!vocab.contains(tokens[i]))
      return fail(ErrorCode::mismatch, "token {} is {}, the vocabulary has 0 to {}", i, tokens[i],
                  vocab.n_tokens() - 1);
  return {};
}

}  // namespace

Chunks::Chunks(const text::Vocab& vocab, int64_t n_ctx, int64_t stride) : n_ctx_(n_ctx), stride_(stride) {
  if (vocab.add_bos()) bos_ = vocab.special(text::SpecialToken::bos);
}

Result<Chunks> Chunks::create(const text::Tokenizer& tokenizer, std::string_view text, const ChunkOptions& options) {
  TESSERA_TRY(check(options));
  TESSERA_TRY(require_utf8(text));
  auto tokens = tokenizer.tokenize(text, {.add_special = true});
  if (!tokens) return forward_error(tokens, "text");
  return cut(tokenizer.vocab(), *tokens, options);
}

Result<Chunks> Chunks::create(const text::Vocab& vocab, std::span<const int32_t> tokens, const ChunkOptions& options) {
  TESSERA_TRY(check(options));
  TESSERA_TRY(require_tokens(vocab, tokens));
  return cut(vocab, tokens, options);
}

Result<Chunks> Chunks::cut(const text::Vocab& vocab, std::span<const int32_t> tokens, const ChunkOptions& options) {
  const int64_t n_ctx = options.n_ctx, stride = options.stride == 0 ? n_ctx : options.stride;
  const auto n_tokens = static_cast<int64_t>(tokens.size());
  const int64_t n_whole = n_tokens < n_ctx ? 0 : (n_tokens - n_ctx) / stride + 1;
  if (options.stride == 0 && n_whole < 2)
    return fail(ErrorCode::limit, "text of {} tokens, want at least {}: two chunks of {} (option n_ctx sets it)",
                n_tokens, 2 * n_ctx, n_ctx);
  if (n_whole < 1)
    return fail(ErrorCode::limit, "text of {} tokens, want at least {}: one chunk (option n_ctx sets it)", n_tokens,
                n_ctx);
  if (options.n_skip >= n_whole)
    return fail(ErrorCode::limit, "text of {} chunks of {} tokens: none is left after {} that are skipped", n_whole,
                n_ctx, options.n_skip);
  Chunks chunks(vocab, n_ctx, stride);
  chunks.n_chunks_ = n_whole - options.n_skip;
  if (options.n_max_chunks >= 0) chunks.n_chunks_ = std::min(chunks.n_chunks_, options.n_max_chunks);
  if (chunks.n_chunks_ > 0) {
    const auto first = tokens.begin() + options.n_skip * stride;
    chunks.tokens_.assign(first, first + (chunks.n_chunks_ - 1) * stride + n_ctx);
  }
  return chunks;
}

Result<Chunks> Chunks::create(const text::Vocab& vocab, std::vector<int32_t> tokens, int64_t n_ctx) {
  TESSERA_TRY(require_tokens(vocab, tokens));
  Chunks chunks(vocab, n_ctx, n_ctx);
  chunks.n_chunks_ = static_cast<int64_t>(tokens.size()) / n_ctx;
  chunks.tokens_ = std::move(tokens);
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

Result<> decode_chunks(Session& session, const Chunks& chunks, Range which, const ChunkRun& run, RowsVisitor visit,
                       const CancelToken* cancel) {
  TESSERA_TRY(session.clear());
  const int64_t n_ctx = chunks.n_ctx(), n_tokens = which.size() * n_ctx;
  Batch batch;
  std::vector<ChunkRow> rows;
  // Calls of n_call tokens may contain parts of several chunks. The session has room for the logits of each call.
  for (int64_t begin = 0; begin < n_tokens; begin += run.n_call) {
    batch.clear();
    rows.clear();
    const int64_t end = std::min(begin + run.n_call, n_tokens);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t chunk = which.begin + i / n_ctx, position = i % n_ctx;
      const bool is_wanted = position >= run.outputs.begin && position < run.outputs.end;
      batch.add({.token = chunks.token(chunk, position),
                 .position = static_cast<int32_t>(position),
                 .sequence = static_cast<int32_t>(i / n_ctx),
                 .wants_logits = is_wanted});
      if (is_wanted) rows.push_back({chunk, position, {}});
    }
    TESSERA_TRY(session.decode(batch, cancel));
    for (size_t i = 0; i < rows.size(); ++i) rows[i].logits = session.logits(static_cast<int64_t>(i));
    if (!rows.empty()) TESSERA_TRY(visit(rows));
  }
  return {};
}

Result<> decode_all(Session& session, const Chunks& chunks, const ChunkRun& run, RowsVisitor visit,
                    FunctionRef<bool(int64_t)> progress, const CancelToken* cancel) {
  const int64_t n_parallel = run.n_parallel(chunks.n_ctx());
  for (int64_t begin = 0; begin < chunks.size(); begin += n_parallel) {
    const Range which{begin, std::min(begin + n_parallel, chunks.size())};
    TESSERA_TRY(decode_chunks(session, chunks, which, run, visit, cancel));
    if (!progress(which.end))
      return fail(ErrorCode::cancelled, "stopped after chunk {} of {}", which.end, chunks.size());
  }
  return {};
}

}  // namespace tessera::eval
