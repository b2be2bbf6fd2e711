// Classes with rules for heads, windows or latent attention that come from the config (tests/convert/round_trip.h).
#include "tessera/models/model.h"
#include "tests/convert/model_drafts.h"
#include "tests/convert/round_trip.h"

namespace tessera::convert {
namespace {

using namespace testing;

/// The error of a trip whose config has other members.
std::string refusal_with(RoundTrip trip, const nlohmann::json& members) {
  trip.config.merge_patch(members);
  const auto output = convert_to_floats(hub_folder_of(trip).write("refused"));
  return output ? "" : output.error().message();
}

// Layer 1 has a window, other heads than layer 0, and a gate for each element.
RoundTrip laguna_trip() {
  FloatModel m = twin_of("qwen3-dense", "laguna");
  add_mixture(m, "laguna", true, 2.5f);
  add_vector(m, "blk.1.exp_probs_b.bias", 4);
  for (const char* part : {"attn_q.weight", "attn_q.bias", "attn_output.weight"}) m.drop(of_layer(1, part));
  add_linear(m, "blk.1.attn_q", 128, 256);
  add_linear(m, "blk.1.attn_output", 256, 128);
  add_linear(m, "blk.0.attn_gate", 128, 4);
  add_linear(m, "blk.1.attn_gate", 128, 256);
  m.keys.set_array("laguna.attention.head_count", std::vector<int32_t>{4, 8});
  m.keys.set("laguna.attention.sliding_window", 5u);
  m.keys.set("laguna.attention.key_length", 32u);
  m.keys.set("laguna.attention.value_length", 32u);
  m.keys.set("laguna.rope.dimension_count", 16u);
  m.keys.set("laguna.rope.dimension_count_swa", 32u);
  m.keys.set("laguna.rope.freq_base", 5000.0f);
  m.keys.set("laguna.rope.freq_base_swa", 700.0f);
  m.keys.set("laguna.rope.scaling.type", "yarn");
  m.keys.set("laguna.rope.scaling.factor", 4.0f);
  m.keys.set("laguna.rope.scaling.original_context_length", 32u);
  const std::string layer = "model.layers.{i}.";
  return {.class_name = "LagunaForCausalLM",
          .model = m,
          .config = {{"head_dim", 32},
                     {"num_attention_heads_per_layer", {4, 8}},
                     {"layer_types", {"full_attention", "sliding_attention"}},
                     {"sliding_window", 5},
                     {"rope_theta", nullptr},
                     {"rope_parameters",
                      {{"full_attention",
                        {{"rope_type", "yarn"},
                         {"rope_theta", 5000.0},
                         {"partial_rotary_factor", 0.5},
                         {"factor", 4.0},
                         {"original_max_position_embeddings", 32}}},
                       {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 700.0}}}}},
                     {"gating_types", {"per-head", "per-element"}},
                     {"mlp_layer_types", {"dense", "sparse"}},
                     {"num_experts", 4},
                     {"num_experts_per_tok", 2},
                     {"moe_intermediate_size", 192},
                     {"shared_expert_intermediate_size", 192},
                     {"moe_routed_scaling_factor", 2.5}},
          .rows = {{layer + "self_attn.g_proj.weight", "attn_gate.weight"},
                   {layer + "mlp.experts.e_score_correction_bias", "exp_probs_b.bias"},
                   {layer + "mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"},
                   {layer + "mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"},
                   {layer + "mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight"}}};
}

TEST(RoundTripsRecent, LagunaHasHeadsAndGatesOfEachLayer) {
  expect_round_trip(laguna_trip());
  ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(temporary_path("round_trip.gguf")));
  const Metadata& keys = files->metadata();
  EXPECT_EQ(keys.get_vector<int32_t>("laguna.attention.head_count").value(), (std::vector<int32_t>{4, 8}));
  EXPECT_EQ(keys.get<uint32_t>("laguna.leading_dense_block_count").value(), 1u);
  EXPECT_EQ(keys.get<uint32_t>("laguna.rope.dimension_count").value(), 16u);
  EXPECT_EQ(keys.get<uint32_t>("laguna.rope.dimension_count_swa").value(), 32u);
  EXPECT_EQ(keys.get<uint32_t>("laguna.vocab_size").value(), 256u);
}

