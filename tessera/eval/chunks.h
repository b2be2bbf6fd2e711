// A text as the models are measured on it: its tokens in chunks of n_ctx, each decoded from an empty cache, with BOS in
// the place of its first token where the vocabulary adds one. Used by perplexity and imatrix.
//
// A session holds as many chunks at once as fill a micro-batch; logits do not depend on that.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/function_ref.h"
#include "tessera/base/partition.h"
#include "tessera/engine/session.h"

namespace tessera::eval {

struct ChunkOptions {
  int64_t n_ctx = 512;        // tokens of a chunk, at least kMinChunkTokens
  int64_t n_skip = 0;         // chunks to leave out at the text's beginning
  int64_t n_max_chunks = -1;  // -1: as many as there are
};

inline constexpr int64_t kMinChunkTokens = 4;  // the fewest of which half have a token before them

class Chunks {
 public:
  /// Cuts a text; tokens that fill no chunk are left out. Errors: those of the tokenizer; invalid_argument (the
  /// options); limit (fewer than two chunks, or none after those that are skipped).
  static Result<Chunks> create(const text::Tokenizer& tokenizer, std::string_view text, const ChunkOptions& options);

  int64_t size() const { return static_cast<int64_t>(tokens_.size()) / n_ctx_; }
  int64_t n_ctx() const { return n_ctx_; }
  /// The tokens of chunk i, BOS included: what is decoded.
  std::span<const int32_t> tokens(int64_t i) const {
    return std::span(tokens_).subspan(static_cast<size_t>(i * n_ctx_), static_cast<size_t>(n_ctx_));
  }

 private:
  int64_t n_ctx_ = 1;
  std::vector<int32_t> tokens_;
};

/// The most tokens of a call and the positions of each chunk whose logits are wanted.
struct ChunkRun {
  int64_t n_call = 512;
  Range outputs;

  /// Chunks of n_ctx tokens that are decoded together.
  int64_t n_parallel(int64_t n_ctx) const;
  /// What a session needs for that, set in its options; the rest of them stays.
  void set_up(SessionOptions& options, int64_t n_ctx) const;
};

/// The logits after a position of a chunk. Its error ends the run.
using LogitsVisitor = FunctionRef<Result<>(int64_t chunk, int64_t position, std::span<const float> logits)>;

/// Decodes chunks [which.begin, which.end), at most run.n_parallel of them, in an emptied session that run.set_up
/// prepared, and visits the wanted positions in order, chunk by chunk. Errors: those of decode() and of the visitor.
Result<> decode_chunks(Session& session, const Chunks& chunks, Range which, const ChunkRun& run, LogitsVisitor visit,
                       const CancelToken* cancel);

}  // namespace tessera::eval
