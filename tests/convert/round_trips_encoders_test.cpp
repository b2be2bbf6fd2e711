// Classes of encoders (tests/convert/round_trip.h).
#include "tests/convert/round_trip.h"

namespace tessera::convert {
namespace {

using namespace testing;

/// The parts that encoders differ in.
struct EncoderForm {
  std::string architecture{};
  bool has_bias = true;    // of all matrices
  bool is_joined = false;  // q, k and v are one matrix
  int64_t n_up = 192;      // rows of ffn_up
};

/// Two layers with norms after their parts.
FloatModel bert_like(const EncoderForm& form) {
  FloatModel m = empty_model(form.architecture);
  m.keys.set(form.architecture + ".attention.head_count_kv", 4u);
  m.keys.set(form.architecture + ".attention.layer_norm_epsilon", 1e-5f);
  m.keys.set(form.architecture + ".attention.causal", false);
  m.keys.set("tokenizer.ggml.token_type_count", 2u);
  add_weight(m, "token_embd.weight", {128, 256});
  add_weight(m, "token_types.weight", {128, 2});
  add_norm(m, "token_embd_norm", 128, true);
  for (const int il : {0, 1}) {
    const auto name = [&](const char* part) { return of_layer(il, part); };
    if (form.is_joined) {
      add_linear(m, name("attn_qkv"), 128, 384, form.has_bias);
    } else {
      for (const char* part : {"attn_q", "attn_k", "attn_v"}) add_linear(m, name(part), 128, 128, form.has_bias);
    }
    add_linear(m, name("attn_output"), 128, 128, form.has_bias);
    add_norm(m, name("attn_output_norm"), 128, true);
    add_linear(m, name("ffn_up"), 128, form.n_up, form.has_bias && form.n_up == 192);
    add_linear(m, name("ffn_down"), 192, 128, form.has_bias);
    add_norm(m, name("layer_output_norm"), 128, true);
  }
  return m;
}

nlohmann::json encoder_config(const nlohmann::json& more = nlohmann::json::object()) {
  nlohmann::json config = {
      {"num_key_value_heads", nullptr}, {"rms_norm_eps", nullptr}, {"layer_norm_eps", 1e-5}, {"type_vocab_size", 2}};
  config.merge_patch(more);
  return config;
}

const std::vector<HubRow> kJinaHubRows = {{"embeddings.word_embeddings.weight", "token_embd.weight"},
                                          {"embeddings.token_type_embeddings.weight", "token_types.weight"},
                                          {"embeddings.LayerNorm.{}", "token_embd_norm.{}"},
                                          {"encoder.layer.{i}.attention.self.query.{}", "attn_q.{}"},
                                          {"encoder.layer.{i}.attention.self.key.{}", "attn_k.{}"},
                                          {"encoder.layer.{i}.attention.self.value.{}", "attn_v.{}"},
                                          {"encoder.layer.{i}.attention.output.dense.{}", "attn_output.{}"},
                                          {"encoder.layer.{i}.attention.output.LayerNorm.{}", "attn_output_norm.{}"}};

std::vector<HubRow> with_rows(const std::vector<HubRow>& rows, const std::vector<HubRow>& more) {
  std::vector<HubRow> all = rows;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(RoundTripsEncoders, JinaBert2) {
  expect_round_trip({.class_name = "JinaBertForMaskedLM",
                     .model = bert_like({.architecture = "jina-bert-v2", .n_up = 2 * 192}),
                     .config = encoder_config(),
                     .rows = with_rows(kJinaHubRows, {{"encoder.layer.{i}.mlp.gated_layers.weight", "ffn_up.weight"},
                                                      {"encoder.layer.{i}.mlp.wo.{}", "ffn_down.{}"},
                                                      {"encoder.layer.{i}.mlp.layernorm.{}", "layer_output_norm.{}"}}),
                     .extra = {"pooler.dense.weight", "cls.predictions.bias"},
                     .is_encoder = true});
}

TEST(RoundTripsEncoders, JinaBert2OfCodeHasUpBeforeTheGate) {
  FloatModel m = bert_like({.architecture = "jina-bert-v2"});
  for (const int il : {0, 1}) {
    m.drop(of_layer(il, "ffn_up.bias"));
    add_linear(m, of_layer(il, "ffn_gate"), 128, 192);
    for (const char* part : {"attn_q_norm", "attn_k_norm", "attn_norm_2"}) add_norm(m, of_layer(il, part), 128, true);
  }
  expect_round_trip(
      {.class_name = "JinaBertModel",
       .model = m,
       .config = encoder_config(),
       .rows =
           with_rows(kJinaHubRows, {{"encoder.layer.{i}.attention.self.layer_norm_q.{}", "attn_q_norm.{}"},
                                    {"encoder.layer.{i}.attention.self.layer_norm_k.{}", "attn_k_norm.{}"},
                                    {"encoder.layer.{i}.layer_norm_1.{}", "attn_norm_2.{}"},
                                    {"encoder.layer.{i}.mlp.up_gated_layer.weight", "ffn_up.weight ffn_gate.weight"},
                                    {"encoder.layer.{i}.mlp.down_layer.{}", "ffn_down.{}"},
                                    {"encoder.layer.{i}.layer_norm_2.{}", "layer_output_norm.{}"}}),
       .is_encoder = true});
}

TEST(RoundTripsEncoders, JinaBert3WithoutItsAdapters) {
  const std::string layer = "roberta.encoder.layers.{i}.", end = ".parametrizations.weight.original";
  const std::vector<HubRow> rows = {{"roberta.embeddings.word_embeddings" + end, "token_embd.weight"},
                                    {"roberta.embeddings.token_type_embeddings" + end, "token_types.weight"},
                                    {"roberta.emb_ln.{}", "token_embd_norm.{}"},
                                    {layer + "mixer.Wqkv" + end, "attn_qkv.weight"},
                                    {layer + "mixer.Wqkv.bias", "attn_qkv.bias"},
                                    {layer + "mixer.out_proj" + end, "attn_output.weight"},
                                    {layer + "mixer.out_proj.bias", "attn_output.bias"},
                                    {layer + "mlp.fc1" + end, "ffn_up.weight"},
                                    {layer + "mlp.fc1.bias", "ffn_up.bias"},
                                    {layer + "mlp.fc2" + end, "ffn_down.weight"},
                                    {layer + "mlp.fc2.bias", "ffn_down.bias"},
                                    {layer + "norm1.{}", "attn_output_norm.{}"},
                                    {layer + "norm2.{}", "layer_output_norm.{}"}};
  expect_round_trip({.class_name = "XLMRobertaModel",
                     .model = bert_like({.architecture = "jina-bert-v3", .is_joined = true}),
                     .config = encoder_config({{"lora_adaptations", {"retrieval.query"}},
                                               {"rope_theta", nullptr},
                                               {"rotary_emb_base", 10000},
                                               {"max_position_embeddings", 130},
                                               {"pad_token_id", 1}}),
                     .rows = rows,
                     .extra = {"roberta.encoder.layers.0.mixer.Wqkv.parametrizations.weight.0.lora_A",
                               "roberta.embeddings.word_embeddings.parametrizations.weight.0.lora_B",
                               "roberta.pooler.dense.parametrizations.weight.original"},
                     .is_encoder = true});
  ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(temporary_path("round_trip.gguf")));
  EXPECT_EQ(files->metadata().get<uint32_t>("jina-bert-v3.context_length").value(), 128u);
}

TEST(RoundTripsEncoders, RobertaCountsOnlyUsedPositions) {
  FloatModel m = bert_like({.architecture = "bert"});
  add_weight(m, "position_embd.weight", {128, 128});
  const auto with_unused = [](std::vector<HubPiece> p) {
    p[0].shape[0] += 2;
    p[0].values.insert(p[0].values.begin(), 2 * 128, 9.0f);
    return std::move(p[0]);
  };
  expect_round_trip(
      {.class_name = "RobertaModel",
       .model = m,
       .config = encoder_config({{"max_position_embeddings", 130}, {"pad_token_id", 1}}),
       .rows = with_rows(kJinaHubRows, {{"embeddings.position_embeddings.weight", "position_embd.weight", with_unused},
                                        {"encoder.layer.{i}.intermediate.dense.{}", "ffn_up.{}"},
                                        {"encoder.layer.{i}.output.dense.{}", "ffn_down.{}"},
                                        {"encoder.layer.{i}.output.LayerNorm.{}", "layer_output_norm.{}"}}),
       .is_encoder = true});
}

TEST(RoundTripsEncoders, NomicBertMoe) {
  FloatModel m = bert_like({.architecture = "nomic-bert-moe", .is_joined = true});
  for (const char* part : {"ffn_up.weight", "ffn_up.bias", "ffn_down.weight", "ffn_down.bias"})
    m.drop(of_layer(1, part));
  add_weight(m, "blk.1.ffn_up_exps.weight", {128, 192, 4});
  add_weight(m, "blk.1.ffn_down_exps.weight", {192, 128, 4});
  add_linear(m, "blk.1.ffn_gate_inp", 128, 4);
  m.keys.set("nomic-bert-moe.moe_every_n_layers", 2u);
  m.keys.set("nomic-bert-moe.expert_count", 4u);
  m.keys.set("nomic-bert-moe.expert_used_count", 2u);
  RoundTrip trip{.class_name = "NomicBertModel",
                 .model = m,
                 .config = encoder_config({{"num_experts", 4},
                                           {"moe_top_k", 2},
                                           {"moe_every_n_layers", 2},
                                           {"n_positions", 2048},
                                           {"rotary_emb_base", 10000},
                                           {"rotary_emb_fraction", 1.0}}),
                 .rows = {{"embeddings.word_embeddings.weight", "token_embd.weight"},
                          {"embeddings.token_type_embeddings.weight", "token_types.weight"},
                          {"emb_ln.{}", "token_embd_norm.{}"},
                          {"encoder.layers.{i}.attn.Wqkv.{}", "attn_qkv.{}"},
                          {"encoder.layers.{i}.attn.out_proj.{}", "attn_output.{}"},
                          {"encoder.layers.{i}.mlp.fc1.{}", "ffn_up.{}"},
                          {"encoder.layers.{i}.mlp.fc2.{}", "ffn_down.{}"},
                          {"encoder.layers.{i}.mlp.router.layer.weight", "ffn_gate_inp.weight"},
                          {"encoder.layers.{i}.mlp.experts.mlp.w1", "ffn_up_exps.weight", reshaped_to({-1, 128})},
                          {"encoder.layers.{i}.mlp.experts.mlp.w2", "ffn_down_exps.weight",
                           [](std::vector<HubPiece> p) {
                             return reshaped_to({-1, 128})({exchanged(std::move(p[0]))});
                           }},
                          {"encoder.layers.{i}.norm1.{}", "attn_output_norm.{}"},
                          {"encoder.layers.{i}.norm2.{}", "layer_output_norm.{}"}},
                 .extra = {"encoder.layers.1.mlp.experts.bias"},
                 .is_encoder = true};
  expect_round_trip(trip);
  ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(temporary_path("round_trip.gguf")));
  EXPECT_EQ(files->metadata().get<uint32_t>("nomic-bert-moe.context_length").value(), 512u);
  trip.config["rotary_emb_interleaved"] = true;
  EXPECT_ERROR(convert_to_floats(hub_folder_of(trip).write("refused")), "want prenorm false");
}

TEST(RoundTripsEncoders, EuroBert) {
  FloatModel m = twin_of("qwen2-dense", "eurobert");
  m.drop("output.weight");
  for (const int il : {0, 1})
    for (const char* part : {"attn_q.bias", "attn_k.bias", "attn_v.bias"}) m.drop(of_layer(il, part));
  RoundTrip trip{.class_name = "EuroBertForMaskedLM", .model = m, .extra = {"lm_head.weight"}, .is_encoder = true};
  expect_round_trip(trip);
  // Models without a head leave out "model.".
  trip.class_name = "EuroBertModel";
  trip.extra.clear();
  HubFolder folder = hub_folder_of(trip);
  for (HubTensor& tensor : folder.tensors) tensor.name.erase(0, std::strlen("model."));
  ASSERT_OK_AND_ASSIGN(const std::string output, convert_to_floats(folder.write("bare")));
  expect_tensors_of(output, trip.model, 0);
}

/// Rows of q, k and v of the first head, then those of the next one.
HubPiece thirds_by_head(std::vector<HubPiece> p) {
  constexpr int64_t kHeads = 4, kHead = 32;
  HubPiece all{.shape = p[0].shape};
  for (int64_t h = 0; h < kHeads; ++h)
    for (int64_t third = 0; third < 3; ++third) {
      const auto first = p[0].values.begin() + (third * kHeads + h) * kHead * p[0].n_columns();
      all.values.insert(all.values.end(), first, first + kHead * p[0].n_columns());
    }
  return all;
}

TEST(RoundTripsEncoders, NeoBert) {
  FloatModel m = empty_model("neo-bert");
  m.keys.set("neo-bert.attention.head_count_kv", 4u);
  add_weight(m, "token_embd.weight", {128, 256});
  add_norm(m, "enc.output_norm", 128);
  for (const int il : {0, 1}) {
    add_linear(m, of_layer(il, "attn_qkv"), 128, 384);
    add_linear(m, of_layer(il, "attn_output"), 128, 128);
    add_linear(m, of_layer(il, "ffn_up"), 128, 384);
    add_linear(m, of_layer(il, "ffn_down"), 192, 128);
    for (const char* norm : {"attn_norm", "ffn_norm"}) add_norm(m, of_layer(il, norm), 128);
  }
  const std::string layer = "model.transformer_encoder.{i}.";
  expect_round_trip({.class_name = "NeoBERTLMHead",
                     .model = m,
                     .config = {{"num_key_value_heads", nullptr},
                                {"rms_norm_eps", nullptr},
                                {"norm_eps", 1e-5},
                                {"intermediate_size", 288},
                                {"max_position_embeddings", nullptr},
                                {"max_length", 128}},
                     .rows = {{"model.encoder.weight", "token_embd.weight"},
                              {"model.layer_norm.weight", "enc.output_norm.weight"},
                              {layer + "attention_norm.weight", "attn_norm.weight"},
                              {layer + "qkv.weight", "attn_qkv.weight", thirds_by_head},
                              {layer + "wo.weight", "attn_output.weight"},
                              {layer + "ffn_norm.weight", "ffn_norm.weight"},
                              {layer + "ffn.w12.weight", "ffn_up.weight"},
                              {layer + "ffn.w3.weight", "ffn_down.weight"}},
                     .extra = {"decoder.weight", "decoder.bias"},
                     .is_encoder = true});
}

}  // namespace
}  // namespace tessera::convert
