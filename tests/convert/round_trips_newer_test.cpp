// Classes with streams, recurrent layers or other heads in some layers (tests/convert/round_trip.h).
#include "tessera/convert/checkpoints/rope_scaling.h"
#include "tests/convert/model_drafts.h"
#include "tests/convert/round_trip.h"

namespace tessera::convert {
namespace {

using namespace testing;

void scale_values(HubTensor& tensor, float factor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  for (float& value : values) value *= factor;
  tensor.bytes = hub_bytes(values, "F32");
}

FloatModel rwkv6_model() {
  constexpr int64_t kMix = 8, kDecay = 4;
  FloatModel m = empty_model("rwkv6");
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, uint32_t>>{{"wkv.head_size", 32},
                                                               {"time_mix_extra_dim", kMix},
                                                               {"time_decay_extra_dim", kDecay},
                                                               {"rescale_every_n_layers", 1},
                                                               {"attention.head_count", 0},
                                                               {"attention.head_count_kv", 0}})
    m.keys.set(std::string("rwkv6.") + key, value);
  m.keys.set("rwkv6.attention.layer_norm_epsilon", 1e-5f);
  add_weight(m, "token_embd.weight", {128, 256});
  add_linear(m, "output", 128, 256);
  for (const char* norm : {"token_embd_norm", "output_norm"}) add_norm(m, norm, 128, true);
  for (const int il : {0, 1}) {
    const auto name = [&](const char* part) { return of_layer(il, part); };
    for (const char* norm : {"attn_norm", "attn_norm_2", "time_mix_ln"}) add_norm(m, name(norm), 128, true);
    for (const char* part :
         {"time_mix_lerp_x.weight", "time_mix_decay.weight", "channel_mix_lerp_k.weight", "channel_mix_lerp_r.weight"})
      add_weight(m, name(part), {128}, 0.5);
    add_weight(m, name("time_mix_lerp_fused.weight"), {128, 1, 1, 5}, 0.5);
    add_weight(m, name("time_mix_w1.weight"), {128, 5 * kMix});
    add_weight(m, name("time_mix_w2.weight"), {kMix, 128, 5});
    add_weight(m, name("time_mix_decay_w1.weight"), {128, kDecay});
    add_weight(m, name("time_mix_decay_w2.weight"), {kDecay, 128});
    add_weight(m, name("time_mix_first.weight"), {32, 4}, 0.5);
    for (const char* part : {"time_mix_receptance", "time_mix_key", "time_mix_value", "time_mix_gate",
                             "time_mix_output", "channel_mix_receptance"})
      add_linear(m, name(part), 128, 128);
    add_linear(m, name("channel_mix_key"), 128, 192);
    add_linear(m, name("channel_mix_value"), 192, 128);
  }
  return m;
}

TEST(RoundTripsNewer, Rwkv6) {
  const std::string block = "rwkv.blocks.{i}.", time = block + "attention.", channel = block + "feed_forward.";
  const HubChange row = reshaped_to({1, 1, -1});
  RoundTrip trip{.class_name = "Rwkv6ForCausalLM",
                 .model = rwkv6_model(),
                 .config = {{"head_size", 32},
                            {"rescale_every", 1},
                            {"layer_norm_epsilon", 1e-5},
                            {"intermediate_size", nullptr},
                            {"num_attention_heads", nullptr},
                            {"num_key_value_heads", nullptr}},
                 .rows = {{"rwkv.embeddings.weight", "token_embd.weight"},
                          {"rwkv.blocks.0.pre_ln.{}", "token_embd_norm.{}"},
                          {"rwkv.ln_out.{}", "output_norm.{}"},
                          {"head.weight", "output.weight"},
                          {block + "ln1.{}", "attn_norm.{}"},
                          {block + "ln2.{}", "attn_norm_2.{}"},
                          {time + "time_maa_x", "time_mix_lerp_x.weight", row},
                          {time + "time_maa_{e}", "time_mix_lerp_fused.weight"},
                          {time + "time_maa_w1", "time_mix_w1.weight", exchanged_one},
                          {time + "time_maa_w2", "time_mix_w2.weight", exchanged_one},
                          {time + "time_decay", "time_mix_decay.weight", row},
                          {time + "time_decay_w1", "time_mix_decay_w1.weight", exchanged_one},
                          {time + "time_decay_w2", "time_mix_decay_w2.weight", exchanged_one},
                          {time + "time_faaaa", "time_mix_first.weight"},
                          {time + "receptance.weight", "time_mix_receptance.weight"},
                          {time + "key.weight", "time_mix_key.weight"},
                          {time + "value.weight", "time_mix_value.weight"},
                          {time + "gate.weight", "time_mix_gate.weight"},
                          {time + "output.weight", "time_mix_output.weight"},
                          {time + "ln_x.{}", "time_mix_ln.{}"},
                          {channel + "time_maa_k", "channel_mix_lerp_k.weight", row},
                          {channel + "time_maa_r", "channel_mix_lerp_r.weight", row},
                          {channel + "key.weight", "channel_mix_key.weight"},
                          {channel + "receptance.weight", "channel_mix_receptance.weight"},
                          {channel + "value.weight", "channel_mix_value.weight"}}};
  HubFolder folder = hub_folder_of(trip);
  for (HubTensor& tensor : folder.tensors)
    if (const size_t at = tensor.name.find("time_maa_"); at != std::string::npos)
      if (const size_t i = std::string("01234").find(tensor.name.back()); at + 10 == tensor.name.size() && i < 5)
        tensor.name.back() = "wkvrg"[i];
  // The result has halves of these.
  scale_values(folder.find("rwkv.blocks.1.attention.output.weight"), 2);
  scale_values(folder.find("rwkv.blocks.1.feed_forward.value.weight"), 2);
  expect_folder(folder, trip);
}

constexpr int kGemma3nLayerCount = 22;

FloatModel gemma3n_model() {
  constexpr int64_t kPerLayer = 8, kRank = 4;
  FloatModel m = empty_model("gemma3n");
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, uint32_t>>{{"block_count", kGemma3nLayerCount},
                                                               {"attention.key_length", 32},
                                                               {"attention.value_length", 32},
                                                               {"attention.sliding_window", 5},
                                                               {"embedding_length_per_layer_input", kPerLayer}})
    m.keys.set(std::string("gemma3n.") + key, value);
  m.keys.set("gemma3n.rope.freq_base_swa", 10000.0f);
  add_weight(m, "token_embd.weight", {128, 256});
  add_weight(m, "per_layer_token_embd.weight", {kPerLayer * kGemma3nLayerCount, 256});
  add_linear(m, "per_layer_model_proj", 128, kPerLayer * kGemma3nLayerCount);
  add_norm(m, "per_layer_proj_norm", kPerLayer);
  for (const char* part : {"altup_proj.weight", "altup_unembd_proj.weight"}) add_weight(m, part, {128, 128, 3});
  add_norm(m, "output_norm", 128);
  for (int il = 0; il < kGemma3nLayerCount; ++il) {
    const auto name = [&](const char* part) { return of_layer(il, part); };
    for (const char* norm : {"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", "post_norm",
                             "altup_router_norm", "laurel_post_norm", "altup_correct_scale"})
      add_norm(m, name(norm), 128);
    add_norm(m, name("attn_q_norm"), 32);
    add_linear(m, name("attn_q"), 128, 128);
    add_linear(m, name("attn_output"), 128, 128);
    if (il < 20) {
      add_norm(m, name("attn_k_norm"), 32);
      for (const char* part : {"attn_k", "attn_v"}) add_linear(m, name(part), 128, 64);
    }
    for (const char* part : {"ffn_gate", "ffn_up"}) add_linear(m, name(part), 128, 192);
    add_linear(m, name("ffn_down"), 192, 128);
    add_linear(m, name("altup_router"), 128, 4);
    add_linear(m, name("altup_predict_coef"), 4, 16);
    add_linear(m, name("altup_correct_coef"), 4, 4);
    add_linear(m, name("laurel_l"), 128, kRank);
    add_linear(m, name("laurel_r"), kRank, 128);
    add_linear(m, name("inp_gate"), 128, kPerLayer);
    add_linear(m, name("proj"), kPerLayer, 128);
  }
  return m;
}

