// Embeddings of texts: chooses the size of a session, packs texts into batches, and pools the tokens of each text to a
// vector. The bits of a text's vector do not depend on other texts.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/function_ref.h"
#include "tessera/engine/session.h"

namespace tessera {

using TokenLists = std::span<const std::vector<int32_t>>;

/// The pooling to use: `asked`, else the model's, else the mean. Errors: unsupported (rank without a rank head).
Result<nn::Pooling> embedding_pooling(const Engine& engine, std::optional<nn::Pooling> asked);

/// The most tokens of a text, if the context is to hold n_ctx (0: the context that the model was trained with).
int64_t embedding_context(const Engine& engine, int64_t n_ctx);

/// Returns `given` with sizes for embedding these texts. given.n_ctx is the most tokens of a text (0: the context that
/// the model was trained with). Short texts are packed into batches of up to given.n_ubatch tokens. Errors:
/// invalid_argument (no texts, a text without tokens); limit (a text that is too long).
Result<SessionOptions> embedding_session(const Engine& engine, TokenLists texts, nn::Pooling pooling,
                                         const SessionOptions& given);

/// The results that a session computes for texts, each in a request of its own.
struct EmbeddingUse {
  std::optional<nn::Pooling> pooling{};  // of vectors; not rank; absent: no vectors
  bool ranks = false;                    // scores of the model's rank head
};

/// Returns `given` with sizes for texts that are not known yet, of up to embedding_context(given.n_ctx) tokens. A model
/// that is not causal computes a text at once, so a micro-batch holds the whole context. Other models compute
/// given.n_ubatch tokens at a time.
SessionOptions embedding_session(const Engine& engine, const EmbeddingUse& use, const SessionOptions& given);

/// Receives the result of one text: [n_embd], or [n_embd, n_tokens] without pooling, or scores [n_scores] with rank.
using EmbeddingVisitor = FunctionRef<Result<>(size_t text, std::span<const float> values)>;

/// Embeds the texts and passes the results to `visit` in order. The session has the options of embedding_session() for
/// these texts. Errors: those of decode(); those of `visit`; format (a value that is not finite).
Result<> embed(Session& session, TokenLists texts, nn::Pooling pooling, EmbeddingVisitor visit,
               const CancelToken* cancel);

/// Pools the rows of one text, which may come in pieces.
class TextPooler {
 public:
  /// A text of n_tokens > 0 for a session of the model.
  TextPooler(const ModelInfo& model, nn::Pooling pooling, int64_t n_tokens);

  /// The tokens whose rows are needed.
  Range wanted() const { return wanted_; }
  /// The next of these rows [n_embd, n].
  void add(std::span<const float> rows);
  /// The result, once all rows were added: see EmbeddingVisitor. Errors: those of Session::rank(); format (a value that
  /// is not finite).
  Result<std::vector<float>> finish(Session& session, const CancelToken* cancel) const;

 private:
  nn::Pooling pooling_;
  bool is_mean_;
  Range wanted_;
  nn::RowMean mean_;
  std::vector<float> rows_;  // those that are kept as they are
};

/// Tokenizes a query and a document for a ranking model: by the template of the model's file for it, if there is one.
/// Otherwise the query, then the document without its first special token. If the vocabulary requests it, a separator
/// precedes the document. BERT's texts already end with one. Texts have no control tokens. Errors: those of tokenize();
/// type (the template is no text).
Result<std::vector<int32_t>> rank_tokens(const Engine& engine, std::string_view query, std::string_view document);

/// Divides x by one of its norms, as --embd-normalize does: -1 leaves x unchanged, 0 scales the largest magnitude to
/// 32760, p > 0 divides by the p-norm. A zero vector stays zero. Sums are in double precision, in order.
void normalize(std::span<float> x, int32_t norm);

}  // namespace tessera
