// Classes of decoders with names, orders and factors of their own, and of diffusion models
// (tests/convert/round_trip.h).
#include "tests/convert/round_trip.h"

namespace tessera::convert {
namespace {

using namespace testing;

void expect_refusal_of(RoundTrip trip, const nlohmann::json& config, const std::string& part) {
  trip.config.merge_patch(config);
  const auto refused = convert_to_floats(hub_folder_of(trip).write("refused"));
  ASSERT_FALSE(refused.has_value()) << part;
  EXPECT_NE(refused.error().message().find(part), std::string::npos) << refused.error().message();
}

/// All q of the heads that read a KV head, its k, its v, and then the next group.
HubPiece qkv_in_groups(std::vector<HubPiece> p) {
  constexpr int64_t kGroups = 2, kInGroup = 2;
  const HubPiece q = halves_of_heads(p[0], kGroups * kInGroup), k = halves_of_heads(p[1], kGroups);
  HubPiece all{.shape = p[0].shape};
  all.shape[0] = q.shape[0] + 2 * k.shape[0];
  for (int64_t g = 0; g < kGroups; ++g)
    for (const HubPiece* part : {&q, &k, static_cast<const HubPiece*>(&p[2])}) {
      const int64_t n = std::ssize(part->values) / kGroups;
      all.values.insert(all.values.end(), part->values.begin() + g * n, part->values.begin() + (g + 1) * n);
    }
  return all;
}

TEST(RoundTripsMore, InternLm2) {
  expect_round_trip({.class_name = "InternLM2ForCausalLM",
                     .model = spec_float_model("internlm2-dense"),
                     .rows = {{"model.tok_embeddings.weight", "token_embd.weight"},
                              {"output.weight", "output.weight"},
                              {"model.layers.{i}.attention_norm.weight", "attn_norm.weight"},
                              {"model.layers.{i}.attention.wqkv.{}", "attn_q.{} attn_k.{} attn_v.{}", qkv_in_groups},
                              {"model.layers.{i}.attention.wo.weight", "attn_output.weight"},
                              {"model.layers.{i}.ffn_norm.weight", "ffn_norm.weight"},
                              {"model.layers.{i}.feed_forward.w1.weight", "ffn_gate.weight"},
                              {"model.layers.{i}.feed_forward.w2.weight", "ffn_down.weight"},
                              {"model.layers.{i}.feed_forward.w3.weight", "ffn_up.weight"}}});
}

TEST(RoundTripsMore, Baichuan) {
  const RoundTrip trip{.class_name = "BaichuanForCausalLM",
                       .model = spec_float_model("baichuan-dense", {".attn_q.bias", ".attn_k.bias", ".attn_v.bias"}),
                       .rows = {{"model.layers.{i}.self_attn.W_pack.weight",
                                 "attn_q.weight attn_k.weight attn_v.weight", halves_and_v(4, 2)}}};
  expect_round_trip(trip);
  expect_refusal_of(trip, {{"vocab_size", 125696}}, "Baichuan 2 normalizes its output layer");
}

TEST(RoundTripsMore, MiniCpm) {
  const std::vector<HubRow> rows = {{"model.layers.{i}.self_attn.q_proj.weight", "attn_q.weight", halves(4)},
                                    {"model.layers.{i}.self_attn.k_proj.weight", "attn_k.weight", halves(2)}};
  FloatModel m = spec_float_model("minicpm-dense", kUnusedTensors);
  m.keys.set("minicpm.residual_scale", 0.7f);
  m.keys.set("minicpm.logit_scale", 2.0f);
  std::erase_if(m.tensors, [](const auto& entry) { return entry.name.ends_with("attn_q.bias"); });
  std::erase_if(m.tensors, [](const auto& entry) { return entry.name.ends_with("attn_k.bias"); });
  const RoundTrip trip{.class_name = "MiniCPMForCausalLM",
                       .model = m,
                       .config = {{"scale_emb", 12}, {"scale_depth", 0.7 * std::sqrt(2.0)}, {"dim_model_base", 64}},
                       .rows = rows};
  expect_round_trip(trip);
  expect_refusal_of(trip, {{"scale_depth", nullptr}}, "no scale_depth and dim_model_base");
}

TEST(RoundTripsMore, Llama4) {
  FloatModel m = spec_float_model("llama4-moe", kUnusedTensors);
  const RoundTrip trip{
      .class_name = "Llama4ForConditionalGeneration",
      .model = m,
      .config = {{"num_hidden_layers", 4},
                 {"intermediate_size_mlp", 192},
                 {"num_local_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"interleave_moe_layer_step", 2},
                 {"no_rope_layers", {1, 1, 1, 0}},
                 {"attention_chunk_size", 8192}},
      .rows =
          {{"language_model.model.layers.{i}.feed_forward.gate_proj.weight", "ffn_gate.weight"},
           {"language_model.model.layers.{i}.feed_forward.up_proj.weight", "ffn_up.weight"},
           {"language_model.model.layers.{i}.feed_forward.down_proj.weight", "ffn_down.weight"},
           {"language_model.model.layers.{i}.feed_forward.router.weight", "ffn_gate_inp.weight"},
           {"language_model.model.layers.{i}.feed_forward.experts.gate_up_proj",
            "ffn_gate_exps.weight ffn_up_exps.weight",
            [](std::vector<HubPiece> p) {  // [n, d, 2f]
              HubPiece both{.shape = {p[0].shape[0], 2 * p[0].shape[1], p[0].shape[2]}};
              for (int64_t e = 0; e < p[0].shape[0]; ++e)
                for (const HubPiece& part : p) {
                  const int64_t n = part.n_columns();
                  both.values.insert(both.values.end(), part.values.begin() + e * n, part.values.begin() + (e + 1) * n);
                }
              return exchanged(std::move(both));
            }},
           {"language_model.model.layers.{i}.feed_forward.experts.down_proj", "ffn_down_exps.weight", exchanged_one},
           {"language_model.model.layers.{i}.feed_forward.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"},
           {"language_model.model.layers.{i}.feed_forward.shared_expert.up_proj.weight", "ffn_up_shexp.weight"},
           {"language_model.model.layers.{i}.feed_forward.shared_expert.down_proj.weight", "ffn_down_shexp.weight"}},
      .extra = {"vision_model.class_embedding", "multi_modal_projector.linear_1.weight"}};
  expect_round_trip(trip);
  expect_refusal_of(trip, {{"attention_chunk_size", 4096}}, "want an attention_chunk_size");
  expect_refusal_of(trip, {{"no_rope_layers", {1, 1, 0, 0}}}, "no_rope_layers of layer 2 is 0");
  expect_refusal_of(trip, {{"use_qk_norm", false}}, "use_qk_norm is false, want true");
}

TEST(RoundTripsMore, FewRows) {
  expect_round_trip({.class_name = "OrionForCausalLM", .model = spec_float_model("orion-dense", kUnusedTensors)});
  expect_round_trip({.class_name = "PanguEmbeddedForCausalLM",
                     .model = spec_float_model("pangu-embedded-dense", {"rope_freqs.weight"})});
  expect_round_trip({.class_name = "MaincoderForCausalLM",
                     .model = spec_float_model("maincoder-dense", kUnusedTensors),
                     .config = {{"head_dim", 32}}});
  expect_round_trip({.class_name = "DreamModel", .model = spec_float_model("dream-dense", kUnusedTensors)});
  FloatModel jais2 = spec_float_model("nemotron-dense", {"output.bias", "rope_freqs.weight"});
  jais2.become("jais2");
  expect_round_trip({.class_name = "Jais2ForCausalLM",
                     .model = jais2,
                     .config = {{"layer_norm_eps", 1e-5}, {"rms_norm_eps", nullptr}}});
}

TEST(RoundTripsMore, Llada) {
  const std::string layer = "model.transformer.blocks.{i}.";
  expect_round_trip({.class_name = "LLaDAModelLM",
                     .model = spec_float_model("llada-dense", kUnusedTensors),
                     .config = {{"hidden_size", nullptr},
                                {"d_model", 128},
                                {"intermediate_size", nullptr},
                                {"mlp_hidden_size", 192},
                                {"max_sequence_length", 128},
                                {"num_hidden_layers", nullptr},
                                {"n_layers", 2},
                                {"num_attention_heads", nullptr},
                                {"n_heads", 4},
                                {"num_key_value_heads", nullptr},
                                {"n_kv_heads", 2}},
                     .rows = {{"model.transformer.wte.weight", "token_embd.weight"},
                              {"model.transformer.ln_f.weight", "output_norm.weight"},
                              {"model.transformer.ff_out.weight", "output.weight"},
                              {layer + "attn_norm.weight", "attn_norm.weight"},
                              {layer + "q_proj.weight", "attn_q.weight", halves(4)},
                              {layer + "k_proj.weight", "attn_k.weight", halves(2)},
                              {layer + "v_proj.weight", "attn_v.weight"},
                              {layer + "attn_out.weight", "attn_output.weight"},
                              {layer + "ff_norm.weight", "ffn_norm.weight"},
                              {layer + "ff_proj.weight", "ffn_gate.weight"},
                              {layer + "up_proj.weight", "ffn_up.weight"},
                              {layer + "ff_out.weight", "ffn_down.weight"}}});
}

const nlohmann::json kFourExperts = {
    {"num_experts", 4}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 192}, {"head_dim", 32}};

TEST(RoundTripsMore, DiffusionWithExperts) {
  const FloatModel rnd1 = spec_float_model("rnd1-moe");
  expect_round_trip({.class_name = "RND1", .model = rnd1, .config = kFourExperts});
  FloatModel llada = rnd1;
  llada.become("llada-moe");
  RoundTrip trip{.class_name = "LLaDAMoEModelLM", .model = llada, .config = kFourExperts};
  trip.config.merge_patch({{"moe_intermediate_size", nullptr}, {"expert_intermediate_size", 192}});
  expect_round_trip(trip);
  ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(temporary_path("round_trip.gguf")));
  EXPECT_FALSE(files->metadata().get<bool>("diffusion.shift_logits").value());
}

TEST(RoundTripsMore, Mellum) {
  FloatModel m = twin_of("qwen3moe-moe", "mellum");
  m.keys.set("mellum.attention.sliding_window", 5u);
  const bool windows[] = {true, false};
  m.keys.set_array("mellum.attention.sliding_window_pattern", std::span<const bool>(windows));
  RoundTrip trip{.class_name = "MellumForCausalLM", .model = m, .config = kFourExperts};
  trip.config.merge_patch({{"sliding_window", 5}, {"layer_types", {"sliding_attention", "full_attention"}}});
  expect_round_trip(trip);
}

TEST(RoundTripsMore, DeepSeek1) {
  expect_round_trip({.class_name = "DeepseekForCausalLM",
                     .model = spec_float_model("deepseek-moe", kUnusedTensors),
                     .config = {{"n_routed_experts", 4},
                                {"num_experts_per_tok", 2},
                                {"n_shared_experts", 1},
                                {"moe_intermediate_size", 192},
                                {"first_k_dense_replace", 1}},
                     .rows = llama_rope_rows()});
}

const std::vector<HubRow> kSparseHubRows = {
    {"model.layers.{i}.block_sparse_moe.gate.weight", "ffn_gate_inp.weight"},
    {"model.layers.{i}.block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias"},
    {"model.layers.{i}.block_sparse_moe.experts.{e}.w1.weight", "ffn_gate_exps.weight"},
    {"model.layers.{i}.block_sparse_moe.experts.{e}.w2.weight", "ffn_down_exps.weight"},
    {"model.layers.{i}.block_sparse_moe.experts.{e}.w3.weight", "ffn_up_exps.weight"}};

const std::vector<std::string> kQkvBias = {".attn_q.bias", ".attn_k.bias", ".attn_v.bias"};

TEST(RoundTripsMore, Arctic) {
  std::vector<HubRow> rows = llama_rope_rows();
  rows.insert(rows.end(), kSparseHubRows.begin(), kSparseHubRows.end());
  rows.push_back({"model.layers.{i}.residual_layernorm.weight", "ffn_norm.weight"});
  rows.push_back({"model.layers.{i}.post_attention_layernorm.weight", "ffn_norm_exps.weight"});
  rows.push_back({"model.layers.{i}.residual_mlp.w1.weight", "ffn_gate.weight"});
  rows.push_back({"model.layers.{i}.residual_mlp.w2.weight", "ffn_down.weight"});
  rows.push_back({"model.layers.{i}.residual_mlp.w3.weight", "ffn_up.weight"});
  expect_round_trip({.class_name = "ArcticForCausalLM",
                     .model = spec_float_model("arctic-moe", kQkvBias),
                     .config = {{"num_local_experts", 4}, {"num_experts_per_tok", 2}},
                     .rows = rows});
}

TEST(RoundTripsMore, MiniMaxM2) {
  expect_round_trip({.class_name = "MiniMaxM2ForCausalLM",
                     .model = spec_float_model("minimax-m2-moe", kQkvBias),
                     .config = {{"num_local_experts", 4},
                                {"num_experts_per_tok", 2},
                                {"rotary_dim", 32},
                                {"scoring_func", "sigmoid"},
                                {"head_dim", 32}},
                     .rows = kSparseHubRows});
}

TEST(RoundTripsMore, Grok) {
  const nlohmann::json config = {{"num_local_experts", 4},
                                 {"num_experts_per_tok", 2},
                                 {"attn_output_multiplier", 0.0883883461356163},
                                 {"embedding_multiplier_scale", 78.38367462158203},
                                 {"output_multiplier_scale", 1.0}};
  const std::string layer = "transformer.decoder_layer.{i}.";
  const FloatModel dense_and_experts =
      spec_float_model("grok-moe", {".ffn_gate.weight", ".ffn_up.weight", ".ffn_down.weight"});
  expect_round_trip({.class_name = "GrokForCausalLM",
                     .model = dense_and_experts,
                     .config = config,
                     .rows = {{"transformer.in_out_embed.weight", "token_embd.weight"},
                              {"transformer.rms_norm.weight", "output_norm.weight"},
                              {layer + "rms_norm.weight", "attn_norm.weight"},
                              {layer + "rms_norm_1.weight", "attn_output_norm.weight"},
                              {layer + "rms_norm_2.weight", "ffn_norm.weight"},
                              {layer + "rms_norm_3.weight", "layer_output_norm.weight"},
                              {layer + "multi_head_attention.query.{}", "attn_q.{}"},
                              {layer + "multi_head_attention.key.{}", "attn_k.{}"},
                              {layer + "multi_head_attention.value.{}", "attn_v.{}"},
                              {layer + "multi_head_attention.linear.weight", "attn_output.weight"},
                              {layer + "router.weight", "ffn_gate_inp.weight"},
                              {layer + "moe.{e}.linear.weight", "ffn_gate_exps.weight"},
                              {layer + "moe.{e}.linear_1.weight", "ffn_down_exps.weight"},
                              {layer + "moe.{e}.linear_v.weight", "ffn_up_exps.weight"}}});
  FloatModel grok2 = spec_float_model("grok-moe", kQkvBias);
  for (const int il : {0, 1})
    grok2.rename(of_layer(il, "layer_output_norm.weight"), of_layer(il, "post_ffw_norm.weight"));
  std::vector<HubRow> rows = kSparseHubRows;
  rows.push_back({"model.layers.{i}.pre_attn_norm.weight", "attn_norm.weight"});
  rows.push_back({"model.layers.{i}.post_attn_norm.weight", "attn_output_norm.weight"});
  rows.push_back({"model.layers.{i}.pre_moe_norm.weight", "ffn_norm.weight"});
  rows.push_back({"model.layers.{i}.post_moe_norm.weight", "post_ffw_norm.weight"});
  RoundTrip trip{.class_name = "Grok1ForCausalLM", .model = grok2, .config = config, .rows = rows};
  trip.config["moe_intermediate_size"] = 192;
  expect_round_trip(trip);
}

}  // namespace
}  // namespace tessera::convert