TEST(RoundTripsRecent, LagunaWithoutWindowsHasEqualHeads) {
  RoundTrip trip = laguna_trip();
  FloatModel& m = trip.model;
  for (const char* part : {"attn_q.weight", "attn_output.weight", "attn_gate.weight"}) m.drop(of_layer(1, part));
  add_linear(m, "blk.1.attn_q", 128, 128);
  add_linear(m, "blk.1.attn_output", 128, 128);
  add_linear(m, "blk.1.attn_gate", 128, 4);
  m.keys.set_array("laguna.attention.head_count", std::vector<int32_t>{4, 4});
  m.keys.set("laguna.attention.sliding_window", 0u);
  trip.config.merge_patch({{"num_attention_heads_per_layer", nullptr},
                           {"gating_types", nullptr},
                           {"gating", true},
                           {"sliding_window", nullptr},
                           {"layer_types", nullptr}});
  expect_round_trip(trip);
}

TEST(RoundTripsRecent, LagunaRefusesWhatItsArchitectureLacks) {
  const RoundTrip trip = laguna_trip();
  const auto expect_refusal = [&](const nlohmann::json& members, const std::string& part) {
    expect_in(refusal_with(trip, members), part);
  };
  expect_refusal({{"layer_types", {"sliding_attention", "full_attention"}}},
                 "layer_types of layer 0 is \"sliding_attention\", want full_attention");
  expect_refusal({{"sliding_window", 0}}, "layer_types of layer 1 is \"sliding_attention\", want full_attention");
  expect_refusal({{"layer_types", nullptr}}, "no layer_types, but a sliding_window");
  expect_refusal({{"num_attention_heads_per_layer", {4, 8, 8}}}, "3 numbers, want 2");
  expect_refusal({{"gating_types", nullptr}, {"gating", "per-head"}}, "layer 1 has 256 gates, want 8, one per head");
  expect_refusal({{"gating_types", nullptr}, {"gating", "per-element"}}, "layer 0 has 4 gates, want 128, one per");
  expect_refusal({{"gating_types", {"per-head", "none"}}}, "gates of layer 1: want per-head or per-element");
  expect_refusal({{"gating_types", nullptr}, {"gating", false}}, "gates of layer 0");
  expect_refusal({{"mlp_layer_types", {"sparse", "dense"}}}, "want a list of dense layers before sparse ones");
  expect_refusal({{"rope_parameters", {{"sliding_attention", {{"rope_type", "yarn"}}}}}},
                 "sliding_attention.rope_type is \"yarn\", want default");
  expect_refusal({{"rope_parameters", {{"full_attention", {{"partial_rotary_factor", 1.5}}}}}},
                 "full_attention.partial_rotary_factor is 1.5");
}

/// Rows of k, transposed, and of v, for one head after another.
HubPiece kv_b_of_heads(std::vector<HubPiece> p) {
  const HubPiece k = exchanged(p[0]), &v = p[1];
  HubPiece all{.shape = {k.shape[0] * (k.shape[1] + v.shape[1]), k.shape[2]}};
  for (int64_t head = 0; head < k.shape[0]; ++head)
    for (const HubPiece* const piece : {&k, &v})
      all.values.insert(all.values.end(), piece->values.begin() + head * piece->n_columns(),
                        piece->values.begin() + (head + 1) * piece->n_columns());
  return all;
}

