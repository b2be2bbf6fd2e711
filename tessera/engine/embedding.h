// Embeddings of texts: chooses the size of a session, packs texts into batches, and pools the tokens of each text to a
// vector. The bits of a text's vector do not depend on other texts.
#pragma once

#include <span>
#include <vector>

#include "tessera/base/function_ref.h"
#include "tessera/engine/session.h"

namespace tessera {

using TokenLists = std::span<const std::vector<int32_t>>;

/// The pooling to use: `asked`, else the model's, else the mean. Errors: unsupported (rank without a rank head).
Result<nn::Pooling> embedding_pooling(const Engine& engine, std::optional<nn::Pooling> asked);

/// Returns `given` with sizes for embedding these texts. given.n_ctx is the most tokens of a text (0: the context that
/// the model was trained with). Short texts are packed into batches of up to given.n_ubatch tokens. Errors:
/// invalid_argument (no texts, a text without tokens); limit (a text that is too long).
Result<SessionOptions> embedding_session(const Engine& engine, TokenLists texts, nn::Pooling pooling,
                                         const SessionOptions& given);

/// Receives the result of one text: [n_embd], or [n_embd, n_tokens] without pooling, or scores [n_scores] with rank.
using EmbeddingVisitor = FunctionRef<Result<>(size_t text, std::span<const float> values)>;

/// Embeds the texts and passes the results to `visit` in order. The session has the options of embedding_session() for
/// these texts. Errors: those of decode(); those of `visit`; format (a value that is not finite).
Result<> embed(Session& session, TokenLists texts, nn::Pooling pooling, EmbeddingVisitor visit,
               const CancelToken* cancel);

/// Divides x by one of its norms, as --embd-normalize does: -1 leaves x unchanged, 0 scales the largest magnitude to
/// 32760, p > 0 divides by the p-norm. A zero vector stays zero. Sums are in double precision, in order.
void normalize(std::span<float> x, int32_t norm);

}  // namespace tessera
