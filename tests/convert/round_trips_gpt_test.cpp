// Classes of models with the names of GPT-2 (tests/convert/round_trip.h).
#include "tests/convert/round_trip.h"

namespace tessera::convert {
namespace {

using namespace testing;

const std::vector<HubRow> kGptHubRows = {{"transformer.wte.weight", "token_embd.weight"},
                                         {"transformer.wpe.weight", "position_embd.weight"},
                                         {"transformer.ln_f.{}", "output_norm.{}"},
                                         {"transformer.h.{i}.ln_1.{}", "attn_norm.{}"},
                                         {"transformer.h.{i}.ln_2.{}", "ffn_norm.{}"},
                                         {"transformer.h.{i}.attn.c_attn.{}", "attn_qkv.{}"},
                                         {"transformer.h.{i}.attn.c_proj.{}", "attn_output.{}"},
                                         {"transformer.h.{i}.mlp.c_fc.{}", "ffn_up.{}"},
                                         {"transformer.h.{i}.mlp.c_proj.{}", "ffn_down.{}"}};

/// The rows of a class before those of all.
std::vector<HubRow> gpt_rows(std::vector<HubRow> rows) {
  rows.insert(rows.end(), kGptHubRows.begin(), kGptHubRows.end());
  return rows;
}

const nlohmann::json kGptConfig = {{"rms_norm_eps", nullptr},
                                   {"layer_norm_epsilon", 1e-5},
                                   {"intermediate_size", nullptr},
                                   {"n_inner", 192},
                                   {"num_key_value_heads", nullptr}};

/// Keeps the first n rows of matrices and biases whose name has this end.
void keep_rows(FloatModel& m, const std::string& part, int64_t n) {
  for (FloatModel::Entry& entry : m.tensors) {
    if (entry.name.find(part) == std::string::npos) continue;
    const int rank = entry.shape[1] > 1 ? 1 : 0;
    const int64_t n_row = rank == 1 ? entry.shape[0] : 1;
    entry.shape[rank] = n;
    entry.values.resize(static_cast<size_t>(n * n_row));
  }
}

/// q, k and v become one matrix, and their biases one.
void join_qkv(FloatModel& m) {
  for (const int il : {0, 1})
    for (const std::string end : {"weight", "bias"}) {
      if (m.find(of_layer(il, "attn_q." + end)) == nullptr) continue;
      FloatModel::Entry qkv = m.at(of_layer(il, "attn_q." + end));
      qkv.name = of_layer(il, "attn_qkv." + end);
      for (const std::string part : {"attn_k.", "attn_v."}) {
        const FloatModel::Entry& more = m.at(of_layer(il, part + end));
        qkv.values.insert(qkv.values.end(), more.values.begin(), more.values.end());
        qkv.shape[end == "weight" ? 1 : 0] += more.shape[end == "weight" ? 1 : 0];
      }
      for (const std::string part : {"attn_q.", "attn_k.", "attn_v."}) m.drop(of_layer(il, part + end));
      m.tensors.push_back(std::move(qkv));
    }
}

TEST(RoundTripsGpt, StarCoder) {
  FloatModel m = spec_float_model("starcoder-dense");
  keep_rows(m, "attn_qkv", 128 + 2 * 32);
  m.keys.set("starcoder.attention.head_count_kv", 1u);
  RoundTrip trip{.class_name = "GPTBigCodeForCausalLM", .model = m, .config = kGptConfig, .rows = kGptHubRows};
  expect_round_trip(trip);
  trip.config["multi_query"] = false;
  EXPECT_FALSE(convert_to_floats(hub_folder_of(trip).write("refused")).has_value());
}

TEST(RoundTripsGpt, CodeShell) {
  RoundTrip trip{.class_name = "CodeShellForCausalLM",
                 .model = spec_float_model("codeshell-dense"),
                 .config = kGptConfig,
                 .rows = kGptHubRows,
                 .extra = {"transformer.h.0.attn.rotary_emb.inv_freq"}};
  trip.config["num_query_groups"] = 2;
  join_qkv(trip.model);
  expect_round_trip(trip);
}

TEST(RoundTripsGpt, Refact) {
  FloatModel m =
      spec_float_model("refact-dense", {"ffn_gate.bias", "ffn_up.bias", "ffn_down.bias", "attn_output.bias",
                                        "rope_freqs.weight", ".attn_q.bias", ".attn_k.bias", ".attn_v.bias"});
  keep_rows(m, "attn_k.", 32);
  keep_rows(m, "attn_v.", 32);
  m.keys.set("refact.attention.head_count_kv", 1u);
  RoundTrip trip{.class_name = "GPTRefactForCausalLM",
                 .model = m,
                 .config = kGptConfig,
                 .rows = gpt_rows({{"transformer.h.{i}.attn.q.weight", "attn_q.weight"},
                                   {"transformer.h.{i}.attn.kv.weight", "attn_k.weight attn_v.weight"},
                                   {"transformer.h.{i}.mlp.gate_up_proj.weight", "ffn_gate.weight ffn_up.weight"}})};
  trip.config["n_inner"] = nullptr;
  expect_round_trip(trip);
}

TEST(RoundTripsGpt, Qwen1) {
  FloatModel m = spec_float_model("qwen-dense");
  m.keys.set("qwen.attention.head_count_kv", 4u);
  RoundTrip trip{.class_name = "QWenLMHeadModel",
                 .model = m,
                 .config = kGptConfig,
                 .rows = gpt_rows({{"transformer.h.{i}.mlp.w1.weight", "ffn_up.weight"},
                                   {"transformer.h.{i}.mlp.w2.weight", "ffn_gate.weight"}})};
  trip.config.merge_patch({{"intermediate_size", 192}, {"n_inner", nullptr}, {"seq_length", 128}});
  expect_round_trip(trip);
}

TEST(RoundTripsGpt, JaisHasScaledOuterLayers) {
  FloatModel m = spec_float_model("jais-dense");
  for (FloatModel::Entry& entry : m.tensors) {
    if (entry.name.find("attn_qkv") == std::string::npos) continue;
    const int rank = entry.shape[1] > 1 ? 1 : 0;
    entry.shape[rank] = 384;
    entry.values = spec_weights(entry.name, static_cast<size_t>(entry.shape.n_elements()), 0, 0.2, 3);
  }
  m.keys.set("jais.attention.head_count_kv", 4u);
  const auto divided_by = [](float divisor) {
    return [=](std::vector<HubPiece> p) {
      for (float& value : p[0].values) value /= divisor;
      return std::move(p[0]);
    };
  };
  std::vector<HubRow> rows = {{"transformer.wte.weight", "token_embd.weight", divided_by(4.0f)},
                              {"lm_head.weight", "output.weight", divided_by(0.5f)}};
  for (const auto& [hub, gguf] :
       std::initializer_list<std::pair<std::string, std::string>>{{"attn.c_attn", "attn_qkv"},
                                                                  {"attn.c_proj", "attn_output"},
                                                                  {"mlp.c_fc", "ffn_up"},
                                                                  {"mlp.c_fc2", "ffn_gate"},
                                                                  {"mlp.c_proj", "ffn_down"}}) {
    rows.push_back({"transformer.h.{i}." + hub + ".weight", gguf + ".weight", exchanged_one});
    rows.push_back({"transformer.h.{i}." + hub + ".bias", gguf + ".bias"});
  }
  RoundTrip trip{.class_name = "JAISLMHeadModel",
                 .model = m,
                 .config = kGptConfig,
                 .rows = gpt_rows(rows),
                 .extra = {"transformer.relative_pe.slopes"}};
  trip.config.merge_patch({{"mup_embeddings_scale", 4.0},
                           {"mup_output_alpha", 2.0},
                           {"mup_width_scale", 0.25},
                           {"activation_function", "swiglu"},
                           {"position_embedding_type", "alibi"}});
  expect_round_trip(trip);
}

TEST(RoundTripsGpt, Dbrx) {
  const std::string layer = "transformer.blocks.{i}.";
  const HubChange joined = reshaped_to({-1, 128});
  expect_round_trip({.class_name = "DbrxForCausalLM",
                     .model = spec_float_model("dbrx-moe"),
                     .config = {{"hidden_size", nullptr},
                                {"d_model", 128},
                                {"num_attention_heads", nullptr},
                                {"n_heads", 4},
                                {"num_hidden_layers", nullptr},
                                {"n_layers", 2},
                                {"max_position_embeddings", nullptr},
                                {"max_seq_len", 128},
                                {"rms_norm_eps", nullptr},
                                {"attn_config", {{"kv_n_heads", 2}, {"clip_qkv", 1.0}, {"rope_theta", 10000.0}}},
                                {"ffn_config", {{"ffn_hidden_size", 192}, {"moe_num_experts", 4}, {"moe_top_k", 2}}}},
                     .rows = {{"transformer.wte.weight", "token_embd.weight"},
                              {"transformer.norm_f.weight", "output_norm.weight"},
                              {layer + "norm_attn_norm.norm_1.weight", "attn_norm.weight"},
                              {layer + "norm_attn_norm.norm_2.weight", "attn_output_norm.weight"},
                              {layer + "norm_attn_norm.attn.Wqkv.weight", "attn_qkv.weight"},
                              {layer + "norm_attn_norm.attn.out_proj.weight", "attn_output.weight"},
                              {layer + "ffn.router.layer.weight", "ffn_gate_inp.weight"},
                              {layer + "ffn.experts.mlp.w1", "ffn_gate_exps.weight", joined},
                              {layer + "ffn.experts.mlp.v1", "ffn_up_exps.weight", joined},
                              {layer + "ffn.experts.mlp.w2", "ffn_down_exps.weight", [=](std::vector<HubPiece> p) {
                                 p[0] = exchanged(std::move(p[0]));
                                 return joined(std::move(p));
                               }}}});
}

/// GLM 4 in GGUF: gate and up in one matrix.
FloatModel chat_glm() {
  FloatModel m = twin_of("llama-dense", "chatglm");
  for (const int il : {0, 1}) {
    FloatModel::Entry& up = m.at(of_layer(il, "ffn_up.weight"));
    const std::vector<float> gate = m.at(of_layer(il, "ffn_gate.weight")).values;
    up.values.insert(up.values.begin(), gate.begin(), gate.end());
    up.shape[1] *= 2;
    m.drop(of_layer(il, "ffn_gate.weight"));
  }
  m.keys.set("chatglm.rope.dimension_count", 16u);
  return m;
}

TEST(RoundTripsGpt, Glm) {
  expect_round_trip({.class_name = "GlmForCausalLM",
                     .model = chat_glm(),
                     .config = {{"head_dim", 32}, {"partial_rotary_factor", 0.5}},
                     .rows = {{"model.layers.{i}.mlp.gate_up_proj.weight", "ffn_up.weight"}}});
}

TEST(RoundTripsGpt, ChatGlm) {
  FloatModel m = chat_glm();
  join_qkv(m);
  m.keys.set("chatglm.rope.freq_base", 20000.0f);
  const std::string layer = "transformer.encoder.layers.{i}.";
  expect_round_trip({.class_name = "ChatGLMModel",
                     .model = m,
                     .config = {{"num_hidden_layers", nullptr},
                                {"num_layers", 2},
                                {"seq_length", 128},
                                {"max_position_embeddings", nullptr},
                                {"ffn_hidden_size", 192},
                                {"intermediate_size", nullptr},
                                {"num_key_value_heads", nullptr},
                                {"multi_query_group_num", 2},
                                {"rms_norm_eps", nullptr},
                                {"layernorm_epsilon", 1e-5},
                                {"rope_theta", nullptr},
                                {"rope_ratio", 2},
                                {"kv_channels", 32}},
                     .rows = {{"transformer.embedding.word_embeddings.weight", "token_embd.weight"},
                              {"transformer.output_layer.weight", "output.weight"},
                              {"transformer.encoder.final_layernorm.weight", "output_norm.weight"},
                              {layer + "input_layernorm.weight", "attn_norm.weight"},
                              {layer + "self_attention.query_key_value.{}", "attn_qkv.{}"},
                              {layer + "self_attention.dense.weight", "attn_output.weight"},
                              {layer + "post_attention_layernorm.weight", "ffn_norm.weight"},
                              {layer + "mlp.dense_h_to_4h.weight", "ffn_up.weight"},
                              {layer + "mlp.dense_4h_to_h.weight", "ffn_down.weight"}},
                     .extra = {"transformer.rotary_pos_emb.inv_freq"}});
}

}  // namespace
}  // namespace tessera::convert
