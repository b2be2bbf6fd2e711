// Vectors of texts and scores of documents.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/capi/objects.h"
#include "tessera/engine/embedding.h"
#include "tests/capi/capi_support.h"
#include "tests/support/tiny_encoder.h"

namespace tessera {
namespace {

using namespace testing;

using Vectors = std::vector<std::vector<float>>;

// Keeps what it is given; stops after some texts.
struct VectorKeeper {
  Vectors vectors{};
  size_t most = SIZE_MAX;

  static int32_t visit(void* user, uint64_t index, const float* values, uint64_t count) {
    auto& keeper = *static_cast<VectorKeeper*>(user);
    EXPECT_EQ(index, keeper.vectors.size());
    keeper.vectors.emplace_back(values, values + count);
    return keeper.vectors.size() == keeper.most ? 5 : 0;
  }
};

class CapiEmbedding : public ::testing::Test {
 protected:
  static tessera_embed_options embed_options() {
    tessera_embed_options options;
    tessera_embed_options_init(&options, sizeof options);
    return options;
  }
  ModelHandle open(const std::string& path) const {
    tessera_model* model = nullptr;
    EXPECT_SUCCESS(tessera_model_open(runtime_.get(), path.c_str(), nullptr, &model, error));
    EXPECT_SUCCESS(tessera_model_load(model, nullptr, nullptr, nullptr, error));
    return {model, tessera_model_release};
  }
  static TinyEncoder ranking_encoder() {
    TinyEncoder tiny("bert");
    tiny.linear("cls", TinyEncoder::kWidth, TinyEncoder::kWidth, true);
    tiny.linear("cls.output", TinyEncoder::kWidth, 2, true);
    tiny.builder.set_array("bert.classifier.output_labels", std::vector<std::string>{"no", "yes"});
    return tiny;
  }
  Vectors embedded(const tessera_embed_options* options, const int64_t* lengths = nullptr) const {
    VectorKeeper keeper;
    EXPECT_SUCCESS(tessera_embed(model_.get(), texts_.data(), lengths, texts_.size(), options, VectorKeeper::visit,
                                 &keeper, nullptr, error));
    return keeper.vectors;
  }

  // The engine's result, with the same sizes and normalized.
  Vectors of_engine(nn::Pooling pooling, int32_t norm) const {
    std::vector<std::vector<int32_t>> lists;
    for (const char* text : texts_) lists.push_back(tokens_of(model_.get(), text));
    const auto options = embedding_session(*model_->engine, lists, pooling, {});
    EXPECT_OK(options);
    const auto session = Session::create(model_->engine, *options);
    EXPECT_OK(session);
    Vectors vectors;
    const auto keep = [&](size_t, std::span<const float> values) -> Result<> {
      std::vector<float>& kept = vectors.emplace_back(values.begin(), values.end());
      for (size_t begin = 0; begin < kept.size(); begin += TinyEncoder::kWidth)
        normalize(std::span(kept).subspan(begin, TinyEncoder::kWidth), norm);
      return {};
    };
    EXPECT_OK(embed(**session, lists, pooling, keep, nullptr));
    return vectors;
  }