FloatModel mistral4_model() {
  constexpr int64_t kHeads = 4, kQueries = 24, kLatent = 32, kPlain = 16, kRotated = 8, kValues = 12;
  FloatModel m = empty_model("mistral4");
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, int64_t>>{{"attention.head_count_kv", 1},
                                                              {"attention.q_lora_rank", kQueries},
                                                              {"attention.kv_lora_rank", kLatent},
                                                              {"attention.key_length", kLatent + kRotated},
                                                              {"attention.value_length", kLatent},
                                                              {"attention.key_length_mla", kPlain + kRotated},
                                                              {"attention.value_length_mla", kValues},
                                                              {"rope.dimension_count", kRotated},
                                                              {"rope.scaling.original_context_length", 16},
                                                              {"leading_dense_block_count", 1},
                                                              {"expert_count", 4},
                                                              {"expert_used_count", 2},
                                                              {"expert_shared_count", 1},
                                                              {"expert_feed_forward_length", 96}})
    m.keys.set(std::string("mistral4.") + key, static_cast<uint32_t>(value));
  m.keys.set("mistral4.expert_weights_norm", true);
  m.keys.set("mistral4.expert_weights_scale", 1.5f);
  m.keys.set("mistral4.attention.temperature_scale", 0.25f);
  m.keys.set("mistral4.rope.scaling.type", "yarn");
  m.keys.set("mistral4.rope.scaling.factor", 4.0f);
  m.keys.set("mistral4.rope.scaling.yarn_log_multiplier", 0.1f);
  add_weight(m, "token_embd.weight", {128, 256});
  add_norm(m, "output_norm", 128);
  add_linear(m, "output", 128, 256);
  for (const int il : {0, 1}) {
    const auto name = [&](const char* part) { return of_layer(il, part); };
    for (const char* norm : {"attn_norm", "ffn_norm"}) add_norm(m, name(norm), 128);
    add_linear(m, name("attn_q_a"), 128, kQueries);
    add_norm(m, name("attn_q_a_norm"), kQueries);
    add_linear(m, name("attn_q_b"), kQueries, kHeads * (kPlain + kRotated));
    add_linear(m, name("attn_kv_a_mqa"), 128, kLatent + kRotated);
    add_norm(m, name("attn_kv_a_norm"), kLatent);
    add_weight(m, name("attn_k_b.weight"), {kPlain, kLatent, kHeads});
    add_weight(m, name("attn_v_b.weight"), {kLatent, kValues, kHeads});
    add_linear(m, name("attn_output"), kHeads * kValues, 128);
    const std::string end = il == 0 ? "" : "_shexp";
    const int64_t n_ff = il == 0 ? 192 : 96;
    for (const char* part : {"ffn_gate", "ffn_up"}) add_linear(m, of_layer(il, part + end), 128, n_ff);
    add_linear(m, of_layer(il, "ffn_down" + end), n_ff, 128);
  }
  add_linear(m, "blk.1.ffn_gate_inp", 128, 4);
  add_weight(m, "blk.1.ffn_gate_up_exps.weight", {128, 2 * 96, 4});
  add_weight(m, "blk.1.ffn_down_exps.weight", {96, 128, 4});
  return m;
}

RoundTrip mistral4_trip() {
  const std::string attention = "model.layers.{i}.self_attn.", experts = "model.layers.{i}.mlp.experts.";
  return {.class_name = "Mistral4ForCausalLM",
          .model = mistral4_model(),
          .config = {{"q_lora_rank", 24},
                     {"kv_lora_rank", 32},
                     {"qk_nope_head_dim", 16},
                     {"qk_rope_head_dim", 8},
                     {"v_head_dim", 12},
                     {"num_key_value_heads", 4},
                     {"first_k_dense_replace", 1},
                     {"n_routed_experts", 4},
                     {"num_experts_per_tok", 2},
                     {"n_shared_experts", 1},
                     {"moe_intermediate_size", 96},
                     {"norm_topk_prob", true},
                     {"routed_scaling_factor", 1.5},
                     {"rope_theta", nullptr},
                     {"rope_parameters",
                      {{"rope_type", "yarn"},
                       {"rope_theta", 10000.0},
                       {"factor", 4.0},
                       {"mscale_all_dim", 1.0},
                       {"llama_4_scaling_beta", 0.25},
                       {"original_max_position_embeddings", 16}}}},
          .rows = {{attention + "q_a_proj.weight", "attn_q_a.weight"},
                   {attention + "q_a_layernorm.weight", "attn_q_a_norm.weight"},
                   {attention + "q_b_proj.weight", "attn_q_b.weight"},
                   {attention + "kv_a_proj_with_mqa.weight", "attn_kv_a_mqa.weight"},
                   {attention + "kv_a_layernorm.weight", "attn_kv_a_norm.weight"},
                   {attention + "kv_b_proj.weight", "attn_k_b.weight attn_v_b.weight", kv_b_of_heads},
                   {experts + "gate_up_proj", "ffn_gate_up_exps.weight"},
                   {experts + "down_proj", "ffn_down_exps.weight"}}};
}

