// Vectors and scores of texts: pooling, normalization, ranking heads, and refusals.
#include "tessera/engine/embedding.h"

#include <cmath>
#include <numeric>

#include "tessera/isa/sets.h"
#include "tests/support/editable_model.h"
#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"
#include "tests/support/tiny_encoder.h"

namespace tessera {
namespace {

using namespace testing;
using nn::Pooling;

using Texts = std::vector<std::vector<int32_t>>;
using Vectors = std::vector<std::vector<float>>;

Result<Vectors> embedded(const std::shared_ptr<Engine>& engine, const Texts& texts, Pooling pooling,
                         const SessionOptions& given = {}) {
  TESSERA_ASSIGN(const SessionOptions options, embedding_session(*engine, texts, pooling, given));
  TESSERA_ASSIGN(const auto session, Session::create(engine, options));
  Vectors vectors;
  const auto keep = [&](size_t text, std::span<const float> values) -> Result<> {
    EXPECT_EQ(text, vectors.size());
    vectors.emplace_back(values.begin(), values.end());
    return {};
  };
  TESSERA_TRY(embed(*session, texts, pooling, keep, nullptr));
  return vectors;
}

// Returns different texts with these numbers of tokens.
Texts texts_of(const Engine& engine, std::initializer_list<int64_t> sizes) {
  Texts texts;
  for (const int64_t n : sizes) texts.push_back(token_ids(engine, n, static_cast<uint32_t>(n) + 1));
  return texts;
}

std::shared_ptr<Engine> load_tiny(TinyEncoder tiny, const std::string& isa = "") {
  return load_engine(tiny.write("tiny.gguf"), {}, isa).value();
}

TEST(Embedding, PoolsTheRowsOfATextsTokens) {
  const auto engine = load_tiny(TinyEncoder("bert"));
  const Texts texts = texts_of(*engine, {5, 9});
  ASSERT_OK_AND_ASSIGN(const Vectors rows, embedded(engine, texts, Pooling::none));
  ASSERT_OK_AND_ASSIGN(const Vectors mean, embedded(engine, texts, Pooling::mean));
  ASSERT_OK_AND_ASSIGN(const Vectors cls, embedded(engine, texts, Pooling::cls));
  ASSERT_OK_AND_ASSIGN(const Vectors last, embedded(engine, texts, Pooling::last));
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t n = texts[i].size(), width = TinyEncoder::kWidth;
    ASSERT_EQ(rows[i].size(), n * width);
    for (size_t c = 0; c < width; ++c) {
      double sum = 0;
      for (size_t t = 0; t < n; ++t) sum += double{rows[i][t * width + c]};
      EXPECT_EQ(mean[i][c], static_cast<float>(sum / static_cast<double>(n)));
      EXPECT_EQ(cls[i][c], rows[i][c]);
      EXPECT_EQ(last[i][c], rows[i][(n - 1) * width + c]);
    }
  }
}

// Checks that a text's vector has the same bits alone, with other texts, and for other batches, micro-batches and
// numbers of threads.
void check_same_bits(const std::shared_ptr<Engine>& engine, Pooling pooling) {
  Texts texts = texts_of(*engine, {1, 70, 3, 33, 64, 65, 12});
  ASSERT_OK_AND_ASSIGN(const Vectors together, embedded(engine, texts, pooling, {.n_ubatch = 512}));
  for (size_t i = 0; i < texts.size(); ++i) {
    ASSERT_OK_AND_ASSIGN(const Vectors alone, embedded(engine, {texts[i]}, pooling));
    EXPECT_TRUE(same_bits(alone[0], together[i])) << i;
  }
  ASSERT_OK_AND_ASSIGN(const Vectors small,
                       embedded(engine, texts, pooling, {.n_ubatch = 7, .threads = {.n_threads = 3}}));
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_TRUE(same_bits(small[i], together[i])) << i;
  std::swap(texts[0], texts[5]);
  ASSERT_OK_AND_ASSIGN(const Vectors swapped, embedded(engine, texts, pooling, {.n_ubatch = 100}));
  EXPECT_TRUE(same_bits(swapped[5], together[0]));
  EXPECT_TRUE(same_bits(swapped[0], together[5]));
}

TEST(Embedding, OfATextIsTheSameBitsWithAnyOthers) {
  for (const std::string& isa : isa::usable_isas())
    for (const char* architecture : {"bert", "nomic-bert", "modern-bert"}) {
      SCOPED_TRACE(isa + " " + architecture);
      const auto engine = load_tiny(TinyEncoder(architecture), isa);
      check_same_bits(engine, Pooling::mean);
      check_same_bits(engine, Pooling::cls);
    }
}

TEST(Embedding, OfACausalModelIsTheSameBitsToo) {
  const std::string path = story_model();
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path));
  check_same_bits(engine, Pooling::last);
  check_same_bits(engine, Pooling::mean);
  // The last token's vector depends on the whole text, the first token's only on the first token.
  const Texts texts = texts_of(*engine, {20});
  ASSERT_OK_AND_ASSIGN(const Vectors last, embedded(engine, texts, Pooling::last));
  ASSERT_OK_AND_ASSIGN(const Vectors first, embedded(engine, texts, Pooling::cls));
  EXPECT_NE(last, first);
}