TEST(RoundTripsNewer, Gemma3n) {
  constexpr int64_t kRows = 240;  // the table of inputs per layer has none for tokens of images and sound
  std::vector<std::string> types;
  std::vector<double> sparsities;
  for (int il = 0; il < kGemma3nLayerCount; ++il) {
    types.emplace_back((il + 1) % 5 == 0 ? "full_attention" : "sliding_attention");
    sparsities.push_back(il < 10 ? 0.95 : 0.0);
  }
  const std::string outer = "model.language_model.", layer = outer + "layers.{i}.";
  RoundTrip trip{.class_name = "Gemma3nForConditionalGeneration",
                 .model = gemma3n_model(),
                 .config = {{"num_hidden_layers", kGemma3nLayerCount},
                            {"intermediate_size", std::vector<int>(kGemma3nLayerCount, 192)},
                            {"head_dim", 32},
                            {"sliding_window", 5},
                            {"layer_types", types},
                            {"activation_sparsity_pattern", sparsities},
                            {"num_kv_shared_layers", 2},
                            {"hidden_size_per_layer_input", 8}},
                 .rows = {{outer + "embed_tokens.weight", "token_embd.weight"},
                          {outer + "embed_tokens_per_layer.weight", "per_layer_token_embd.weight",
                           [](std::vector<HubPiece> p) {
                             p[0].values.resize(static_cast<size_t>(kRows * p[0].n_columns()));
                             p[0].shape[0] = kRows;
                             return std::move(p[0]);
                           }},
                          {outer + "per_layer_model_projection.weight", "per_layer_model_proj.weight"},
                          {outer + "per_layer_projection_norm.weight", "per_layer_proj_norm.weight"},
                          {outer + "altup_projections.{e}.weight", "altup_proj.weight"},
                          {outer + "altup_unembed_projections.{e}.weight", "altup_unembd_proj.weight"},
                          {outer + "norm.weight", "output_norm.weight"},
                          {layer + "input_layernorm.weight", "attn_norm.weight"},
                          {layer + "post_attention_layernorm.weight", "post_attention_norm.weight"},
                          {layer + "pre_feedforward_layernorm.weight", "ffn_norm.weight"},
                          {layer + "post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
                          {layer + "post_per_layer_input_norm.weight", "post_norm.weight"},
                          {layer + "per_layer_input_gate.weight", "inp_gate.weight"},
                          {layer + "per_layer_projection.weight", "proj.weight"},
                          {layer + "altup.correct_output_scale", "altup_correct_scale.weight"},
                          {layer + "altup.correction_coefs.weight", "altup_correct_coef.weight"},
                          {layer + "altup.prediction_coefs.weight", "altup_predict_coef.weight"},
                          {layer + "altup.modality_router.weight", "altup_router.weight"},
                          {layer + "altup.router_norm.weight", "altup_router_norm.weight"},
                          {layer + "laurel.linear_left.weight", "laurel_l.weight"},
                          {layer + "laurel.linear_right.weight", "laurel_r.weight"},
                          {layer + "laurel.post_laurel_norm.weight", "laurel_post_norm.weight"}},
                 .extra = {"model.language_model.layers.20.self_attn.k_proj.weight",
                           "model.language_model.layers.21.self_attn.v_proj.weight",
                           "model.language_model.layers.21.self_attn.k_norm.weight", "model.vision_tower.x.weight",
                           "model.audio_tower.x.weight", "model.embed_vision.x.weight"}};
  const HubFolder folder = hub_folder_of(trip);
  std::vector<float>& table = trip.model.at("per_layer_token_embd.weight").values;
  std::fill(table.begin() + static_cast<std::ptrdiff_t>(table.size()) / 256 * kRows, table.end(), 0.0f);
  expect_folder(folder, trip);
  trip.config["num_kv_shared_layers"] = 4;
  trip.extra.clear();
  EXPECT_ERROR(convert_to_floats(hub_folder_of(trip).write("refused")), "num_kv_shared_layers of all layers from 20");
}

HubChange minus_one() {
  return changed_values([](float x) { return x - 1; });
}

TEST(RoundTripsNewer, GemmaEmbeddingHasLayersAfterPooling) {
  FloatModel m = twin_of("gemma3-dense", "gemma-embedding");
  m.drop("output.weight");
  m.keys.set("gemma-embedding.attention.sliding_window", 5u);
  m.keys.set("gemma-embedding.rope.freq_base", 10000.0f);
  RoundTrip trip{
      .class_name = "Gemma3TextModel",
      .model = m,
      .config = {{"num_hidden_layers", 7}, {"sliding_window", 5}, {"head_dim", 32}, {"rope_local_base_freq", 10000.0}},
      .rows = {{"model.norm.weight", "output_norm.weight", minus_one()},
               {"model.layers.{i}.input_layernorm.weight", "attn_norm.weight", minus_one()},
               {"model.layers.{i}.post_attention_layernorm.weight", "post_attention_norm.weight", minus_one()},
               {"model.layers.{i}.pre_feedforward_layernorm.weight", "ffn_norm.weight", minus_one()},
               {"model.layers.{i}.post_feedforward_layernorm.weight", "post_ffw_norm.weight", minus_one()},
               {"model.layers.{i}.self_attn.q_norm.weight", "attn_q_norm.weight", minus_one()},
               {"model.layers.{i}.self_attn.k_norm.weight", "attn_k_norm.weight", minus_one()}},
      .has_other_values = true,
      .is_encoder = true};
  HubFolder folder = hub_folder_of(trip);
  for (HubTensor& tensor : folder.tensors) tensor.name.erase(0, std::strlen("model."));
  expect_folder(folder, trip);

  add_linear(trip.model, "dense_2", 128, 160);
  add_linear(trip.model, "dense_3", 160, 128);
  const std::string path = folder.write("round_trip");
  std::ofstream(path + "/modules.json") << R"([{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
      {"type": "sentence_transformers.models.Dense", "path": "2_Dense"},
      {"type": "sentence_transformers.models.Dense", "path": "3_Dense"}])";
  for (const auto& [name, tensor] : {std::pair{"2_Dense", "dense_2.weight"}, std::pair{"3_Dense", "dense_3.weight"}}) {
    HubFolder dense{.config = R"({"activation_function": "torch.nn.modules.linear.Identity"})"};
    const FloatModel::Entry& entry = trip.model.at(tensor);
    dense.tensors.push_back({"linear.weight", "F32", {entry.shape[1], entry.shape[0]}, hub_bytes(entry.values, "F32")});
    dense.write(std::string("round_trip/") + name);
  }
  ASSERT_OK_AND_ASSIGN(const std::string output, convert_to_floats(path));
  expect_tensors_of(output, trip.model, 1e-12);
  ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(output));
  EXPECT_EQ(files->metadata().get<uint32_t>("gemma-embedding.dense_2_feat_out").value(), 160u);
  std::ofstream(path + "/3_Dense/config.json") << R"({"activation_function": "torch.nn.modules.activation.Tanh"})";
  EXPECT_ERROR(convert_to_floats(path), "activation_function, want the identity");
}