TEST(RoundTripsRecent, Mistral4HasLatentAttention) {
  expect_round_trip(mistral4_trip());
  expect_in(refusal_with(mistral4_trip(), {{"rope_interleave", false}}), "rope_interleave is false, want true");
}

TEST(RoundTripsRecent, Mistral4MayBeTheTextOfAModelForImages) {
  RoundTrip trip = mistral4_trip();
  trip.class_name = "Mistral3ForConditionalGeneration";
  trip.config["text_config"] = {{"model_type", "mistral4"}};
  trip.extra = {"vision_tower.x.weight", "multi_modal_projector.x.weight"};
  for (const std::string outer : {"language_model.model.", "model.language_model."}) {
    HubFolder folder = hub_folder_of(trip);
    for (HubTensor& tensor : folder.tensors) tensor.name = with_place(tensor.name, "model.", outer);
    expect_folder(folder, trip);
  }
  trip.config["text_config"] = {{"model_type", "ministral3"}};
  EXPECT_FALSE(convert_to_floats(hub_folder_of(trip).write("refused")).has_value()) << "mistral3 has other tensors";
}

constexpr int kMimo2Layers = 2, kMimo2Blocks = 5;

// Layer 1 has a window, a sink for each head, and experts. Three blocks predict further tokens. The last one has q, k
// and v in one matrix.
FloatModel mimo2_model() {
  FloatModel m = twin_of("qwen3-dense", "mimo2");
  become_experts(m, 1, 4);
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, uint32_t>>{{"block_count", kMimo2Blocks},
                                                               {"nextn_predict_layers", kMimo2Blocks - kMimo2Layers},
                                                               {"attention.key_length", 32},
                                                               {"attention.value_length", 16},
                                                               {"attention.sliding_window", 5},
                                                               {"rope.dimension_count", 16},
                                                               {"expert_count", 4},
                                                               {"expert_used_count", 2},
                                                               {"expert_feed_forward_length", 192}})
    m.keys.set(std::string("mimo2.") + key, value);
  m.keys.set_array("mimo2.attention.head_count_kv", std::vector<int32_t>{1, 2, 2, 2, 2});
  m.keys.set_array("mimo2.attention.sliding_window_pattern", std::vector<int32_t>{0, 1, 1, 1, 1});
  m.keys.set("mimo2.attention.value_scale", 0.75f);
  m.keys.set("mimo2.rope.freq_base", 5000.0f);
  m.keys.set("mimo2.rope.freq_base_swa", 700.0f);
  add_vector(m, "blk.1.exp_probs_b.bias", 4);
  for (int il = 0; il < kMimo2Blocks; ++il) {
    const auto name = [&](const char* part) { return of_layer(il, part); };
    const int64_t n_kv = il == 0 ? 1 : 2;
    std::erase_if(m.tensors, [&](const FloatModel::Entry& entry) {
      return entry.name.starts_with(name("attn_")) && entry.name != name("attn_norm.weight");
    });
    if (il < kMimo2Blocks - 1) {
      add_linear(m, name("attn_q"), 128, 4 * 32);
      add_linear(m, name("attn_k"), 128, n_kv * 32);
      add_linear(m, name("attn_v"), 128, n_kv * 16);
    } else {
      add_linear(m, name("attn_qkv"), 128, 4 * 32 + n_kv * (32 + 16));
    }
    add_linear(m, name("attn_output"), 4 * 16, 128);
    if (il > 0) add_weight(m, name("attn_sinks.weight"), {4}, 2);
    if (il < kMimo2Layers) continue;
    for (const char* norm : {"attn_norm", "ffn_norm", "nextn.enorm", "nextn.hnorm", "layer_output_norm"})
      add_norm(m, name(norm), 128);
    add_linear(m, name("nextn.eh_proj"), 256, 128);
    for (const char* part : {"ffn_gate", "ffn_up"}) add_linear(m, name(part), 128, 192);
    add_linear(m, name("ffn_down"), 192, 128);
  }
  return m;
}