  RuntimeHandle runtime_ = create_runtime_handle();
  TinyEncoder tiny_ = ranking_encoder();
  ModelHandle model_ = open(tiny_.write("ranking.gguf"));
  std::vector<const char*> texts_ = {"a b c", "d", "b b b b b b z"};
};

TEST_F(CapiEmbedding, TextsBecomeVectors) {
  const Vectors vectors = embedded(nullptr);
  ASSERT_EQ(vectors.size(), 3u);
  EXPECT_EQ(vectors, of_engine(nn::Pooling::mean, 2));
  for (const auto& vector : vectors) {
    ASSERT_EQ(vector.size(), size_t{TinyEncoder::kWidth});
    double square = 0;
    for (const float v : vector) square += double{v} * double{v};
    EXPECT_NEAR(square, 1, 1e-6);
  }
  // The texts up to given lengths.
  const int64_t lengths[] = {1, -1, 3};
  const Vectors shorter = embedded(nullptr, lengths);
  EXPECT_NE(shorter[0], vectors[0]);
  EXPECT_EQ(shorter[1], vectors[1]);
  texts_ = {"a", "d", "b b"};
  EXPECT_EQ(shorter, embedded(nullptr));
}

TEST_F(CapiEmbedding, PoolingAndNormalizationAreThoseOfTheOptions) {
  const std::pair<int32_t, nn::Pooling> poolings[] = {{TESSERA_POOLING_DEFAULT, nn::Pooling::mean},
                                                      {TESSERA_POOLING_NONE, nn::Pooling::none},
                                                      {TESSERA_POOLING_MEAN, nn::Pooling::mean},
                                                      {TESSERA_POOLING_FIRST, nn::Pooling::cls},
                                                      {TESSERA_POOLING_LAST, nn::Pooling::last}};
  const std::pair<int32_t, int32_t> norms[] = {{TESSERA_NORMALIZE_EUCLIDEAN, 2},
                                               {TESSERA_NORMALIZE_NONE, -1},
                                               {TESSERA_NORMALIZE_TAXICAB, 1},
                                               {TESSERA_NORMALIZE_INT16, 0}};
  tessera_embed_options options = embed_options();
  for (const auto& [asked_pooling, pooling] : poolings)
    for (const auto& [asked_norm, norm] : norms) {
      options.pooling = asked_pooling;
      options.normalization = asked_norm;
      EXPECT_EQ(embedded(&options), of_engine(pooling, norm)) << asked_pooling << " " << asked_norm;
    }
  options.pooling = TESSERA_POOLING_NONE;
  EXPECT_EQ(embedded(&options)[1].size(), 3u * TinyEncoder::kWidth);  // [CLS] d [SEP]
  // Other sizes and threads give the same bits.
  const Vectors want = embedded(&options);
  options.n_ubatch = 4;
  options.n_threads = 1;
  options.n_ctx = 12;
  EXPECT_EQ(embedded(&options), want);
}

TEST_F(CapiEmbedding, ScoresAreThoseOfTheRankHead) {
  tessera_model_info info{};
  info.size = sizeof info;
  EXPECT_SUCCESS(tessera_model_info_get(model_.get(), &info, error));
  EXPECT_NE(info.flags & TESSERA_MODEL_HAS_RANK_HEAD, 0u);
  VectorKeeper keeper;
  EXPECT_SUCCESS(tessera_rank(model_.get(), "a bXX", 3, texts_.data(), nullptr, texts_.size(), nullptr,
                              VectorKeeper::visit, &keeper, nullptr, error));
  ASSERT_EQ(keeper.vectors.size(), 3u);
  for (size_t i = 0; i < texts_.size(); ++i) {
    const auto tokens = rank_tokens(*model_->engine, "a b", texts_[i]);
    ASSERT_OK(tokens);
    Vec hidden = tiny_.mul("cls", tiny_.forward(*tokens)[0]);
    for (double& h : hidden) h = std::tanh(h);
    const Vec want = tiny_.mul("cls.output", hidden);
    ASSERT_EQ(keeper.vectors[i].size(), 2u);
    for (size_t c = 0; c < 2; ++c) EXPECT_NEAR(keeper.vectors[i][c], want[c], 4e-3);  // the cache is F16
    // The same from a vector of a session.
    tessera_session_options options;
    tessera_session_options_init(&options, sizeof options);
    options.n_ctx = 64;
    options.flags = TESSERA_SESSION_EMBEDDINGS;
    const SessionHandle session = create_session_handle(model_.get(), &options);
    tessera_batch_token batch[32];
    for (size_t t = 0; t < tokens->size(); ++t)
      batch[t] = {(*tokens)[t], -1, 0, t == 0 ? uint32_t{TESSERA_WANTS_OUTPUT} : 0};
    EXPECT_SUCCESS(tessera_session_decode(session.get(), batch, tokens->size(), nullptr, error));
    uint64_t n = 0, needed = 0;
    const float* row = tessera_session_output(session.get(), 0, &n);
    const std::vector<float> pooled(row, row + n);
    float scores[2] = {};
    EXPECT_STATUS(tessera_session_rank(session.get(), pooled.data(), n, scores, 1, &needed, nullptr, error),
                  TESSERA_LIMIT, "scores: 2 are needed, room is for 1");
    EXPECT_EQ(needed, 2u);
    EXPECT_SUCCESS(tessera_session_rank(session.get(), pooled.data(), n, scores, 2, &needed, nullptr, error));
    EXPECT_EQ(std::vector<float>(scores, scores + 2), keeper.vectors[i]);
    EXPECT_STATUS(tessera_session_rank(session.get(), pooled.data(), n - 1, scores, 2, &needed, nullptr, error),
                  TESSERA_MISMATCH, "embedding: 23 values, the model has 24");
    EXPECT_STATUS(tessera_session_rank(session.get(), nullptr, n, scores, 2, &needed, nullptr, error),
                  TESSERA_INVALID_ARGUMENT, "embedding: is NULL");
    EXPECT_STATUS(tessera_session_rank(session.get(), pooled.data(), n, nullptr, 2, &needed, nullptr, error),
                  TESSERA_INVALID_ARGUMENT, "scores: is NULL");
  }
  EXPECT_STATUS(tessera_session_rank(nullptr, keeper.vectors[0].data(), 2, nullptr, 2, nullptr, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "session: is NULL");
  const ModelHandle story = open_story(runtime_.get());
  const SessionHandle session = create_session_handle(story.get());
  const std::vector<float> row(64);
  float score = 0;
  EXPECT_STATUS(tessera_session_rank(session.get(), row.data(), 64, &score, 1, nullptr, nullptr, error),
                TESSERA_UNSUPPORTED, "no rank head");
  EXPECT_STATUS(tessera_rank(story.get(), "a", -1, texts_.data(), nullptr, 1, nullptr, VectorKeeper::visit, &keeper,
                             nullptr, error),
                TESSERA_UNSUPPORTED, "no rank head");
}

// The memory of the session counts while it runs.
TEST_F(CapiEmbedding, TakesItsShareOfTheBudget) {
  const uint64_t before = tessera_runtime_memory(runtime_.get());
  struct Seen {
    tessera_runtime* runtime;
    uint64_t most = 0;
  } seen{runtime_.get()};
  const auto visit = [](void* user, uint64_t, const float*, uint64_t) {
    auto& to = *static_cast<Seen*>(user);
    to.most = std::max(to.most, tessera_runtime_memory(to.runtime));
    return 0;
  };
  EXPECT_SUCCESS(tessera_embed(model_.get(), texts_.data(), nullptr, 3, nullptr, visit, &seen, nullptr, error));
  EXPECT_GT(seen.most, before + 1000);
  EXPECT_EQ(tessera_runtime_memory(runtime_.get()), before);
}

TEST_F(CapiEmbedding, StopsOnRequest) {
  VectorKeeper keeper{.most = 2};
  const auto embed_all = [&](tessera_cancel* cancel, tessera_error* error) {
    return tessera_embed(model_.get(), texts_.data(), nullptr, texts_.size(), nullptr, VectorKeeper::visit, &keeper,
                         cancel, error);
  };
  EXPECT_STATUS(embed_all(nullptr, error), TESSERA_CANCELLED, "text 1: the callback stopped: 5");
  EXPECT_EQ(keeper.vectors.size(), 2u);
  keeper = {};
  tessera_cancel* created = nullptr;
  EXPECT_SUCCESS(tessera_cancel_create(&created, error));
  const CancelHandle cancel(created, tessera_cancel_release);
  tessera_cancel_set(created);
  EXPECT_STATUS(embed_all(created, error), TESSERA_CANCELLED, "");
  EXPECT_STATUS(tessera_rank(model_.get(), "a", -1, texts_.data(), nullptr, 3, nullptr, VectorKeeper::visit, &keeper,
                             created, error),
                TESSERA_CANCELLED, "");
  EXPECT_EQ(keeper.vectors.size(), 0u);
  EXPECT_STATUS(embed_all(as_handle<tessera_cancel>(model_.get()), error), TESSERA_INVALID_ARGUMENT,
                "cancel: is a handle of another kind");
}

TEST_F(CapiEmbedding, RefusesWrongArguments) {
  VectorKeeper keeper;
  const auto visit = VectorKeeper::visit;
  EXPECT_STATUS(tessera_embed(nullptr, texts_.data(), nullptr, 3, nullptr, visit, &keeper, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "model: is NULL");
  EXPECT_STATUS(tessera_embed(as_handle<tessera_model>(runtime_.get()), texts_.data(), nullptr, 3, nullptr, visit,
                              &keeper, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "model: is a handle of another kind");
  EXPECT_STATUS(tessera_embed(model_.get(), nullptr, nullptr, 3, nullptr, visit, &keeper, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "texts: is NULL");
  EXPECT_STATUS(tessera_embed(model_.get(), texts_.data(), nullptr, 3, nullptr, nullptr, &keeper, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "visit: is NULL");
  EXPECT_STATUS(tessera_embed(model_.get(), texts_.data(), nullptr, 0, nullptr, visit, &keeper, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "no texts");
  const char* const missing[] = {"a", nullptr};
  EXPECT_STATUS(tessera_embed(model_.get(), missing, nullptr, 2, nullptr, visit, &keeper, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "text 1: is NULL");
  const int64_t lengths[] = {0, -2, 1};
  EXPECT_STATUS(tessera_embed(model_.get(), texts_.data(), lengths, 3, nullptr, visit, &keeper, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "text 1: length -2");
  EXPECT_STATUS(
      tessera_rank(model_.get(), nullptr, -1, texts_.data(), nullptr, 3, nullptr, visit, &keeper, nullptr, error),
      TESSERA_INVALID_ARGUMENT, "query: is NULL");
  EXPECT_STATUS(tessera_rank(model_.get(), "a", -1, nullptr, nullptr, 3, nullptr, visit, &keeper, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "texts: is NULL");
  EXPECT_STATUS(
      tessera_rank(model_.get(), "a", -1, texts_.data(), nullptr, 3, nullptr, nullptr, &keeper, nullptr, error),
      TESSERA_INVALID_ARGUMENT, "visit: is NULL");
  EXPECT_STATUS(tessera_rank(nullptr, "a", -1, texts_.data(), nullptr, 3, nullptr, visit, &keeper, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "model: is NULL");
  const ModelHandle unloaded = open_story(runtime_.get(), false);
  EXPECT_STATUS(tessera_embed(unloaded.get(), texts_.data(), nullptr, 3, nullptr, visit, &keeper, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "model: call tessera_model_load() first");
  const auto refuse = [&](auto change, tessera_status status, const std::string& text) {
    tessera_embed_options options = embed_options();
    change(options);
    EXPECT_STATUS(tessera_embed(model_.get(), texts_.data(), nullptr, 3, &options, visit, &keeper, nullptr, error),
                  status, text);
    if (status != TESSERA_INVALID_ARGUMENT) return;
    EXPECT_STATUS(
        tessera_rank(model_.get(), "a", -1, texts_.data(), nullptr, 3, &options, visit, &keeper, nullptr, error),
        status, text);
  };
  refuse([](auto& o) { o.size = 0; }, TESSERA_INVALID_ARGUMENT, "options: size is 0");
  refuse([](auto& o) { o.pooling = 5; }, TESSERA_INVALID_ARGUMENT, "pooling: 5, want 0 to 4");
  refuse([](auto& o) { o.pooling = -1; }, TESSERA_INVALID_ARGUMENT, "pooling: -1");
  refuse([](auto& o) { o.normalization = 4; }, TESSERA_INVALID_ARGUMENT, "normalization: 4, want 0 to 3");
  refuse([](auto& o) { o.normalization = -1; }, TESSERA_INVALID_ARGUMENT, "normalization: -1");
  refuse([](auto& o) { o.n_threads = -1; }, TESSERA_INVALID_ARGUMENT, "n_threads: -1");
  refuse([](auto& o) { o.n_threads = 3; }, TESSERA_INVALID_ARGUMENT, "n_threads: 3, want 0 to those of the runtime, 2");
  refuse([](auto& o) { o.n_ctx = -1; }, TESSERA_INVALID_ARGUMENT, "n_ctx: -1");
  refuse([](auto& o) { o.n_ubatch = -1; }, TESSERA_INVALID_ARGUMENT, "n_ubatch: -1");
  refuse([](auto& o) { o.n_ubatch = 65537; }, TESSERA_INVALID_ARGUMENT, "n_ubatch: 65537, want 0 to 65536");
  refuse([](auto& o) { o.n_ctx = 8; }, TESSERA_LIMIT, "text 2 has 9 tokens, the context holds 8");
  EXPECT_EQ(keeper.vectors.size(), 0u);
}

}  // namespace
}  // namespace tessera
