#include "tessera/engine/embedding.h"

#include <algorithm>
#include <cmath>

#include "tessera/base/index.h"

namespace tessera {

namespace {

constexpr int64_t kMaxTextsAtOnce = 64;
constexpr double kInt16Peak = 32760;

// The pooling of a text's rows to one vector. For rank, the pooling that the model's rank head expects.
nn::Pooling row_pooling(const ModelInfo& model, nn::Pooling pooling) {
  return pooling == nn::Pooling::rank ? model.rank_pooling : pooling;
}

// The longest text. Learned position embeddings exist only for the trained context.
int64_t text_bound(const Engine& engine, int64_t n_ctx) {
  const int64_t trained = engine.model().info().n_ctx_train;
  if (n_ctx == 0 || engine.model().weights().has("position_embd.weight"))
    return n_ctx == 0 ? trained : std::min(n_ctx, trained);
  return n_ctx;
}

// The factors of longrope depend on the session's context, so that context must not depend on the texts.
bool depends_on_context(const ModelInfo& model) {
  return std::ranges::any_of(model.ropes, [](const nn::Rope& rope) { return rope.long_factors != nullptr; });
}

// The end of the texts from `begin` on that fit in one batch.
size_t batch_end(const SessionOptions& o, TokenLists texts, nn::Pooling pooling, size_t begin) {
  int64_t n_tokens = 0, n_outputs = 0;
  size_t end = begin;
  for (; end < texts.size() && static_cast<int64_t>(end - begin) < o.n_sequences; ++end) {
    const auto n = static_cast<int64_t>(texts[end].size());
    n_tokens += n;
    n_outputs += nn::pooled_tokens(pooling, n).size();
    if (n_tokens > o.n_ctx || n_outputs > o.n_outputs) break;
  }
  return end;
}

Batch batch_of(TokenLists texts, nn::Pooling pooling) {
  Batch batch;
  for (size_t i = 0; i < texts.size(); ++i) {
    const Range wanted = nn::pooled_tokens(pooling, static_cast<int64_t>(texts[i].size()));
    for (size_t t = 0; t < texts[i].size(); ++t) {
      const auto position = static_cast<int32_t>(t);
      batch.add({.token = texts[i][t],
                 .position = position,
                 .sequence = static_cast<int32_t>(i),
                 .wants_logits = position >= wanted.begin && position < wanted.end});
    }
  }
  return batch;
}

// The result for a text: its rows after pooling and, for rank, the rank head.
Result<std::vector<float>> result_of(Session& session, nn::Pooling pooling, std::span<const float> rows,
                                     const CancelToken* cancel) {
  const ModelInfo& model = session.engine().model().info();
  if (pooling == nn::Pooling::none) return std::vector<float>(rows.begin(), rows.end());
  std::vector<float> vector(to_size(model.n_embd));
  if (row_pooling(model, pooling) == nn::Pooling::mean)
    nn::mean_of_rows(rows, vector);
  else
    std::ranges::copy(rows, vector.begin());
  if (pooling == nn::Pooling::rank) return session.rank(vector, cancel);
  return vector;
}

}  // namespace

Result<nn::Pooling> embedding_pooling(const Engine& engine, std::optional<nn::Pooling> asked) {
  const ModelInfo& model = engine.model().info();
  const nn::Pooling pooling = asked.value_or(model.pooling.value_or(nn::Pooling::mean));
  if (pooling == nn::Pooling::rank && model.n_scores == 0)
    return fail(ErrorCode::unsupported, "{}: pooling rank: the model has no rank head (tensors cls, cls.output)",
                engine.files().name());
  return pooling;
}

Result<SessionOptions> embedding_session(const Engine& engine, TokenLists texts, nn::Pooling pooling,
                                         const SessionOptions& given) {
  const ModelInfo& model = engine.model().info();
  const int64_t bound = text_bound(engine, given.n_ctx);
  int64_t longest = 0, total = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto n = static_cast<int64_t>(texts[i].size());
    if (n == 0) return fail(ErrorCode::invalid_argument, "text {} has no tokens", i);
    if (n > bound) return fail(ErrorCode::limit, "text {} has {} tokens, the context holds {}", i, n, bound);
    longest = std::max(longest, n);
    total += n;
  }
  if (texts.empty()) return fail(ErrorCode::invalid_argument, "no texts");
  SessionOptions options = given;
  options.embeddings = true;
  const int64_t n_tokens = std::min(bound, std::max(longest, std::min(total, given.n_ubatch)));
  options.n_ctx = depends_on_context(model) ? bound : n_tokens;
  options.n_ubatch = model.embeds_causally() ? std::min(given.n_ubatch, n_tokens) : n_tokens;
  options.n_sequences = static_cast<int32_t>(std::min(static_cast<int64_t>(texts.size()), kMaxTextsAtOnce));
  const nn::Pooling rows = row_pooling(model, pooling);
  const bool is_every_row_wanted = rows == nn::Pooling::none || rows == nn::Pooling::mean;
  options.n_outputs = is_every_row_wanted ? n_tokens : options.n_sequences;
  return options;
}

Result<> embed(Session& session, TokenLists texts, nn::Pooling pooling, EmbeddingVisitor visit,
               const CancelToken* cancel) {
  const ModelInfo& model = session.engine().model().info();
  const nn::Pooling rows = row_pooling(model, pooling);
  for (size_t begin = 0, end = 0; begin < texts.size(); begin = end) {
    end = batch_end(session.options(), texts, rows, begin);
    if (end == begin) return fail(ErrorCode::internal, "the session is too small for text {}", begin);
    TESSERA_TRY(session.clear());
    TESSERA_TRY(session.decode(batch_of(texts.subspan(begin, end - begin), rows), cancel));
    int64_t row = 0;
    for (size_t i = begin; i < end; ++i) {
      const int64_t n = nn::pooled_tokens(rows, static_cast<int64_t>(texts[i].size())).size();
      const std::span<const float> of_text(session.embedding(row).data(), to_size(n * model.n_embd));
      row += n;
      TESSERA_ASSIGN(const std::vector<float> values, result_of(session, pooling, of_text, cancel));
      if (!std::ranges::all_of(values, [](float v) { return std::isfinite(v); }))
        return fail(ErrorCode::format, "text {}: the model gives values that are not finite", i);
      TESSERA_TRY(visit(i, values));
    }
  }
  return {};
}

void normalize(std::span<float> x, int32_t norm) {
  double peak = 0, sum = 0;
  for (const float v : x) peak = std::max(peak, std::abs(double{v}));
  if (norm < 0 || peak == 0) return;
  // Values are divided by the peak first, so that the powers do not overflow, nor all underflow.
  for (const float v : x) sum += std::pow(std::abs(double{v}) / peak, norm);
  const double size = norm == 0 ? peak / kInt16Peak : peak * std::pow(sum, 1.0 / norm);
  for (float& v : x) v = static_cast<float>(double{v} / size);
}

}  // namespace tessera