RoundTrip mimo2_trip() {
  const std::string layer = "model.layers.{i}.";
  return {.class_name = "MiMoV2FlashForCausalLM",
          .model = mimo2_model(),
          .config = {{"head_dim", 32},
                     {"v_head_dim", 16},
                     {"swa_head_dim", 32},
                     {"swa_v_head_dim", 16},
                     {"swa_num_attention_heads", 4},
                     {"num_key_value_heads", 1},
                     {"swa_num_key_value_heads", 2},
                     {"hybrid_layer_pattern", {0, 1}},
                     {"sliding_window", 5},
                     {"partial_rotary_factor", 0.5},
                     {"rope_theta", 5000.0},
                     {"swa_rope_theta", 700.0},
                     {"rms_norm_eps", nullptr},
                     {"layernorm_epsilon", 1e-5},
                     {"attention_value_scale", 0.75},
                     {"n_routed_experts", 4},
                     {"num_experts_per_tok", 2},
                     {"moe_intermediate_size", 192},
                     {"topk_method", "noaux_tc"},
                     {"scoring_func", "sigmoid"},
                     {"norm_topk_prob", true}},
          .rows = {{layer + "self_attn.qkv_proj.weight", "attn_qkv.weight"},
                   {layer + "self_attn.attention_sink_bias", "attn_sinks.weight"},
                   {layer + "eh_proj.weight", "nextn.eh_proj.weight"},
                   {layer + "enorm.weight", "nextn.enorm.weight"},
                   {layer + "hnorm.weight", "nextn.hnorm.weight"},
                   {layer + "final_layernorm.weight", "layer_output_norm.weight"}}};
}

/// The folder of a trip, whose layers past the model's have names of their own.
HubFolder mimo2_folder(RoundTrip& trip) {
  HubFolder folder = hub_folder_of(trip);
  for (HubTensor& tensor : folder.tensors)
    for (int il = kMimo2Layers; il < kMimo2Blocks; ++il) {
      const std::string before = "model.layers." + std::to_string(il) + ".";
      if (!tensor.name.starts_with(before)) continue;
      const std::string after = "model.mtp.layers." + std::to_string(il - kMimo2Layers) + ".";
      tensor.name = with_place(tensor.name, before, after);
      if (il < kMimo2Blocks - 1) tensor.name = with_place(tensor.name, "post_attention", "pre_mlp");
    }
  return folder;
}

TEST(RoundTripsRecent, Mimo2KeepsLayersThatPredict) {
  for (const char* const name : {"MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"}) {
    RoundTrip trip = mimo2_trip();
    trip.class_name = name;
    expect_folder(mimo2_folder(trip), trip);
  }
  ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(temporary_path("round_trip.gguf")));
  const Metadata& keys = files->metadata();
  ASSERT_OK_AND_ASSIGN(const auto model, create_model(*files, {}));
  EXPECT_OK(model->add_head());
  EXPECT_EQ(keys.get<uint32_t>("mimo2.block_count").value(), 5u);
  EXPECT_EQ(keys.get<uint32_t>("mimo2.nextn_predict_layers").value(), 3u);
  EXPECT_EQ(keys.get_vector<int32_t>("mimo2.attention.head_count_kv").value(), (std::vector<int32_t>{1, 2, 2, 2, 2}));
  EXPECT_EQ(keys.get_vector<int32_t>("mimo2.attention.sliding_window_pattern").value(),
            (std::vector<int32_t>{0, 1, 1, 1, 1}));
}