TEST(Embedding, OfMoreTextsThanABatchHolds) {
  const auto engine = load_tiny(TinyEncoder("bert"));
  Texts texts;
  for (size_t i = 0; i < 150; ++i) texts.push_back({2, static_cast<int32_t>(i % 20), static_cast<int32_t>(i / 20), 3});
  ASSERT_OK_AND_ASSIGN(const Vectors all, embedded(engine, texts, Pooling::cls));
  ASSERT_EQ(all.size(), texts.size());
  for (const size_t i : {0u, 63u, 64u, 127u, 128u, 149u}) {
    ASSERT_OK_AND_ASSIGN(const Vectors alone, embedded(engine, {texts[i]}, Pooling::cls));
    EXPECT_TRUE(same_bits(alone[0], all[i])) << i;
  }
}

TEST(Embedding, RefusesTextsThatAreTooLongOrEmpty) {
  const auto engine = load_tiny(TinyEncoder("bert"));
  const auto plan = [&](const Texts& texts, int64_t n_ctx) {
    return embedding_session(*engine, texts, Pooling::mean, {.n_ctx = n_ctx});
  };
  const Texts long_texts = texts_of(*engine, {4, 97});
  EXPECT_ERROR(plan(long_texts, 0), "text 1 has 97 tokens, the context holds 96");
  EXPECT_ERROR(plan(long_texts, 1000), "text 1 has 97 tokens, the context holds 96");  // positions are learned
  EXPECT_ERROR(plan(long_texts, 3), "text 0 has 4 tokens, the context holds 3");
  EXPECT_OK(plan(texts_of(*engine, {96}), 0));
  EXPECT_ERROR(plan({{1}, {}}, 0), "text 1 has no tokens");
  EXPECT_ERROR(plan({}, 0), "no texts");
  const auto rotary = load_tiny(TinyEncoder("nomic-bert"));
  EXPECT_OK(embedded(rotary, long_texts, Pooling::mean, {.n_ctx = 128}));
}

TEST(Embedding, ASequenceOfAnEncoderIsComputedAtOnce) {
  const auto engine = load_tiny(TinyEncoder("bert"));
  ASSERT_OK_AND_ASSIGN(const auto session,
                       Session::create(engine, {.n_ctx = 96, .n_ubatch = 8, .n_sequences = 3, .embeddings = true}));
  const auto decode = [&](std::initializer_list<std::pair<int32_t, int32_t>> sequences_and_counts) {
    Batch batch;
    for (const auto& [sequence, n] : sequences_and_counts)
      for (int32_t p = 0; p < n; ++p) batch.add({.token = 5, .position = p, .sequence = sequence});
    return session->decode(batch);
  };
  EXPECT_ERROR(decode({{0, 9}}), "a sequence of 9 tokens, micro-batch of 8 (option n_ubatch)");
  EXPECT_ERROR(decode({{0, 2}, {1, 1}, {0, 2}}), "sequence 0 comes in pieces");
  EXPECT_OK(decode({{0, 5}, {1, 5}, {2, 3}}));  // two micro-batches
  EXPECT_ERROR(decode({{1, 1}}), "sequence 1 comes in pieces");
  ASSERT_OK(session->remove(1, 0, 96));
  EXPECT_OK(decode({{1, 1}}));
}