const nlohmann::json kExpertsConfig = {
    {"num_experts", 4}, {"num_experts_per_tok", 2}, {"num_shared_experts", 1}, {"moe_intermediate_size", 192}};

TEST(RoundTripsNewer, Hy3) {
  FloatModel m = twin_of("qwen3-dense", "hy_v3");
  add_mixture(m, "hy_v3", true, 2.5f);
  add_vector(m, "blk.1.exp_probs_b", 4);
  RoundTrip trip{.class_name = "HYV3ForCausalLM",
                 .model = m,
                 .config = {{"head_dim", 32}, {"route_norm", true}, {"router_scaling_factor", 2.5}},
                 .rows = {{"model.layers.{i}.mlp.router.gate.weight", "ffn_gate_inp.weight"},
                          {"model.layers.{i}.mlp.expert_bias", "exp_probs_b"},
                          {"model.layers.{i}.mlp.shared_mlp.gate_proj.weight", "ffn_gate_shexp.weight"},
                          {"model.layers.{i}.mlp.shared_mlp.up_proj.weight", "ffn_up_shexp.weight"},
                          {"model.layers.{i}.mlp.shared_mlp.down_proj.weight", "ffn_down_shexp.weight"}}};
  trip.config.merge_patch(kExpertsConfig);
  expect_round_trip(trip);
}

