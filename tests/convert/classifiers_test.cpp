// Scores of converted classifiers against those that their heads give by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/convert/conversion.h"
#include "tessera/engine/embedding.h"
#include "tests/convert/checkpoint_folder.h"
#include "tests/convert/hub_folder.h"
#include "tests/support/engine_support.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

constexpr int64_t kScoreWidth = 32;

// A Qwen 3 of two layers. labels: of id2label.
HubFolder qwen3_classifier(int64_t n_rows, const std::string& labels) {
  HubFolder folder{.config = R"({"architectures": ["Qwen3ForSequenceClassification"], "hidden_size": 32,
      "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "head_dim": 8, "vocab_size": 40, "max_position_embeddings": 64, "tie_word_embeddings": true, "id2label": )" +
                             labels + "}"};
  folder.add("score.weight", {n_rows, kScoreWidth});
  folder.add("model.embed_tokens.weight", {40, kScoreWidth});
  folder.add("model.norm.weight", {kScoreWidth});
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
      folder.add(layer + norm + ".weight", {kScoreWidth});
    for (const char* norm : {"q_norm", "k_norm"}) folder.add(layer + "self_attn." + norm + ".weight", {8});
    folder.add(layer + "self_attn.q_proj.weight", {32, kScoreWidth});
    folder.add(layer + "self_attn.k_proj.weight", {16, kScoreWidth});
    folder.add(layer + "self_attn.v_proj.weight", {16, kScoreWidth});
    folder.add(layer + "self_attn.o_proj.weight", {kScoreWidth, 32});
    folder.add(layer + "mlp.gate_proj.weight", {48, kScoreWidth});
    folder.add(layer + "mlp.up_proj.weight", {48, kScoreWidth});
    folder.add(layer + "mlp.down_proj.weight", {kScoreWidth, 48});
  }
  return folder;
}

Result<std::shared_ptr<Engine>> classifier_engine(const HubFolder& folder) {
  const std::string vocabulary = write_folder(
      "classifier-vocabulary",
      {{"tokenizer.json", R"({"pre_tokenizer":{"type":"ByteLevel","use_regex":true},"model":{"type":"BPE",)"
                          R"("vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})"}});
  QuantizeOptions options;
  options.mix.file_type = FileType::bf16;
  const std::string output = temporary_path("classifier.gguf");
  TESSERA_ASSIGN(const auto conversion,
                 Conversion::open(folder.write("classifier"), FileType::bf16, {.vocabulary = {.folder = vocabulary}}));
  conversion->apply_to(options);
  TESSERA_ASSIGN(const auto plan, plan_quantize(conversion->files(), options));
  TESSERA_ASSIGN(const auto threads, ThreadPool::create({.n_threads = 1}));
  const auto progress = [](float) { return true; };
  TESSERA_TRY(write_quantized(conversion->files(), plan, options, output, {*threads, nullptr, progress}));
  return load_engine(output);
}

Result<std::vector<float>> pooled_text(const std::shared_ptr<Engine>& engine, nn::Pooling pooling) {
  const std::vector<std::vector<int32_t>> texts{{3, 1, 4, 1, 5}};
  TESSERA_ASSIGN(const SessionOptions options, embedding_session(*engine, texts, pooling, {}));
  TESSERA_ASSIGN(const auto session, Session::create(engine, options));
  std::vector<float> result;
  TESSERA_TRY(embed(
      *session, texts, pooling,
      [&](size_t, std::span<const float> values) {
        result.assign(values.begin(), values.end());
        return Result<>();
      },
      nullptr));
  return result;
}

// The products of the rows of score.weight with the embedding of the last token.
std::vector<double> products_of_head(HubFolder& folder, std::span<const float> last) {
  const HubTensor& score = folder.find("score.weight");
  std::vector<double> products(static_cast<size_t>(score.shape[0]));
  for (size_t i = 0; i < products.size() * last.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, score.bytes.data() + 2 * i, sizeof bits);
    products[i / last.size()] += double{bf16_to_f32(bits)} * double{last[i % last.size()]};
  }
  return products;
}

TEST(Classifiers, AScoreAloneIsASigmoid) {
  HubFolder folder = qwen3_classifier(1, R"({"0": "LABEL_0"})");
  ASSERT_OK_AND_ASSIGN(const auto engine, classifier_engine(folder));
  ASSERT_OK_AND_ASSIGN(const auto last, pooled_text(engine, nn::Pooling::last));
  ASSERT_OK_AND_ASSIGN(const auto scores, pooled_text(engine, nn::Pooling::rank));
  ASSERT_EQ(scores.size(), 2u);
  const double logit = products_of_head(folder, last)[0];
  EXPECT_GT(std::abs(logit), 0.1);
  EXPECT_NEAR(scores[0], 1 / (1 + std::exp(-logit)), 1e-3);  // products of BF16
}

TEST(Classifiers, ScoresOfLabelsAreShares) {
  HubFolder folder = qwen3_classifier(3, R"({"0": "a", "1": "b", "2": "c"})");
  ASSERT_OK_AND_ASSIGN(const auto engine, classifier_engine(folder));
  ASSERT_OK_AND_ASSIGN(const auto last, pooled_text(engine, nn::Pooling::last));
  ASSERT_OK_AND_ASSIGN(const auto scores, pooled_text(engine, nn::Pooling::rank));
  ASSERT_EQ(scores.size(), 3u);
  const std::vector<double> logits = products_of_head(folder, last);
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(scores[i], std::exp(logits[i]) / sum, 1e-3);
}

}  // namespace
}  // namespace tessera::convert
