// A text as the models are measured on it: windows of its tokens, each decoded from an empty cache, with BOS in the
// place of its first token where the vocabulary adds one. Used by perplexity and imatrix.
//
// A session holds as many windows at once as fill a micro-batch; logits do not depend on that.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/function_ref.h"
#include "tessera/base/partition.h"
#include "tessera/engine/session.h"

namespace tessera::eval {

struct ChunkOptions {
  int64_t n_ctx = 512;        // tokens of a chunk, at least kMinChunkTokens
  int64_t stride = 0;         // tokens from one chunk's beginning to the next's; 0: n_ctx, they do not overlap
  int64_t n_skip = 0;         // chunks to leave out at the text's beginning
  int64_t n_max_chunks = -1;  // -1: as many as there are
};

inline constexpr int64_t kMinChunkTokens = 4;  // the fewest of which half have a token before them

class Chunks {
 public:
  /// Cuts a text; tokens that fill no chunk are left out. Errors: those of the tokenizer; format (not UTF-8);
  /// invalid_argument (the options); limit (fewer than two chunks, or one where they overlap, or none after those that
  /// are skipped).
  static Result<Chunks> create(const text::Tokenizer& tokenizer, std::string_view text, const ChunkOptions& options);
  /// Chunks of a text that was tokenized before, of which there is a whole number. Errors: mismatch (a token that the
  /// vocabulary does not have).
  static Result<Chunks> create(const text::Vocab& vocab, std::vector<int32_t> tokens, int64_t n_ctx);

  int64_t size() const { return n_chunks_; }
  int64_t n_ctx() const { return n_ctx_; }
  int64_t stride() const { return stride_; }
  /// What is decoded at a position of chunk i: BOS in the first where the vocabulary adds it.
  int32_t token(int64_t i, int64_t position) const {
    return position == 0 && bos_ ? *bos_ : tokens_[static_cast<size_t>(i * stride_ + position)];
  }
  /// The text's own tokens, chunk after chunk where they do not overlap.
  std::span<const int32_t> text_tokens() const { return tokens_; }

 private:
  Chunks(const text::Vocab& vocab, int64_t n_ctx, int64_t stride);

  int64_t n_ctx_, stride_;
  int64_t n_chunks_ = 0;
  std::optional<int32_t> bos_;
  std::vector<int32_t> tokens_;
};

/// The positions of a chunk whose logits are scored: those that predict its second half; where chunks overlap, those
/// that predict what the chunk before did not have.
constexpr Range scored_positions(int64_t n_ctx, int64_t stride = 0) {
  return {stride == 0 || stride == n_ctx ? n_ctx / 2 : n_ctx - stride - 1, n_ctx - 1};
}

/// The most tokens of a call and the positions of each chunk whose logits are wanted.
struct ChunkRun {
  int64_t n_call = 512;
  Range outputs;

  /// Chunks of n_ctx tokens that are decoded together.
  int64_t n_parallel(int64_t n_ctx) const;
  /// What a session needs for that, set in its options; the rest of them stays.
  void set_up(SessionOptions& options, int64_t n_ctx) const;
};

/// The logits after a position of a chunk, valid for the visit.
struct ChunkRow {
  int64_t chunk, position;
  std::span<const float> logits;
};

/// Rows that were computed together; calls go on in the order of chunks and positions. Its error ends the run.
using RowsVisitor = FunctionRef<Result<>(std::span<const ChunkRow> rows)>;

/// Decodes chunks [which.begin, which.end), at most run.n_parallel of them, in an emptied session that run.set_up
/// prepared, and visits the wanted positions in order, chunk by chunk. Errors: those of decode() and of the visitor.
Result<> decode_chunks(Session& session, const Chunks& chunks, Range which, const ChunkRun& run, RowsVisitor visit,
                       const CancelToken* cancel);

}  // namespace tessera::eval