TEST(RoundTripsNewer, Cohere2Moe) {
  FloatModel m = twin_of("cohere2-dense", "cohere2moe");
  m.drop("output.weight");
  add_mixture(m, "cohere2moe", false, 1.0f);
  m.keys.set("cohere2moe.attention.sliding_window", 5u);
  m.keys.set("cohere2moe.logit_scale", 0.25f);
  m.keys.set("cohere2moe.attention.layer_norm_epsilon", 1e-5f);
  m.keys.set("cohere2moe.attention.layer_norm_rms_epsilon", 0.0f);
  m.keys.set("cohere2moe.rope.freq_base", 10000.0f);
  const bool windows[] = {true, true, true, false};
  m.keys.set_array("cohere2moe.attention.sliding_window_pattern", std::span<const bool>(windows));
  RoundTrip trip{
      .class_name = "Cohere2MoeForCausalLM",
      .model = m,
      .config = {{"num_hidden_layers", 4},
                 {"head_dim", 32},
                 {"rms_norm_eps", nullptr},
                 {"layer_norm_eps", 1e-5},
                 {"logit_scale", 0.25},
                 {"sliding_window", 5},
                 {"layer_types", {"sliding_attention", "sliding_attention", "sliding_attention", "full_attention"}},
                 {"expert_selection_fn", "sigmoid"},
                 {"norm_topk_prob", false},
                 {"first_k_dense_replace", 1}}};
  trip.config.merge_patch(kExpertsConfig);
  expect_round_trip(trip);
  trip.config["shared_expert_combination_strategy"] = "sum";
  EXPECT_ERROR(convert_to_floats(hub_folder_of(trip).write("refused")), "combination_strategy, want average");
}