TEST(RoundTripsRecent, Mimo2WithoutLayersThatPredict) {
  RoundTrip trip = mimo2_trip();
  std::erase_if(trip.model.tensors, [](const FloatModel::Entry& entry) {
    return entry.name.starts_with("blk.") && entry.name[4] - '0' >= kMimo2Layers;
  });
  trip.model.keys.set("mimo2.block_count", 2u);
  trip.model.keys.remove("mimo2.nextn_predict_layers");
  trip.model.keys.set_array("mimo2.attention.head_count_kv", std::vector<int32_t>{1, 2});
  trip.model.keys.set_array("mimo2.attention.sliding_window_pattern", std::vector<int32_t>{0, 1});
  expect_round_trip(trip);
  ASSERT_OK_AND_ASSIGN(const auto without, ModelFiles::open(temporary_path("round_trip.gguf")));
  EXPECT_EQ(without->metadata().find("mimo2.nextn_predict_layers"), nullptr);

  // Left out of a checkpoint that has them.
  RoundTrip whole = mimo2_trip();
  const HubFolder folder = mimo2_folder(whole);
  const std::string path = folder.write("with_heads");
  const Checkpoint checkpoint = Checkpoint::open(path).value();
  const HubConfig config = HubConfig::read(checkpoint).value();
  GgufBuilder builder;
  std::vector<ConvertedTensor> tensors;
  ModelDraft made{checkpoint, config, "mimo2", builder, tensors, LaterLayers::dropped};
  ASSERT_OK(draft_model(*find_model_class(config).value(), checkpoint.tensors(), made));
  EXPECT_EQ(tensors.size(), trip.model.tensors.size());
  const std::vector<std::byte> bytes = builder.header().value();  // which the header refers to
  const auto header = ModelFiles::parse_header(bytes, "draft").value();
  EXPECT_EQ(header->metadata().get<uint32_t>("mimo2.block_count").value(), 2u);
  EXPECT_EQ(header->metadata().find("mimo2.nextn_predict_layers"), nullptr);
}

TEST(RoundTripsRecent, Mimo2RefusesWhatItsArchitectureLacks) {
  const auto expect_refusal = [&](const nlohmann::json& members, const std::string& part) {
    RoundTrip trip = mimo2_trip();
    trip.config.merge_patch(members);
    EXPECT_ERROR(convert_to_floats(mimo2_folder(trip).write("refused")), part);
  };
  expect_refusal({{"swa_head_dim", 16}}, "swa_head_dim is 16, want 32 as head_dim");
  expect_refusal({{"swa_v_head_dim", 32}}, "swa_v_head_dim is 32, want 16 as v_head_dim");
  expect_refusal({{"swa_num_attention_heads", 8}}, "swa_num_attention_heads is 8, want 4 as num_attention_heads");
  expect_refusal({{"topk_method", "greedy"}}, "topk_method is \"greedy\", want \"noaux_tc\"");
  expect_refusal({{"scoring_func", "softmax"}}, "scoring_func is \"softmax\", want \"sigmoid\"");
  expect_refusal({{"norm_topk_prob", false}}, "norm_topk_prob is false, want true");
  expect_refusal({{"routed_scaling_factor", 2.5}}, "routed_scaling_factor is 2.5, want 1.0");
  expect_refusal({{"hybrid_layer_pattern", {0, 1, 1}}}, "hybrid_layer_pattern: want 2 numbers");
  expect_refusal({{"hybrid_layer_pattern", nullptr}}, "hybrid_layer_pattern: want 2 numbers");
}

constexpr int64_t kPartColumns = 4, kPartBlock = 4, kPartHeads = 8, kPartKeys = 4, kPartValues = 2;