TEST(Embedding, PoolingIsTheFlagsThenTheModelsThenTheMean) {
  const auto plain = load_tiny(TinyEncoder("bert"));
  EXPECT_EQ(embedding_pooling(*plain, std::nullopt).value(), Pooling::mean);
  EXPECT_ERROR(embedding_pooling(*plain, Pooling::rank), "pooling rank: the model has no rank head");
  TinyEncoder tiny("bert");
  tiny.key("pooling_type", uint32_t{2});
  const auto cls = load_tiny(tiny);
  EXPECT_EQ(embedding_pooling(*cls, std::nullopt).value(), Pooling::cls);
  EXPECT_EQ(embedding_pooling(*cls, Pooling::last).value(), Pooling::last);
  tiny.key("pooling_type", uint32_t{5});
  EXPECT_ERROR(load_engine(tiny.write("tiny.gguf")), "key 'bert.pooling_type': 5, want 0 to 4");
}

TEST(Embedding, RankIsTheHeadOnTheFirstToken) {
  TinyEncoder tiny("bert");
  tiny.linear("cls", TinyEncoder::kWidth, TinyEncoder::kWidth, true);
  tiny.linear("cls.output", TinyEncoder::kWidth, 1, true);
  const auto engine = load_tiny(tiny);
  const Texts texts = texts_of(*engine, {6, 20});
  ASSERT_OK_AND_ASSIGN(const Vectors scores,
                       embedded(engine, texts, Pooling::rank, {.type_k = DType::f32, .type_v = DType::f32}));
  for (size_t i = 0; i < texts.size(); ++i) {
    Vec hidden = tiny.mul("cls", tiny.forward(texts[i])[0]);
    for (double& h : hidden) h = std::tanh(h);
    ASSERT_EQ(scores[i].size(), 1u);
    EXPECT_NEAR(scores[i][0], tiny.mul("cls.output", hidden)[0], 2e-4);  // as the encoders' tests
  }
}

TEST(Embedding, ModernBertRanksTheMean) {
  TinyEncoder tiny("modern-bert");
  tiny.linear("cls", TinyEncoder::kWidth, TinyEncoder::kWidth, false);
  tiny.norm("cls.norm", false);
  tiny.linear("cls.output", TinyEncoder::kWidth, 2, true);
  tiny.builder.set_array("modern-bert.classifier.output_labels", std::vector<std::string>{"no", "yes"});
  const auto engine = load_tiny(tiny);
  const Texts texts = texts_of(*engine, {11});
  ASSERT_OK_AND_ASSIGN(const Vectors scores,
                       embedded(engine, texts, Pooling::rank, {.type_k = DType::f32, .type_v = DType::f32}));
  const Rows rows = tiny.forward(texts[0]);
  Vec mean(TinyEncoder::kWidth, 0.0);
  for (const Vec& row : rows)
    for (size_t c = 0; c < mean.size(); ++c) mean[c] += row[c] / static_cast<double>(rows.size());
  Vec hidden = tiny.mul("cls", mean);
  for (double& h : hidden) h = TinyEncoder::gelu(h);
  const Vec expected = tiny.mul("cls.output", tiny.layer_norm("cls.norm", hidden));
  ASSERT_EQ(scores[0].size(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(scores[0][i], expected[i], 1e-3);  // the norm divides by a small spread
}

TEST(Embedding, Qwen3RanksTheLastTokenByShares) {
  const std::string path = arch_model("qwen3-dense");
  ASSERT_OK_AND_ASSIGN(const auto plain, load_engine(path));
  const int64_t n_embd = plain->model().info().n_embd;
  Rng rng(8);
  std::vector<float> weights(static_cast<size_t>(2 * n_embd));
  for (float& w : weights) w = rng.next_float(-0.1f, 0.1f);
  // A copy of the file whose head has two labels.
  ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::open(path));
  GgufBuilder builder;
  EXPECT_OK(builder.set_all(file->metadata()));
  builder.set_array("qwen3.classifier.output_labels", std::vector<std::string>{"yes", "no"});
  std::vector<std::span<const std::byte>> data;
  for (const GgufTensor& tensor : file->tensors()) {
    const bool is_head = tensor.name == "cls.output.weight";
    EXPECT_OK(builder.add_tensor(tensor.name, tensor.dtype, is_head ? Shape{n_embd, 2} : tensor.shape));
    data.push_back(is_head ? std::as_bytes(std::span(weights)) : file->data(tensor));
  }
  ASSERT_OK_AND_ASSIGN(const auto bytes, gguf_to_bytes(builder, data));
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(write_temporary("rank.gguf", text)));
  const Texts texts = texts_of(*engine, {9, 4});
  ASSERT_OK_AND_ASSIGN(const Vectors scores, embedded(engine, texts, Pooling::rank));
  ASSERT_OK_AND_ASSIGN(const Vectors last, embedded(plain, texts, Pooling::last));
  for (size_t i = 0; i < texts.size(); ++i) {
    double logits[2] = {};
    for (size_t c = 0; c < last[i].size(); ++c)
      for (size_t label : {0u, 1u}) logits[label] += double{weights[label * last[i].size() + c]} * double{last[i][c]};
    ASSERT_EQ(scores[i].size(), 2u);
    EXPECT_NEAR(scores[i][0], 1 / (1 + std::exp(logits[1] - logits[0])), 1e-5);  // f32 against double
    EXPECT_NEAR(scores[i][0] + scores[i][1], 1, 1e-6);
  }
}

