// Classes with rules for heads, windows or latent attention that come from the config (tests/convert/round_trip.h).
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

}  // namespace
}  // namespace tessera::convert