/// Adds q, k and v of a layer in parts, in 8 bits with a scale for each block of 4 x 4. The rows of a part are 1, 1 1/8
/// up to 1 7/8 in turns, times a scale that is the number of the block. Returns the values in the order of GGUF.
Floats add_fused_parts(HubFolder& folder, int layer, int64_t n_heads_kv, int64_t n_parts) {
  constexpr int kOne = 0x38;  // 1 as F8_E4M3
  const int64_t extents[] = {kPartHeads * kPartKeys / n_parts, n_heads_kv * kPartKeys / n_parts,
                             n_heads_kv * kPartValues / n_parts};
  const int64_t n_rows = extents[0] + extents[1] + extents[2], n_blocks = (n_rows + kPartBlock - 1) / kPartBlock;
  const std::string name = "model.layers." + std::to_string(layer) + ".self_attn.qkv_proj.weight";
  HubTensor weight{.name = name, .type = "F8_E4M3", .shape = {n_parts * n_rows, kPartColumns}};
  Floats scales, values;
  for (int64_t row = 0; row < n_parts * n_rows; ++row)
    weight.bytes.append(kPartColumns, static_cast<char>(kOne + row % n_rows % 8));
  for (int64_t i = 0; i < n_parts * n_blocks; ++i) scales.push_back(static_cast<float>(i + 1));
  int64_t first = 0;
  for (const int64_t n : extents) {
    for (int64_t part = 0; part < n_parts; ++part)
      for (int64_t row = first; row < first + n; ++row)
        values.insert(
            values.end(), kPartColumns,
            (1.0f + static_cast<float>(row % 8) / 8) * scales[static_cast<size_t>(part * n_blocks + row / kPartBlock)]);
    first += n;
  }
  folder.tensors.push_back(std::move(weight));
  folder.tensors.push_back({name + "_scale_inv", "F32", {n_parts * n_blocks, 1}, hub_bytes(scales, "F32")});
  return values;
}

HubFolder fused_parts_folder() {
  return {.config = R"({"architectures": ["MiMoV2ForCausalLM"], "num_hidden_layers": 2, "num_attention_heads": 8,
      "num_key_value_heads": 4, "swa_num_key_value_heads": 8, "head_dim": 4, "v_head_dim": 2, "sliding_window": 5,
      "hybrid_layer_pattern": [0, 1],
      "quantization_config": {"quant_method": "fp8", "weight_block_size": [4, 4]}})"};
}

TEST(RoundTripsRecent, PartsOfFusedHeadsOfMimo2AreJoined) {
  HubFolder folder = fused_parts_folder();
  const Floats full = add_fused_parts(folder, 0, 4, 4);
  const Floats windowed = add_fused_parts(folder, 1, 8, 4);  // its parts of 20 rows are whole blocks
  const Drafted made = draft_folder(folder.write("parts"));
  EXPECT_EQ(made.error, "");
  EXPECT_EQ(made.of("blk.0.attn_qkv.weight"), full);
  EXPECT_EQ(made.of("blk.1.attn_qkv.weight"), windowed);
  for (const ConvertedTensor& tensor : made.tensors) EXPECT_EQ(tensor.shape.size(), 2u) << tensor.name;
  folder = fused_parts_folder();
  const Floats eight = add_fused_parts(folder, 1, 8, 8);
  EXPECT_EQ(draft_folder(folder.write("parts")).of("blk.1.attn_qkv.weight"), eight);
  folder = fused_parts_folder();
  const Floats whole = add_fused_parts(folder, 0, 4, 1);
  EXPECT_EQ(draft_folder(folder.write("parts")).of("blk.0.attn_qkv.weight"), whole);
}

TEST(RoundTripsRecent, PartsOfFusedHeadsOfMimo2MustHaveWholeHeads) {
  HubFolder folder = fused_parts_folder();
  add_fused_parts(folder, 0, 4, 4);
  folder.config.replace(folder.config.find("\"v_head_dim\": 2"), 15, "\"v_head_dim\": 3");
  expect_in(draft_folder(folder.write("parts")).error, "56 rows are no 4 parts with heads of q, k and v");
  folder = fused_parts_folder();
  add_fused_parts(folder, 0, 4, 4);
  folder.tensors.back().shape[0] = 13;
  folder.tensors.back().bytes.resize(13 * sizeof(float));
  expect_in(draft_folder(folder.write("parts")).error, "shape [13, 1] does not fit weights of shape [56, 4]");
}

}  // namespace
}  // namespace tessera::convert