// Options of a session for texts that are not known: those of the longest text fit.
TEST(Embedding, ASessionMayBeForAnyTexts) {
  const auto bert = load_tiny(TinyEncoder("bert"));
  const SessionOptions whole = embedding_session(*bert, {.pooling = Pooling::mean}, {.n_ubatch = 32});
  EXPECT_TRUE(whole.embeddings);
  EXPECT_EQ(whole.n_ctx, 96);
  EXPECT_EQ(whole.n_ubatch, 96);
  EXPECT_EQ(whole.n_outputs, 96);
  const SessionOptions cls = embedding_session(*bert, {.pooling = Pooling::cls}, {.n_ctx = 1000});
  EXPECT_EQ(cls.n_ctx, 96);  // positions are learned
  EXPECT_EQ(cls.n_outputs, cls.n_sequences);
  ASSERT_OK_AND_ASSIGN(const auto story, load_engine(story_model()));
  const SessionOptions causal =
      embedding_session(*story, {.pooling = Pooling::mean}, {.n_ctx = 4096, .n_ubatch = 32, .n_cache_tokens = 100});
  EXPECT_EQ(causal.n_ctx, 4096);
  EXPECT_EQ(causal.n_ubatch, 32);
  EXPECT_EQ(causal.n_outputs, 32);
  EXPECT_EQ(causal.n_cache_tokens, 0);
  for (const auto& [engine, options] : {std::pair(bert, whole), std::pair(bert, cls), std::pair(story, causal)})
    EXPECT_OK(Session::create(engine, options));
}

TEST(RankTokens, AreTheQueryThenTheDocument) {
  const auto engine = load_tiny(TinyEncoder("bert"));
  const auto letter = TinyEncoder::letter;
  EXPECT_EQ(rank_tokens(*engine, "a b", "c").value(),
            (std::vector<int32_t>{2, letter('a'), letter('b'), 3, letter('c'), 3}));
}

TEST(RankTokens, ComeFromTheTemplateOfTheModel) {
  TinyEncoder tiny("bert");
  tiny.builder.set("tokenizer.chat_template.rerank", "[CLS] q {query} d {document} [SEP]");
  const auto engine = load_tiny(tiny);
  const auto letter = TinyEncoder::letter;
  EXPECT_EQ(rank_tokens(*engine, "a b", "c").value(),
            (std::vector<int32_t>{2, letter('q'), letter('a'), letter('b'), letter('d'), letter('c'), 3}));
  // Texts are no control tokens and no placeholders.
  const auto tokens = rank_tokens(*engine, "{document}", "[SEP]").value();
  EXPECT_EQ(std::ranges::count(tokens, 3), 1);
  EXPECT_EQ(std::ranges::count(tokens, letter('d')), 1);
}

