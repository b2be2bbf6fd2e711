// Divides a text into chunks, on which models are measured. Each chunk is decoded from an empty cache, with BOS in
// place of its first token if the vocabulary adds one. Used by perplexity and imatrix.
//
// A session decodes as many chunks at once as fill a micro-batch. The logits do not depend on that number.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/function_ref.h"
#include "tessera/base/index.h"
#include "tessera/base/partition.h"
#include "tessera/engine/session.h"

namespace tessera::eval {

struct ChunkOptions {
  int64_t n_ctx = 512;        // tokens per chunk, at least kMinChunkTokens
  int64_t stride = 0;         // distance between the beginnings of chunks, in tokens; 0: n_ctx, without overlap
  int64_t n_skip = 0;         // chunks to skip at the beginning of the text
  int64_t n_max_chunks = -1;  // -1: all
};

inline constexpr int64_t kMinChunkTokens = 4;  // the smallest size in which each scored token has a token before it

class Chunks {
 public:
  /// Divides a text. Tokens of an incomplete last chunk are dropped. Errors: errors of the tokenizer; format (not
  /// UTF-8); invalid_argument (the options); limit (fewer than two chunks, or one if chunks overlap, or none after the
  /// skipped ones).
  static Result<Chunks> create(const text::Tokenizer& tokenizer, std::string_view text, const ChunkOptions& options);
  /// The same for a tokenized text. Errors: also mismatch (a token is not in the vocabulary).
  static Result<Chunks> create(const text::Vocab& vocab, std::span<const int32_t> tokens, const ChunkOptions& options);
  /// Divides a tokenized text, which has a whole number of chunks. Errors: mismatch (a token is not in the vocabulary).
  static Result<Chunks> create(const text::Vocab& vocab, std::vector<int32_t> tokens, int64_t n_ctx);

  int64_t size() const { return n_chunks_; }
  int64_t n_ctx() const { return n_ctx_; }
  int64_t stride() const { return stride_; }
  /// Returns the token to decode at a position of chunk i: BOS at the first position if the vocabulary adds it.
  int32_t token(int64_t i, int64_t position) const {
    return position == 0 && bos_ ? *bos_ : tokens_[to_size(i * stride_ + position)];
  }
  /// The tokens of the text, without BOS. Chunks that do not overlap follow each other.
  std::span<const int32_t> text_tokens() const { return tokens_; }

 private:
  Chunks(const text::Vocab& vocab, int64_t n_ctx, int64_t stride);
  static Result<Chunks> cut(const text::Vocab& vocab, std::span<const int32_t> tokens, const ChunkOptions& options);

  int64_t n_ctx_, stride_;
  int64_t n_chunks_ = 0;
  std::optional<int32_t> bos_;
  std::vector<int32_t> tokens_;
};

/// Returns the positions of a chunk whose logits are scored. They predict the second half of the chunk or, if chunks
/// overlap, the tokens that the previous chunk does not contain.
constexpr Range scored_positions(int64_t n_ctx, int64_t stride = 0) {
  return {stride == 0 || stride == n_ctx ? n_ctx / 2 : n_ctx - stride - 1, n_ctx - 1};
}

/// Parameters of decode_chunks().
struct ChunkRun {
  int64_t n_call = 512;  // maximum number of tokens per call of decode()
  Range outputs;         // positions of each chunk whose logits are needed

  /// Number of chunks of n_ctx tokens that are decoded together.
  int64_t n_parallel(int64_t n_ctx) const;
  /// Sets the session options that this needs. Other options are unchanged.
  void set_up(SessionOptions& options, int64_t n_ctx) const;
};

/// The logits of a position of a chunk, valid during the visit.
struct ChunkRow {
  int64_t chunk, position;
  std::span<const float> logits;
};

/// Receives rows that were computed together. Calls are in the order of chunks and positions. An error ends the run.
using RowsVisitor = FunctionRef<Result<>(std::span<const ChunkRow> rows)>;

/// Clears the session, whose options come from run.set_up(), and decodes chunks [which.begin, which.end), at most
/// run.n_parallel() of them. Visits the positions of run.outputs in order, chunk by chunk. Errors: errors of decode()
/// and of the visitor.
Result<> decode_chunks(Session& session, const Chunks& chunks, Range which, const ChunkRun& run, RowsVisitor visit,
                       const CancelToken* cancel);

/// Decodes all chunks, as many at once as run.n_parallel(). `progress` gets the number of chunks that are done, and
/// returns false to stop. Errors: those of decode_chunks(); cancelled.
Result<> decode_all(Session& session, const Chunks& chunks, const ChunkRun& run, RowsVisitor visit,
                    FunctionRef<bool(int64_t)> progress, const CancelToken* cancel);

}  // namespace tessera::eval