TEST(RoundTripsNewer, Step35HasOtherHeadsWithAWindow) {
  FloatModel m = twin_of("qwen3-dense", "step35");
  add_mixture(m, "step35", true, 3.0f);
  add_vector(m, "blk.1.exp_probs_b.bias", 4);
  for (const char* part : {"attn_q.weight", "attn_output.weight", "attn_q.bias"}) m.drop(of_layer(1, part));
  add_linear(m, "blk.1.attn_q", 128, 256);
  add_linear(m, "blk.1.attn_output", 256, 128);
  for (const int il : {0, 1}) {
    for (const char* part : {"attn_q.bias", "attn_k.bias", "attn_v.bias"}) m.drop(of_layer(il, part));
    add_linear(m, of_layer(il, "attn_gate"), 128, il == 0 ? 4 : 8);
  }
  const bool windows[] = {false, true};
  m.keys.set_array("step35.attention.head_count", std::vector<int32_t>{4, 8});
  m.keys.set_array("step35.attention.head_count_kv", std::vector<int32_t>{2, 2});
  m.keys.set_array("step35.attention.sliding_window_pattern", std::span<const bool>(windows));
  m.keys.set_array("step35.swiglu_clamp_exp", std::vector<float>{0.0f, 0.25f});
  m.keys.set_array("step35.swiglu_clamp_shexp", std::vector<float>{0.0f, 0.0f});
  m.keys.set("step35.attention.sliding_window", 5u);
  m.keys.set("step35.attention.key_length", 32u);
  m.keys.set("step35.attention.value_length", 32u);
  m.keys.set("step35.rope.freq_base", 5000.0f);
  m.keys.set("step35.rope.freq_base_swa", 700.0f);
  const std::string layer = "model.layers.{i}.";
  RoundTrip trip{.class_name = "Step3p5ForCausalLM",
                 .model = m,
                 .config = {{"head_dim", 32},
                            {"num_key_value_heads", nullptr},
                            {"num_attention_groups", 2},
                            {"attention_other_setting", {{"num_attention_heads", 8}, {"num_attention_groups", 2}}},
                            {"layer_types", {"full_attention", "sliding_attention"}},
                            {"partial_rotary_factors", {0.5, 1.0}},
                            {"rope_theta", {5000.0, 700.0}},
                            {"rope_scaling", {{"rope_type", "llama3"}, {"original_max_position_embeddings", 64}}},
                            {"yarn_only_types", {"full_attention"}},
                            {"sliding_window", 5},
                            {"swiglu_limits", {nullptr, 0.25}},
                            {"moe_num_experts", 4},
                            {"moe_top_k", 2},
                            {"moe_intermediate_size", 192},
                            {"share_expert_dim", 192},
                            {"moe_router_activation", "sigmoid"},
                            {"moe_router_scaling_factor", 3.0},
                            {"norm_expert_weight", true}},
                 .rows = {{"model.norm.weight", "output_norm.weight", minus_one()},
                          {layer + "input_layernorm.weight", "attn_norm.weight", minus_one()},
                          {layer + "post_attention_layernorm.weight", "ffn_norm.weight", minus_one()},
                          {layer + "self_attn.q_norm.weight", "attn_q_norm.weight", minus_one()},
                          {layer + "self_attn.k_norm.weight", "attn_k_norm.weight", minus_one()},
                          {layer + "self_attn.g_proj.weight", "attn_gate.weight"},
                          {layer + "moe.gate.weight", "ffn_gate_inp.weight"},
                          {layer + "moe.router_bias", "exp_probs_b.bias"},
                          {layer + "moe.gate_proj.weight", "ffn_gate_exps.weight"},
                          {layer + "moe.up_proj.weight", "ffn_up_exps.weight"},
                          {layer + "moe.down_proj.weight", "ffn_down_exps.weight"},
                          {layer + "share_expert.gate_proj.weight", "ffn_gate_shexp.weight"},
                          {layer + "share_expert.up_proj.weight", "ffn_up_shexp.weight"},
                          {layer + "share_expert.down_proj.weight", "ffn_down_shexp.weight"}},
                 .has_other_values = true};
  const HubFolder folder = hub_folder_of(trip);
  // Half of the pairs of a head are rotated, and their factors are those of heads of half the size.
  std::vector<float> factors = slowed_wave_factors({.n_original = 64}, 5000.0, 16);
  EXPECT_GT(factors.back(), 1.0f);
  factors.resize(16, 1.0f);
  trip.model.tensors.push_back({"rope_freqs.weight", {16}, factors});
  expect_folder(folder, trip);
  trip.model.drop("rope_freqs.weight");
  trip.config["partial_rotary_factors"] = {1.0, 1.0};
  EXPECT_ERROR(convert_to_floats(hub_folder_of(trip).write("refused")), "partial_rotary_factors of layer 0");
}

TEST(RoundTripsNewer, NormsOfStep35BeforePredictionsStoreDifferences) {
  const std::string later = "model.layers.1.";
  const Drafted made = draft("Step3p5ForCausalLM",
                             R"("num_hidden_layers": 1, "num_nextn_predict_layers": 1, "num_attention_heads": 2,
                                "num_attention_groups": 1, "head_dim": 4, "sliding_window": 8)",
                             {{later + "enorm.weight", {1}},
                              {later + "transformer.shared_head.norm.weight", {1}},
                              {later + "transformer.shared_head.output.weight", {1, 1}}});
  EXPECT_EQ(made.error, "");
  EXPECT_EQ(made.of("blk.1.nextn.enorm.weight"), Floats{0 + 1});
  EXPECT_EQ(made.of("blk.1.nextn.shared_head_norm.weight"), Floats{1 + 1});
  EXPECT_EQ(made.of("blk.1.nextn.shared_head_head.weight"), Floats{2});
  expect_in(made.keys, "step35.attention.head_count=[2, 2] ");
}

}  // namespace
}  // namespace tessera::convert
