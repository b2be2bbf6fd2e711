// tessera.h: vectors of texts, and scores of documents.
#include <fmt/format.h>

#include <array>
#include <optional>

#include "tessera/base/index.h"
#include "tessera/capi/boundary.h"
#include "tessera/capi/objects.h"
#include "tessera/capi/plans.h"
#include "tessera/engine/embedding.h"

using namespace tessera;
using capi::guarded;

namespace {

constexpr tessera_embed_options kEmbedDefaults = {};

using AskedPooling = std::optional<nn::Pooling>;
constexpr std::array kPoolings = {AskedPooling(), AskedPooling(nn::Pooling::none), AskedPooling(nn::Pooling::mean),
                                  AskedPooling(nn::Pooling::cls), AskedPooling(nn::Pooling::last)};
constexpr std::array<int32_t, 4> kNorms = {2, -1, 1, 0};  // as normalize() takes them

// The entry of a table that an enumeration of a caller names.
template <class Table>
Result<typename Table::value_type> entry_of(const Table& table, int32_t number, std::string_view name) {
  if (number >= 0 && static_cast<size_t>(number) < table.size()) return table[static_cast<size_t>(number)];
  return fail(ErrorCode::invalid_argument, "{}: {}, want 0 to {}", name, number, table.size() - 1);
}

struct EmbedRequest {
  AskedPooling pooling{};
  int32_t norm = 2;
  SessionOptions session{};
};

Result<EmbedRequest> embed_request(const tessera_model& model, const tessera_embed_options* options) {
  TESSERA_ASSIGN(const auto wanted, capi::read_sized(options, kEmbedDefaults, "options"));
  EmbedRequest request;
  TESSERA_ASSIGN(request.pooling, entry_of(kPoolings, wanted.pooling, "pooling"));
  TESSERA_ASSIGN(request.norm, entry_of(kNorms, wanted.normalization, "normalization"));
  TESSERA_TRY(capi::set_threads(model, wanted.n_threads, request.session));
  if (wanted.n_ctx < 0) return fail(ErrorCode::invalid_argument, "n_ctx: {}, want 0 or more", wanted.n_ctx);
  if (wanted.n_ubatch < 0 || wanted.n_ubatch > kMaxUbatch)
    return fail(ErrorCode::invalid_argument, "n_ubatch: {}, want 0 to {}", wanted.n_ubatch, kMaxUbatch);
  request.session.n_ctx = wanted.n_ctx;
  if (wanted.n_ubatch != 0) request.session.n_ubatch = wanted.n_ubatch;
  return request;
}

struct Visitor {
  tessera_vector_function function;
  void* user;

  Result<> operator()(size_t index, std::span<const float> values) const {
    const int32_t answer = function(user, index, values.data(), values.size());
    if (answer == 0) return {};
    return fail(ErrorCode::cancelled, "text {}: the callback stopped: {}", index, answer);
  }
};

Result<> require_embeddable(const tessera_model* model, tessera_vector_function visit) {
  TESSERA_TRY(capi::require(model, "model"));
  TESSERA_TRY(capi::require_pointer(visit, "visit"));
  if (model->is_loaded) return {};
  return fail(ErrorCode::invalid_argument, "model: call tessera_model_load() first");
}

// The tokens of each text of a caller, by a function of the text.
Result<std::vector<std::vector<int32_t>>> tokens_of_all(
    const char* const* texts, const int64_t* lengths, uint64_t count,
    FunctionRef<Result<std::vector<int32_t>>(std::string_view)> tokens_of) {
  TESSERA_ASSIGN(const auto given, capi::read_items(texts, count, "texts"));
  std::vector<std::vector<int32_t>> lists;
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string name = fmt::format("text {}", i);
    TESSERA_ASSIGN(const auto text, capi::read_text(given[i], lengths == nullptr ? -1 : lengths[i], name));
    auto tokens = tokens_of(text);
    if (!tokens) return forward_error(tokens, name);
    lists.push_back(std::move(*tokens));
  }
  return lists;
}

