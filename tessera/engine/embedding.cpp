#include "tessera/engine/embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/base/index.h"

namespace tessera {

namespace {

constexpr int32_t kMaxTextsAtOnce = 64;
constexpr int32_t kMaxCausalTexts = 16;    // of unknown length: each takes a part of a cache block
constexpr int32_t kMaxRecurrentTexts = 8;  // and has a state
constexpr double kInt16Peak = 32760;
constexpr std::string_view kRankTemplate = "tokenizer.chat_template.rerank";

// The pooling of a text's rows to one vector. For rank, the pooling that the model's rank head expects.
nn::Pooling row_pooling(const ModelInfo& model, nn::Pooling pooling) {
  return pooling == nn::Pooling::rank ? model.rank_pooling : pooling;
}

bool needs_every_row(const ModelInfo& model, nn::Pooling pooling) {
  const nn::Pooling rows = row_pooling(model, pooling);
  return rows == nn::Pooling::none || rows == nn::Pooling::mean;
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

// A template with its placeholders replaced. Texts may hold the names of placeholders.
struct RankPrompt {
  std::string text{};
  std::vector<text::ByteRange> given{};
};

RankPrompt rank_prompt(std::string_view source, std::string_view query, std::string_view document) {
  constexpr std::string_view kQuery = "{query}", kDocument = "{document}";
  RankPrompt prompt;
  while (true) {
    const size_t at = std::min(source.find(kQuery), source.find(kDocument));
    prompt.text += source.substr(0, at);
    if (at == std::string_view::npos) return prompt;
    const bool is_query = source.substr(at).starts_with(kQuery);
    const size_t begin = prompt.text.size();
    prompt.text += is_query ? query : document;
    if (prompt.text.size() > begin) prompt.given.push_back({begin, prompt.text.size()});
    source.remove_prefix(at + (is_query ? kQuery : kDocument).size());
  }
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

// Learned position embeddings exist only for the trained context.
int64_t embedding_context(const Engine& engine, int64_t n_ctx) {
  const int64_t trained = engine.model().info().n_ctx_train;
  if (n_ctx == 0 || engine.model().weights().has("position_embd.weight"))
    return n_ctx == 0 ? trained : std::min(n_ctx, trained);
  return n_ctx;
}

Result<SessionOptions> embedding_session(const Engine& engine, TokenLists texts, nn::Pooling pooling,
                                         const SessionOptions& given) {
  const ModelInfo& model = engine.model().info();
  const int64_t bound = embedding_context(engine, given.n_ctx);
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
  options.part = SessionPart::model;
  const int64_t n_tokens = std::min(bound, std::max(longest, std::min(total, given.n_ubatch)));
  options.n_ctx = depends_on_context(model) ? bound : n_tokens;
  options.n_ubatch = model.embeds_causally() ? std::min(given.n_ubatch, n_tokens) : n_tokens;
  options.n_sequences = static_cast<int32_t>(std::min(texts.size(), to_size(kMaxTextsAtOnce)));
  options.n_outputs = needs_every_row(model, pooling) ? n_tokens : options.n_sequences;
  return options;
}

SessionOptions embedding_session(const Engine& engine, const EmbeddingUse& use, const SessionOptions& given) {
  const ModelInfo& model = engine.model().info();
  SessionOptions options = given;
  options.embeddings = true;
  options.part = SessionPart::model;
  options.n_checkpoints = options.n_cache_marks = 0;
  options.n_cache_tokens = 0;
  options.n_ctx = embedding_context(engine, given.n_ctx);
  if (!model.embeds_causally()) options.n_ctx = options.n_ubatch = std::min(options.n_ctx, kMaxUbatch);
  options.n_ubatch = std::min(options.n_ubatch, options.n_ctx);
  const int32_t n_causal = model.recurrent_layers.empty() ? kMaxCausalTexts : kMaxRecurrentTexts;
  const int32_t n_texts = model.embeds_causally() ? n_causal : kMaxTextsAtOnce;
  options.n_sequences = static_cast<int32_t>(std::min(options.n_ubatch, int64_t{n_texts}));
  const bool needs_rows =
      (use.pooling && needs_every_row(model, *use.pooling)) || (use.ranks && needs_every_row(model, nn::Pooling::rank));
  options.n_outputs = needs_rows ? options.n_ubatch : options.n_sequences;
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
      TextPooler pooler(model, pooling, static_cast<int64_t>(texts[i].size()));
      const int64_t n = pooler.wanted().size();
      pooler.add({session.embedding(row).data(), to_size(n * model.n_embd)});
      row += n;
      auto values = pooler.finish(session, cancel);
      if (!values) return forward_error(values, fmt::format("text {}", i));
      TESSERA_TRY(visit(i, *values));
    }
  }
  return {};
}

TextPooler::TextPooler(const ModelInfo& model, nn::Pooling pooling, int64_t n_tokens)
    : pooling_(pooling),
      is_mean_(row_pooling(model, pooling) == nn::Pooling::mean),
      wanted_(nn::pooled_tokens(row_pooling(model, pooling), n_tokens)),
      mean_(to_size(is_mean_ ? model.n_embd : 0)) {}

void TextPooler::add(std::span<const float> rows) {
  if (is_mean_) return mean_.add(rows);
  rows_.insert(rows_.end(), rows.begin(), rows.end());
}

Result<std::vector<float>> TextPooler::finish(Session& session, const CancelToken* cancel) const {
  std::vector<float> values = rows_;
  if (is_mean_) {
    values.resize(to_size(session.engine().model().info().n_embd));
    mean_.write(values);
  }
  const bool is_projected = session.engine().model().info().projects_pooled && pooling_ != nn::Pooling::none;
  if (pooling_ == nn::Pooling::rank || is_projected) {
    TESSERA_ASSIGN(values, session.rank(values, cancel));
  }
  if (!std::ranges::all_of(values, [](float v) { return std::isfinite(v); }))
    return fail(ErrorCode::format, "the model gives values that are not finite");
  return values;
}

Result<std::vector<int32_t>> rank_tokens(const Engine& engine, std::string_view query, std::string_view document) {
  const text::Tokenizer& tokenizer = engine.tokenizer();
  const Metadata& metadata = engine.files().metadata();
  if (metadata.find(kRankTemplate) != nullptr) {
    TESSERA_ASSIGN(const auto source, metadata.get<std::string_view>(kRankTemplate));
    const RankPrompt prompt = rank_prompt(source, query, document);
    return tokenizer.tokenize(prompt.text, {.parse_special = true, .given = prompt.given});
  }
  const text::TokenizeOptions options{.add_special = true};
  TESSERA_ASSIGN(std::vector<int32_t> tokens, tokenizer.tokenize(query, options));
  TESSERA_ASSIGN(const std::vector<int32_t> of_document, tokenizer.tokenize(document, options));
  TESSERA_ASSIGN(const std::vector<int32_t> specials, tokenizer.tokenize("", options));
  const text::Vocab& vocab = tokenizer.vocab();
  const bool has_first = specials.size() > 1 || (specials.size() == 1 && vocab.add_bos());
  const auto separator = vocab.special(text::SpecialToken::separator);
  if (vocab.add_sep() && separator && vocab.model() != "bert") tokens.push_back(*separator);
  tokens.insert(tokens.end(), of_document.begin() + (has_first ? 1 : 0), of_document.end());
  return tokens;
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
