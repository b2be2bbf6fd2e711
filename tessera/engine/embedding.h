// Embeddings of texts: a session of the right size for them, texts packed into batches, tokens pooled to a vector.
// A text's vector is the same bits whatever other texts there are.
#pragma once

#include <span>
#include <vector>

#include "tessera/base/function_ref.h"
#include "tessera/engine/session.h"

namespace tessera {

using TokenLists = std::span<const std::vector<int32_t>>;

/// The pooling that is used: `asked`, else the model's, else the mean. Errors: unsupported (rank, and no rank head).
Result<nn::Pooling> embedding_pooling(const Engine& engine, std::optional<nn::Pooling> asked);

/// `given` with sizes for embedding these texts. given.n_ctx bounds a text (0: what the model was trained for), and
/// given.n_ubatch is what short texts are packed to. Errors: invalid_argument (a text without tokens, or longer than
/// the bound).
Result<SessionOptions> embedding_session(const Engine& engine, TokenLists texts, nn::Pooling pooling,
                                         const SessionOptions& given);

/// One text's result: [n_embd], or [n_embd, n_tokens] without pooling, or scores [n_scores] with rank.
using EmbeddingVisitor = FunctionRef<Result<>(size_t text, std::span<const float> values)>;

/// Embeds the texts with a session of embedding_session()'s options for them, and hands the results over in order.
/// Errors: those of decode(); those of `visit`; format (a value that is not finite).
Result<> embed(Session& session, TokenLists texts, nn::Pooling pooling, EmbeddingVisitor visit,
               const CancelToken* cancel);

/// Divides x by a norm of it, as --embd-normalize has them: -1 leaves it; 0 scales its largest magnitude to 32760; p >
/// 0 divides by the p-norm. A zero vector stays. Sums run in double, in order.
void normalize(std::span<float> x, int32_t norm);

}  // namespace tessera