Result<> embed_tokens(const tessera_model& model, const std::vector<std::vector<int32_t>>& texts, nn::Pooling pooling,
                      const SessionOptions& given, EmbeddingVisitor visit, const CancelToken* cancel) {
  TESSERA_ASSIGN(const SessionOptions options, embedding_session(*model.engine, texts, pooling, given));
  TESSERA_ASSIGN(const auto memory, capi::take_session_memory(model, options));
  TESSERA_ASSIGN(const auto session, capi::create_session(model, options));
  return embed(*session, texts, pooling, visit, cancel);
}

}  // namespace

void tessera_embed_options_init(tessera_embed_options* options, size_t size) {
  capi::write_sized(options, size, kEmbedDefaults);
}

tessera_status tessera_embed(tessera_model* model, const char* const* texts, const int64_t* lengths, uint64_t count,
                             const tessera_embed_options* options, tessera_vector_function visit, void* user,
                             tessera_cancel* cancel, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(require_embeddable(model, visit));
    TESSERA_ASSIGN(const CancelToken* const token, capi::token_of(cancel));
    TESSERA_ASSIGN(const EmbedRequest request, embed_request(*model, options));
    const Engine& engine = *model->engine;
    TESSERA_ASSIGN(const nn::Pooling pooling, embedding_pooling(engine, request.pooling));
    TESSERA_ASSIGN(const auto lists, tokens_of_all(texts, lengths, count, [&](std::string_view text) {
                     return engine.tokenizer().tokenize(text, {.add_special = true});
                   }));
    const auto n_embd = to_size(engine.model().info().n_embd);
    const Visitor visitor{visit, user};
    std::vector<float> vectors;
    const auto normalized = [&](size_t index, std::span<const float> values) {
      vectors.assign(values.begin(), values.end());
      for (size_t begin = 0; begin < vectors.size(); begin += n_embd)
        normalize(std::span(vectors).subspan(begin, n_embd), request.norm);
      return visitor(index, vectors);
    };
    return embed_tokens(*model, lists, pooling, request.session, normalized, token);
  });
}

tessera_status tessera_rank(tessera_model* model, const char* query, int64_t query_length, const char* const* documents,
                            const int64_t* lengths, uint64_t count, const tessera_embed_options* options,
                            tessera_vector_function visit, void* user, tessera_cancel* cancel, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(require_embeddable(model, visit));
    TESSERA_ASSIGN(const CancelToken* const token, capi::token_of(cancel));
    TESSERA_ASSIGN(const EmbedRequest request, embed_request(*model, options));
    TESSERA_ASSIGN(const std::string_view asked, capi::read_text(query, query_length, "query"));
    const Engine& engine = *model->engine;
    TESSERA_ASSIGN(const nn::Pooling pooling, embedding_pooling(engine, nn::Pooling::rank));
    TESSERA_ASSIGN(const auto lists, tokens_of_all(documents, lengths, count, [&](std::string_view document) {
                     return rank_tokens(engine, asked, document);
                   }));
    const Visitor visitor{visit, user};
    return embed_tokens(*model, lists, pooling, request.session, visitor, token);
  });
}

tessera_status tessera_session_rank(tessera_session* session, const float* embedding, uint64_t count, float* scores,
                                    uint64_t room, uint64_t* needed, tessera_cancel* cancel, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(session, "session"));
    TESSERA_ASSIGN(const CancelToken* const token, capi::token_of(cancel));
    TESSERA_ASSIGN(const auto given, capi::read_items(embedding, count, "embedding"));
    const auto n_embd = to_size(session->model->engine->model().info().n_embd);
    if (given.size() != n_embd)
      return fail(ErrorCode::mismatch, "embedding: {} values, the model has {}", given.size(), n_embd);
    TESSERA_ASSIGN(const std::vector<float> found, session->session->rank(given, token));
    return capi::write_items(std::span(found), scores, room, needed, "scores");
  });
}