TEST(Embedding, IsWhatLogitsAreMadeOf) {
  const std::string path = arch_model("qwen3-dense");
  EditableModel model(path);
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path));
  const std::vector<int32_t> tokens = token_ids(*engine, 5);
  ASSERT_OK_AND_ASSIGN(const auto of_logits, Session::create(engine, {.n_ctx = 64, .n_outputs = 5}));
  ASSERT_OK_AND_ASSIGN(const auto of_rows, Session::create(engine, {.n_ctx = 64, .n_outputs = 5, .embeddings = true}));
  ASSERT_OK(of_logits->decode(all_logits(tokens)));
  ASSERT_OK(of_rows->decode(all_logits(tokens)));
  const std::vector<std::byte>& bytes = model.tensor("output.weight");
  std::vector<float> weights(bytes.size() / sizeof(float));
  std::memcpy(weights.data(), bytes.data(), bytes.size());
  for (int64_t t = 0; t < 5; ++t) {
    const auto row = of_rows->embedding(t), logits = of_logits->logits(t);
    ASSERT_EQ(weights.size(), row.size() * logits.size());
    for (size_t v = 0; v < logits.size(); ++v) {
      double sum = 0;
      for (size_t c = 0; c < row.size(); ++c) sum += double{weights[v * row.size() + c]} * double{row[c]};
      ASSERT_NEAR(logits[v], sum, 1e-4 * std::max(1.0, std::abs(sum)));  // f32 against double
    }
  }
}

TEST(Embedding, LabelsAreAsManyAsTheOutputHas) {
  TinyEncoder tiny("bert");
  tiny.linear("cls.output", TinyEncoder::kWidth, 2, true);
  EXPECT_ERROR(load_engine(tiny.write("one.gguf")), "tensor cls.output.weight is [24, 2], the model's keys want [24]");
  tiny = TinyEncoder("bert");
  tiny.linear("cls.output", TinyEncoder::kWidth, 1, true);
  tiny.builder.set_array("bert.classifier.output_labels", std::vector<std::string>{});  // same as an absent key
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(tiny.write("none.gguf")));
  EXPECT_EQ(engine->model().info().n_scores, 1);
  tiny = TinyEncoder("bert");
  tiny.builder.set("bert.classifier.output_labels", "no");
  EXPECT_ERROR(load_engine(tiny.write("text.gguf")), "key 'bert.classifier.output_labels': want an array of at most");
}

TEST(Embedding, RefusesWhatIsNotFinite) {
  TinyEncoder tiny("bert");
  tiny.weights["token_embd.weight"][TinyEncoder::kWidth * 7] = INFINITY;
  const auto engine = load_tiny(tiny);
  EXPECT_ERROR(embedded(engine, {{2, 3}, {2, 7, 3}}, Pooling::mean),
               "text 1: the model gives values that are not finite");
}

TEST(Normalize, DividesByTheNormThatIsAskedFor) {
  const auto normalized = [](std::vector<float> x, int32_t norm) {
    normalize(x, norm);
    return x;
  };
  EXPECT_EQ(normalized({3, -4}, -1), (std::vector<float>{3, -4}));
  EXPECT_EQ(normalized({3, -4}, 0), (std::vector<float>{24570, -32760}));
  EXPECT_EQ(normalized({3, -5}, 1), (std::vector<float>{0.375f, -0.625f}));
  EXPECT_EQ(normalized({3, -4}, 2), (std::vector<float>{0.6f, -0.8f}));
  const double cubic = std::cbrt(27.0 + 64.0);
  EXPECT_EQ(normalized({3, -4}, 3),
            (std::vector<float>{static_cast<float>(3 / cubic), static_cast<float>(-4 / cubic)}));
  for (const int32_t norm : {-1, 0, 1, 2, 3}) EXPECT_EQ(normalized({0, 0}, norm), (std::vector<float>{0, 0}));
  EXPECT_EQ(normalized({1e-30f, 0}, 1000), (std::vector<float>{1, 0}));  // no power vanishes
}

}  // namespace
}  // namespace tessera
