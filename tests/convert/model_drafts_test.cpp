// What single classes of models do with tensors and settings: orders of elements, cuts, and refusals.
#include <gtest/gtest.h>

#include <string>

#include "tests/convert/model_drafts.h"

namespace tessera::convert {
namespace {

using namespace testing;

TEST(ModelDrafts, RowsOfGptNeoXAreSortedByKind) {
  const std::string bias = "gpt_neox.layers.0.attention.query_key_value.bias";
  const std::string heads = R"("num_attention_heads": 2)";
  EXPECT_EQ(draft("GPTNeoXForCausalLM", heads, {{bias, {6}}}).of("blk.0.attn_qkv.bias"), (Floats{0, 3, 1, 4, 2, 5}));
  expect_in(draft("GPTNeoXForCausalLM", heads, {{bias, {8}}}).error, "8 rows, want q, k and v of 2 heads");
  expect_in(draft("GPTNeoXForCausalLM", "", {{bias, {6}}}).error, "of 0 heads");
}

TEST(ModelDrafts, RowsOfFalconAreSortedByKind) {
  const std::string weight = "transformer.h.0.self_attention.query_key_value.weight";
  const auto order = [&](const std::string& members, int64_t n_rows) {
    return draft("FalconForCausalLM", members, {{weight, {n_rows, 1}}});
  };
  const std::string grouped = R"("num_attention_heads": 4, "num_kv_heads": 2, "new_decoder_architecture": true)";
  EXPECT_EQ(order(grouped, 8).of("blk.0.attn_qkv.weight"), (Floats{0, 1, 4, 5, 2, 6, 3, 7}));
  const std::string shared = R"("num_attention_heads": 2, "multi_query": true)";
  EXPECT_EQ(order(shared, 4).of("blk.0.attn_qkv.weight"), (Floats{0, 1, 2, 3}));
  const std::string own = R"("num_attention_heads": 2, "multi_query": false)";
  EXPECT_EQ(order(own, 6).of("blk.0.attn_qkv.weight"), (Floats{0, 3, 1, 4, 2, 5}));
  expect_in(order(grouped, 9).error, "9 rows, want 2 groups of 4 heads and their k and v");
  expect_in(order(R"("num_attention_heads": 3, "num_kv_heads": 2, "new_decoder_architecture": true)", 7).error,
            "want 2 groups of 3 heads");
}

TEST(ModelDrafts, MptWithoutBiasOfDistances) {
  const std::string size = R"("d_model": 8, "n_layers": 1, "n_heads": 2, "max_seq_len": 16, "attn_config": )";
  expect_in(draft("MPTForCausalLM", size + R"({"alibi": true, "alibi_bias_max": 4})", {}).keys,
            "mpt.attention.max_alibi_bias=4 ");
  expect_in(draft("MPTForCausalLM", size + R"({"alibi": false, "alibi_bias_max": 4})", {}).keys,
            "mpt.attention.max_alibi_bias=0 ");
  expect_in(draft("MPTForCausalLM", "", {}).error, "no max_seq_len, which mpt needs");
}

TEST(ModelDrafts, RowsPastTheVocabularyOfGemma3AreCut) {
  const auto rows = [](const std::string& members) {
    return draft("Gemma3ForCausalLM", members, {{"model.embed_tokens.weight", {3, 2}}}).of("token_embd.weight");
  };
  EXPECT_EQ(rows(R"("vocab_size": 2)"), (Floats{0, 1, 2, 3}));
  EXPECT_EQ(rows(R"("vocab_size": 4)"), (Floats{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(rows(R"("rope_theta": 1)"), (Floats{0, 1, 2, 3, 4, 5}));
}

TEST(ModelDrafts, Gemma3HasNoWindowWithAPatternOfOne) {
  expect_in(draft("Gemma3ForCausalLM", "", {}).keys, "gemma3.attention.sliding_window=4096 ");
  expect_in(draft("Gemma3ForCausalLM", R"("sliding_window": 77)", {}).keys, "gemma3.attention.sliding_window=77 ");
  expect_not_in(draft("Gemma3ForCausalLM", R"("sliding_window": 77, "sliding_window_pattern": 1)", {}).keys,
                "sliding_window");
}

TEST(ModelDrafts, Phi3StatesItsMagnitude) {
  const std::string factors = R"(, "rope_scaling": {"type": "longrope", "long_factor": [1], "short_factor": [1]})";
  const auto keys = [&](const std::string& members) { return draft("Phi3ForCausalLM", members, {}).keys; };
  expect_in(keys(R"("max_position_embeddings": 256, "original_max_position_embeddings": 16)" + factors),
            "phi3.rope.scaling.attn_factor=1.4142");
  expect_in(keys(R"("max_position_embeddings": 16, "original_max_position_embeddings": 16)" + factors),
            "phi3.rope.scaling.attn_factor=1 ");
  expect_not_in(keys(R"("max_position_embeddings": 16)"), "attn_factor");
  expect_not_in(keys(R"("max_position_embeddings": 16)" + factors), "scaling.type");
  expect_in(draft("Phi3ForCausalLM", R"("original_max_position_embeddings": 1)" + factors, {}).error,
            "want at least 2");
}

TEST(ModelDrafts, SmolLm3KnowsItsLayersWithoutRope) {
  const auto error = [](const std::string& list) {
    return draft("SmolLM3ForCausalLM", R"("vocab_size": 1, "no_rope_layers": )" + list, {}).error;
  };
  EXPECT_EQ(error("[1, 1, 1, 0, 1, 1, 1, 0]"), "");
  expect_in(error("[1, 1, 0, 1]"), "no_rope_layers of layer 2 is 0, want 0 in every fourth layer only");
  expect_in(error("[1, 1, 1, 1]"), "of layer 3 is 1");
}

TEST(ModelDrafts, Exaone4ReadsPatterns) {
  const std::string size = R"("vocab_size": 1, "num_hidden_layers": 5, "sliding_window": 8)";
  const auto made = [&](const std::string& pattern) {
    return draft("Exaone4ForCausalLM", size + R"(, "sliding_window_pattern": )" + pattern, {});
  };
  expect_in(made(R"("LLG")").keys, "sliding_window_pattern=[true, true, false, true, true] ");
  expect_in(made(R"("")").error, "want letters L and G");
  expect_in(made(R"("LX")").error, "want letters L and G");
  expect_not_in(draft("Exaone4ForCausalLM", R"("vocab_size": 1, "sliding_window_pattern": "LLG")", {}).keys, "sliding");
}

TEST(ModelDrafts, NemotronStatesItsScaling) {
  expect_in(draft("NemotronForCausalLM", R"("vocab_size": 1)", {}).keys, "nemotron.rope.scaling.type=\"none\" ");
  expect_in(
      draft("NemotronForCausalLM", R"("vocab_size": 1, "rope_scaling": {"type": "linear", "factor": 2})", {}).keys,
      "nemotron.rope.scaling.type=\"linear\" nemotron.rope.scaling.factor=2 ");
}

TEST(ModelDrafts, ClassesThatLackAPartRefuseIt) {
  expect_in(draft("Cohere2ForCausalLM", R"("vocab_size": 1)", {{"model.norm.bias", {1}}}).error,
            "output_norm.bias has a place in no model of cohere2");
}

TEST(ModelDrafts, DeepseekCutsKeysAndValues) {
  const std::string members =
      R"("vocab_size": 1, "num_attention_heads": 2, "kv_lora_rank": 2, "qk_nope_head_dim": 2, "qk_rope_head_dim": 2,
         "v_head_dim": 1, "num_hidden_layers": 1)";
  const std::string kv_b = "model.layers.0.self_attn.kv_b_proj.weight";
  const Drafted made = draft("DeepseekV2ForCausalLM", members, {{kv_b, {6, 2}}});
  EXPECT_EQ(made.of("blk.0.attn_k_b.weight"), (Floats{0, 2, 1, 3, 6, 8, 7, 9}));
  EXPECT_EQ(made.of("blk.0.attn_v_b.weight"), (Floats{4, 5, 10, 11}));
  expect_not_in(made.keys, "expert_weights_norm");
  expect_in(draft("DeepseekV2ForCausalLM", members + R"(, "norm_topk_prob": true)", {}).keys,
            "expert_weights_norm=true ");
  expect_in(draft("DeepseekV2ForCausalLM", members, {{kv_b, {5, 2}}}).error, "5 rows, want 2 heads of 2 and 1");
  const Drafted later = draft("DeepseekV2ForCausalLM", members, {{"model.layers.1.input_layernorm.weight", {1}}});
  EXPECT_EQ(later.error, "");
  EXPECT_TRUE(later.tensors.empty());
}

TEST(ModelDrafts, FormsOfMambaTensors) {
  const std::string members = R"("num_heads": 2, "n_groups": 2, "hidden_size": 2)";
  const auto made = [&](const DraftTensor& tensor) { return draft("Mamba2ForCausalLM", members, {tensor}); };
  EXPECT_EQ(made({"backbone.layers.0.mixer.D", {2}}).tensors[0].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(made({"backbone.layers.0.mixer.norm.weight", {6}}).tensors[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(made({"backbone.layers.0.mixer.conv1d.weight", {3, 1, 4}}).tensors[0].shape, (std::vector<int64_t>{3, 4}));
  expect_in(made({"backbone.layers.0.mixer.norm.weight", {5}}).error, "5 values, want 2 groups of one size");
  expect_in(made({"backbone.layers.0.mixer.conv1d.weight", {3, 2, 4}}).error, "three with 1 in the middle");
  expect_in(made({"backbone.layers.0.mixer.conv1d.weight", {3, 1}}).error, "2 dimensions, want three");
}

TEST(ModelDrafts, JambaStatesItsLayersWithAttention) {
  const std::string members = R"("num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 2)";
  expect_in(draft("JambaForCausalLM", members + R"(, "attn_layer_period": 3, "attn_layer_offset": 1)", {}).keys,
            "head_count_kv=[0, 2, 0, 0, 2] ");
  expect_in(draft("JambaForCausalLM", members, {}).keys, "head_count_kv=[0, 0, 0, 0, 2] ");
  EXPECT_NE(draft("JambaForCausalLM", members + R"(, "attn_layer_period": 0)", {}).error, "");
}

// Four value heads of two values, for two key heads of one value.
constexpr const char* kLinear =
    R"("num_hidden_layers": 1, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 1,
       "linear_value_head_dim": 2, "linear_conv_kernel_dim": 4)";

TEST(ModelDrafts, ValueHeadsOfQwen35AreTiled) {
  const std::string layer = "model.layers.0.linear_attn.";
  const auto made = [&](const std::string& name, const std::vector<int64_t>& shape) {
    return draft("Qwen3_5ForCausalLM", kLinear, {{layer + name, shape}});
  };
  EXPECT_EQ(made("in_proj_a.weight", {4, 1}).of("blk.0.ssm_alpha.weight"), (Floats{0, 2, 1, 3}));
  EXPECT_EQ(made("in_proj_z.weight", {8, 1}).of("blk.0.attn_gate.weight"), (Floats{0, 1, 4, 5, 2, 3, 6, 7}));
  EXPECT_EQ(made("out_proj.weight", {1, 8}).of("blk.0.ssm_out.weight"), (Floats{0, 1, 4, 5, 2, 3, 6, 7}));
  EXPECT_EQ(made("in_proj_qkv.weight", {12, 1}).of("blk.0.attn_qkv.weight"),
            (Floats{0, 1, 2, 3, 4, 5, 8, 9, 6, 7, 10, 11}));
  EXPECT_EQ(made("conv1d.weight", {12, 1, 1}).of("blk.0.ssm_conv1d.weight"),
            (Floats{0, 1, 2, 3, 4, 5, 8, 9, 6, 7, 10, 11}));
  expect_in(made("in_proj_z.weight", {7, 1}).error, "7 rows, want 8");
  expect_in(made("in_proj_qkv.weight", {13, 1}).error, "13 rows, want 12");
  expect_in(draft("Qwen3_5ForCausalLM", kLinear, {}).keys, "rope.dimension_sections=[11, 11, 10, 0] ");
}

TEST(ModelDrafts, PartsOfQwen3NextAreTakenApart) {
  const Drafted made = draft(
      "Qwen3NextForCausalLM", kLinear,
      {{"model.layers.0.linear_attn.in_proj_qkvz.weight", {20, 1}}, {"mtp.layers.0.input_layernorm.weight", {1}}});
  EXPECT_EQ(made.of("blk.0.attn_qkv.weight"), (Floats{0, 10, 1, 11, 2, 3, 4, 5, 12, 13, 14, 15}));
  EXPECT_EQ(made.of("blk.0.attn_gate.weight"), (Floats{6, 7, 8, 9, 16, 17, 18, 19}));
  EXPECT_EQ(made.of("blk.1.attn_norm.weight"), (Floats{21}));
  expect_in(made.keys, "qwen3next.block_count=2 ");
  expect_in(made.keys, "qwen3next.nextn_predict_layers=1 ");
  expect_not_in(draft("Qwen3NextForCausalLM", kLinear, {}).keys, "nextn");
  std::string odd = kLinear;
  odd.replace(odd.find("4"), 1, "3");
  expect_in(draft("Qwen3NextForCausalLM", odd, {{"model.layers.0.linear_attn.in_proj_qkvz.weight", {20, 1}}}).error,
            "3 value heads for 2 key heads, want a multiple");
}

TEST(ModelDrafts, RowsOfGptOssAlternate) {
  const std::string experts = "model.layers.0.mlp.experts.";
  const Drafted made =
      draft("GptOssForCausalLM", "", {{experts + "gate_up_proj", {1, 2, 4}}, {experts + "gate_up_proj_bias", {2, 4}}});
  EXPECT_EQ(made.of("blk.0.ffn_gate_exps.weight"), (Floats{0, 4, 2, 6}));
  EXPECT_EQ(made.of("blk.0.ffn_up_exps.weight"), (Floats{1, 5, 3, 7}));
  EXPECT_EQ(made.of("blk.0.ffn_gate_exps.bias"), (Floats{8, 10, 12, 14}));
  EXPECT_EQ(made.of("blk.0.ffn_up_exps.bias"), (Floats{9, 11, 13, 15}));
  expect_in(draft("GptOssForCausalLM", "", {{experts + "gate_up_proj_bias", {2, 3}}}).error,
            "no rows of gate and up in turns");
  EXPECT_EQ(draft("GptOssForCausalLM", "", {{experts + "down_proj", {1, 2, 2}}}).of("blk.0.ffn_down_exps.weight"),
            (Floats{0, 2, 1, 3}));
}

TEST(ModelDrafts, Gemma4StopsPairs) {
  const std::string members = R"("num_hidden_layers": 1, "layer_types": ["full_attention"], "sliding_window": 1,
      "head_dim": 4, "global_head_dim": 16)";
  const Drafted made = draft("Gemma4ForCausalLM", members, {});
  EXPECT_EQ(made.of("rope_freqs.weight"), (Floats{1, 1, 1e30f, 1e30f, 1e30f, 1e30f, 1e30f, 1e30f}));
  const std::string half = R"(, "rope_parameters": {"full_attention": {"partial_rotary_factor": 0.5}})";
  EXPECT_EQ(draft("Gemma4ForCausalLM", members + half, {}).of("rope_freqs.weight")[3], 1.0f);
}

constexpr const char* kGemma4 = R"("num_hidden_layers": 3, "sliding_window": 1, "head_dim": 4,
    "layer_types": ["sliding_attention", "full_attention", "full_attention"])";

TEST(ModelDrafts, LayersOfGemma4Differ) {
  const auto made = [](const std::string& members) { return draft("Gemma4ForCausalLM", kGemma4 + members, {}); };
  const std::string heads = "gemma4.attention.head_count_kv=", widths = "gemma4.feed_forward_length=";
  expect_in(made(R"(, "attention_k_eq_v": true, "num_global_key_value_heads": 2)").keys, heads + "[4, 2, 2] ");
  expect_in(made(R"(, "num_key_value_heads": 8, "attention_k_eq_v": true, "num_global_key_value_heads": 2)").keys,
            heads + "[8, 2, 2] ");
  expect_in(made(R"(, "num_key_value_heads": 8, "attention_k_eq_v": true)").keys, heads + "8 ");
  expect_in(made(R"(, "num_key_value_heads": 8, "num_global_key_value_heads": 2)").keys, heads + "8 ");
  expect_in(made(R"(, "num_global_key_value_heads": 0)").error, "num_global_key_value_heads");
  const std::string wider = R"(, "use_double_wide_mlp": true, "intermediate_size": )";
  expect_in(made(wider + R"(6, "num_kv_shared_layers": 1)").keys, widths + "[6, 6, 12] ");
  expect_in(made(wider + "6").keys, widths + "[6, 6, 6] ");
  expect_in(made(wider + "1073741823").keys, widths + "[1073741823, ");
  expect_in(made(wider + "1073741824").error, "intermediate_size");
  expect_in(made(R"(, "use_double_wide_mlp": true)").error, "intermediate_size");
  expect_in(made(R"(, "use_double_wide_mlp": false, "intermediate_size": 6, "num_kv_shared_layers": 1)").keys,
            widths + "6 ");
  EXPECT_EQ(made(R"(, "num_kv_shared_layers": 3)").error, "");
  expect_in(made(R"(, "num_kv_shared_layers": 4)").error, "num_kv_shared_layers");
}

TEST(ModelDrafts, Gemma4LeavesOutKeysThatAreNotUsed) {
  const auto names = [](const std::string& members) {
    std::vector<DraftTensor> tensors;
    for (int i = 0; i < 4; ++i)
      for (const char* name : {"k_proj", "v_proj", "k_norm", "q_proj"})
        tensors.push_back({"model.layers." + std::to_string(i) + ".self_attn." + name + ".weight", {1}});
    const Drafted made = draft("Gemma4ForCausalLM", kGemma4 + members, tensors);
    std::string text = made.error;
    for (const ConvertedTensor& tensor : made.tensors)
      if (tensor.name.find(".attn_q.") == std::string::npos && tensor.name.starts_with("blk."))
        text += tensor.name.substr(4, tensor.name.size() - 11) + " ";
    return text;
  };
  const std::string all[] = {"0.attn_k 0.attn_v 0.attn_k_norm ", "1.attn_k 1.attn_v 1.attn_k_norm ",
                             "2.attn_k 2.attn_v 2.attn_k_norm ", "3.attn_k 3.attn_v 3.attn_k_norm "};
  EXPECT_EQ(names(""), all[0] + all[1] + all[2] + all[3]);
  EXPECT_EQ(names(R"(, "num_kv_shared_layers": 1)"), all[0] + all[1] + all[3]);
  EXPECT_EQ(names(R"(, "attention_k_eq_v": true)"), all[0] + "1.attn_k 1.attn_k_norm 2.attn_k 2.attn_k_norm " + all[3]);
}

// Experts of NVFP4 have factors. Those of the router are multiplied by them.
TEST(ModelDrafts, FactorsOfGemma4ExpertsAreJoined) {
  const std::string layer = "model.layers.0.", router = layer + "router.per_expert_scale";
  const DraftTensor first{layer + "experts.0.down_proj.scale", {1}}, second{layer + "experts.1.down_proj.scale", {1}};
  const auto made = [](const std::vector<DraftTensor>& tensors) {
    return draft("Gemma4ForCausalLM", kGemma4, tensors);
  };
  Drafted joined = made({{layer + "layer_scalar", {5}}, second, first, {router, {2}}});
  EXPECT_EQ(joined.error, "");
  EXPECT_EQ(joined.of("blk.0.ffn_down_exps.scale"), (Floats{6 * 7, 5 * 8}));
  ASSERT_EQ(joined.tensors.size(), 3u);  // with rope_freqs
  joined = made({{layer + "layer_scalar", {5}}, {router, {2}}, first, second});
  EXPECT_EQ(joined.of("blk.0.ffn_down_exps.scale"), (Floats{5 * 7, 6 * 8}));
  joined = made({{layer + "layer_scalar", {5}}, {router, {2}}, {"model.layers.1.experts.0.down_proj.scale", {1}}});
  EXPECT_EQ(joined.of("blk.0.ffn_down_exps.scale"), (Floats{5, 6}));
  EXPECT_EQ(joined.of("blk.1.ffn_down_exps.scale"), (Floats{7}));
  EXPECT_EQ(joined.tensors.size(), 4u);
  expect_in(made({first, second, {router, {3}}}).error,
            "blk.0.ffn_down_exps.per_expert_scale: its shape differs from that of blk.0.ffn_down_exps.scale");
  expect_in(made({first, second, {router, {2, 1}}}).error, "want a factor for each expert");
  expect_in(made({{first.name, {3}}, {second.name, {3}}, {router, {2, 3}}}).error, "want a factor for each expert");
}

TEST(ModelDrafts, RobertaCutsUnusedPositions) {
  const std::string positions = "roberta.embeddings.position_embeddings.weight";
  EXPECT_EQ(draft("RobertaModel", "", {{positions, {4, 1}}}).of("position_embd.weight"), (Floats{2, 3}));
  EXPECT_EQ(draft("RobertaModel", R"("pad_token_id": 0)", {{positions, {4, 1}}}).of("position_embd.weight"),
            (Floats{1, 2, 3}));
  EXPECT_NE(draft("RobertaModel", R"("pad_token_id": 4)", {{positions, {4, 1}}}).error, "");
}

TEST(ModelDrafts, EncodersStateTheirPoolingAndLabels) {
  const std::string modules = R"([{"type": "other"}, {"type": "sentence_transformers.models.Pooling", "path": "1_P"}])";
  const auto pooled = [&](const std::string& config, const std::string& list) {
    return draft("BertModel", "", {}, {{"modules.json", list}, {"1_P/config.json", config}});
  };
  expect_in(pooled(R"({"pooling_mode_mean_tokens": true})", modules).keys, "bert.pooling_type=1 ");
  expect_in(pooled(R"({"pooling_mode_cls_token": true})", modules).keys, "bert.pooling_type=2 ");
  expect_in(pooled(R"({"pooling_mode_lasttoken": true})", modules).keys, "bert.pooling_type=3 ");
  expect_in(pooled(R"({"pooling_mode_max_tokens": true})", modules).error, "neither of mean, cls and last token");
  expect_in(pooled("{}", R"([{"type": "sentence_transformers.models.Pooling", "path": "../x"}])").error,
            "want the name of a folder");
  expect_not_in(pooled("{}", "[]").keys, "pooling_type");
  const DraftTensor score{"classifier.weight", {1, 2}};
  expect_in(draft("BertForSequenceClassification", R"("id2label": {"0": "good"})", {score}).keys,
            "bert.classifier.output_labels=[\"good\"] ");
  expect_in(draft("BertForSequenceClassification", R"("id2label": {"1": "good"})", {score}).error,
            "id2label: no text for 0");
  expect_in(draft("BertModel", R"("type_vocab_size": 3)", {}).keys, "tokenizer.ggml.token_type_count=3 ");
}

TEST(ModelDrafts, PartsForImagesAreLeftOut) {
  const Drafted made = draft("Gemma3ForConditionalGeneration", R"("text_config": {"vocab_size": 9})",
                             {{"vision_tower.patches.weight", {1}},
                              {"model.visual.x", {1}},
                              {"multi_modal_projector.y", {1}},
                              {"language_model.model.norm.weight", {1}},
                              {"model.layers.0.self_attn.rotary_emb.inv_freq", {1}}});
  EXPECT_EQ(made.error, "");
  ASSERT_EQ(made.tensors.size(), 1u);
  EXPECT_EQ(made.of("output_norm.weight"), (Floats{4}));
}

// Four rows of each head are rotated; pairs of rows become halves. The other rows stay.
TEST(ModelDrafts, SectionsOfRopeWantHalvesInGlm4) {
  const std::string plain = R"("num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 6, "hidden_size": 12,
      "partial_rotary_factor": 0.7)";
  const std::string sections = plain + R"(, "rope_parameters": {"mrope_section": [1, 1]})";
  const std::string q = "model.layers.0.self_attn.q_proj.", k = "model.layers.0.self_attn.k_proj.";
  const std::vector<DraftTensor> tensors = {{q + "weight", {12, 1}}, {q + "bias", {12}}, {k + "weight", {6, 2}}};
  Drafted made = draft("Glm4ForCausalLM", sections, tensors);
  EXPECT_EQ(made.error, "");
  EXPECT_EQ(made.of("blk.0.attn_q.weight"), (Floats{0, 2, 1, 3, 4, 5, 6, 8, 7, 9, 10, 11}));
  EXPECT_EQ(made.of("blk.0.attn_q.bias"), (Floats{12, 14, 13, 15, 16, 17, 18, 20, 19, 21, 22, 23}));
  EXPECT_EQ(made.of("blk.0.attn_k.weight"), (Floats{24, 25, 28, 29, 26, 27, 30, 31, 32, 33, 34, 35}));
  expect_in(made.keys, "glm4.rope.dimension_sections=[1, 1, 0, 0]");
  made = draft("Glm4ForCausalLM", plain, tensors);
  EXPECT_EQ(made.of("blk.0.attn_q.weight"), (Floats{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  made = draft("Glm4MoeForCausalLM", sections + R"(, "moe_intermediate_size": 1)", tensors);
  EXPECT_EQ(made.of("blk.0.attn_q.weight"), (Floats{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(draft("Glm4ForCausalLM", R"("num_attention_heads": 1, "head_dim": 4, "partial_rotary_factor": 1,
      "rope_scaling": {"mrope_section": [1]})",
                  {{q + "bias", {4}}})
                .of("blk.0.attn_q.bias"),
            (Floats{0, 2, 1, 3}));
  expect_in(draft("Glm4ForCausalLM", sections, {{q + "bias", {11}}}).error,
            "want 2 heads of 6 rows, 4 of them rotated");
  expect_in(draft("Glm4ForCausalLM", sections, {{q + "bias", {6}}}).error, "want 2 heads of 6 rows");
  expect_in(draft("Glm4ForCausalLM", R"("num_attention_heads": 1, "head_dim": 4, "partial_rotary_factor": 0.25,
      "rope_scaling": {"mrope_section": [1]})",
                  {{q + "bias", {4}}})
                .error,
            "1 of them rotated");
  expect_in(draft("Glm4ForCausalLM", R"("num_attention_heads": 1, "head_dim": 4, "partial_rotary_factor": 0.75,
      "rope_scaling": {"mrope_section": [1]})",
                  {{q + "bias", {4}}})
                .error,
            "3 of them rotated");
  expect_in(draft("Glm4ForCausalLM", R"("num_attention_heads": 1, "head_dim": 4, "partial_rotary_factor": 1.5,
      "rope_scaling": {"mrope_section": [1]})",
                  {{q + "bias", {4}}})
                .error,
            "6 of them rotated");
}

TEST(ModelDrafts, TheOnlyExpertOfJambaIsAPlainFfn) {
  const auto up = [](int layer, int expert) {
    return DraftTensor{
        "model.layers." + std::to_string(layer) + ".feed_forward.experts." + std::to_string(expert) + ".up_proj.weight",
        {2, 2}};
  };
  const std::string members = R"("num_hidden_layers": 2, "num_attention_heads": 1, "hidden_size": 2)";
  const Drafted made = draft("JambaForCausalLM", members, {up(0, 0), up(1, 0), up(1, 1)});
  EXPECT_EQ(made.error, "");
  EXPECT_EQ(made.of("blk.0.ffn_up.weight"), (Floats{0, 1, 2, 3}));
  ASSERT_EQ(made.tensors.size(), 2u);
  EXPECT_EQ(made.tensors[0].shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(made.of("blk.1.ffn_up_exps.weight").size(), 8u);
  EXPECT_EQ(draft("JambaForCausalLM", members, {up(1, 0)}).tensors[0].name, "blk.1.ffn_up_exps.weight");
  const std::string other = members + R"(, "expert_layer_period": 3, "expert_layer_offset": 0)";
  EXPECT_EQ(draft("JambaForCausalLM", other, {up(0, 0), up(1, 0)}).tensors[1].name, "blk.1.ffn_up.weight");
  EXPECT_EQ(draft("JambaForCausalLM", other, {up(0, 0), up(1, 0)}).tensors[0].name, "blk.0.ffn_up_exps.weight");
  expect_in(draft("JambaForCausalLM", members, {up(0, 0), up(0, 1)}).error,
            "blk.0.ffn_up_exps.weight: 2 experts, and expert_layer_period says that layer 0 has none");
}

// Names of the authors' own code. Their matrices of low rank are transposed, and the first layer has no v of its own.
TEST(ModelDrafts, OriginalNamesOfRwkv7) {
  const std::string members = R"("num_hidden_layers": 2, "hidden_size": 2, "intermediate_size": 8,
      "decay_low_rank_dim": 3, "a_low_rank_dim": 3, "v_low_rank_dim": 3, "gate_low_rank_dim": 3)";
  const Drafted made = draft("RWKV7ForCausalLM", members,
                             {{"blocks.0.att.a1", {2, 3}},
                              {"blocks.0.att.a0", {1, 1, 2}},
                              {"blocks.0.att.v1", {2, 3}},
                              {"blocks.1.att.v2", {3, 2}},
                              {"blocks.1.att.r_k", {1, 2}},
                              {"blocks.0.ln0.bias", {2}},
                              {"emb.weight", {2, 2}},
                              {"blocks.1.ffn.x_k", {1, 1, 2}}});
  EXPECT_EQ(made.error, "");
  EXPECT_EQ(made.of("blk.0.time_mix_a1.weight"), (Floats{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(made.of("blk.0.time_mix_v1.weight"), (Floats{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(made.of("blk.0.time_mix_v0.weight"), (Floats{6, 7}));
  EXPECT_EQ(made.of("blk.1.time_mix_v2.weight"), (Floats{14, 16, 18, 15, 17, 19}));
  EXPECT_EQ(made.of("blk.1.time_mix_r_k.weight"), (Floats{20, 21}));
  EXPECT_EQ(made.of("token_embd_norm.bias"), (Floats{22, 23}));
  EXPECT_EQ(made.of("token_embd.weight").size(), 4u);
  EXPECT_EQ(made.of("blk.1.channel_mix_lerp_k.weight"), (Floats{28, 29}));
  for (const ConvertedTensor& tensor : made.tensors) {
    if (tensor.name != "blk.1.channel_mix_lerp_k.weight") continue;
    EXPECT_EQ(tensor.shape.size(), 1u);
  }
}

// The head of a reranker is the rows of its two answers.
TEST(ModelDrafts, RerankersOfQwenHaveTwoRows) {
  const std::string tokenizer = R"({"model": {"vocab": {"a": 0, "no": 1, "yes": 3, "b": 2}}})";
  const std::vector<DraftTensor> tied = {{"model.embed_tokens.weight", {4, 2}}};
  const std::vector<DraftTensor> untied = {{"model.embed_tokens.weight", {4, 2}}, {"lm_head.weight", {4, 2}}};
  const char* const members = R"("hidden_size": 2, "num_attention_heads": 1)";
  const SmallFiles card = {{"tokenizer.json", tokenizer}, {"README.md", "---\na: b\n---\n# Qwen3-Reranker-0.6B\n"}};
  Drafted made = draft("Qwen3ForCausalLM", members, tied, card);
  EXPECT_EQ(made.error, "");
  EXPECT_EQ(made.of("cls.output.weight"), (Floats{6, 7, 2, 3}));
  EXPECT_EQ(made.of("token_embd.weight").size(), 8u);
  expect_in(made.keys, "qwen3.pooling_type=4 ");
  expect_in(made.keys, "qwen3.classifier.output_labels=[\"yes\", \"no\"] ");
  expect_in(made.keys, "tokenizer.chat_template.rerank=\"<|im_start|>system");
  made = draft("Qwen3ForCausalLM", members, untied, card);
  EXPECT_EQ(made.of("cls.output.weight"), (Floats{14, 15, 10, 11}));
  EXPECT_TRUE(made.of("output.weight").empty());
  made =
      draft("Qwen3ForCausalLM", members, untied, {{"tokenizer.json", tokenizer}, {"README.md", "a # Qwen3-Reranker"}});
  EXPECT_TRUE(made.of("cls.output.weight").empty());
  EXPECT_EQ(made.of("output.weight").size(), 8u);
  expect_not_in(made.keys, "pooling_type");
  made = draft("Qwen3ForSequenceClassification", members, tied, {{"tokenizer.json", tokenizer}});
  EXPECT_EQ(made.of("cls.output.weight"), (Floats{6, 7, 2, 3}));
}

// A head of its own has one row per label. A row alone gets one of zeros beside it.
TEST(ModelDrafts, ClassifiersOfQwenKeepTheirHead) {
  const auto made = [](const std::string& members, const std::vector<int64_t>& shape, const SmallFiles& files = {}) {
    return draft("Qwen3ForSequenceClassification", R"("num_attention_heads": 1)" + members,
                 {{"model.embed_tokens.weight", {4, 2}}, {"score.weight", shape}}, files);
  };
  const std::string labels = "qwen3.classifier.output_labels=";
  const std::string three = R"(, "id2label": {"0": "a", "2": "c", "1": "b"})";
  const Drafted several = made(three, {3, 2});
  EXPECT_EQ(several.error, "");
  EXPECT_EQ(several.of("cls.output.weight"), (Floats{8, 9, 10, 11, 12, 13}));
  EXPECT_EQ(several.of("token_embd.weight").size(), 8u);
  EXPECT_EQ(several.tensors.size(), 2u);
  expect_in(several.keys, labels + "[\"a\", \"b\", \"c\"] ");
  expect_in(several.keys, "qwen3.pooling_type=4 ");
  expect_not_in(several.keys, "chat_template");
  expect_in(made("", {2, 2}).keys, labels + "[\"LABEL_0\", \"LABEL_1\"] ");
  EXPECT_EQ(made(three + R"(, "problem_type": "single_label_classification")", {3, 2}).error, "");
  expect_in(made(three + R"(, "problem_type": "regression")", {3, 2}).error,
            "problem_type is \"regression\", want single_label_classification");
  const std::string one = R"(, "id2label": {"0": "good"}, "problem_type": "regression")";
  const Drafted alone = made(one, {1, 2}, {{"README.md", "a reranker"}});
  EXPECT_EQ(alone.error, "");
  EXPECT_EQ(alone.of("cls.output.weight"), (Floats{8, 9, 0, 0}));
  ASSERT_EQ(alone.tensors.size(), 2u);
  EXPECT_EQ(alone.tensors[1].shape, (std::vector<int64_t>{2, 2}));
  expect_in(alone.keys, labels + "[\"good\", \"not good\"] ");
  expect_in(alone.keys, "qwen3.pooling_type=4 ");
  expect_not_in(alone.keys, "chat_template");
  expect_in(made(one, {1, 2}, {{"README.md", "base_model: Qwen/Qwen3-Reranker-0.6B"}}).keys,
            "tokenizer.chat_template.rerank=\"<|im_start|>system");
  expect_not_in(made("", {2, 2}, {{"README.md", "Qwen3-Reranker"}}).keys, "chat_template");
}

TEST(ModelDrafts, HeadsOfOtherShapesAreRefused) {
  const auto refusal_of = [](const std::vector<int64_t>& shape, const std::string& members = "") {
    return draft("Qwen3ForSequenceClassification", R"("num_attention_heads": 1)" + members, {{"score.weight", shape}})
        .error;
  };
  expect_in(refusal_of({2, 2}, R"(, "id2label": {"0": "a"})"), "id2label: 1 labels for 2 rows of score.weight");
  expect_in(refusal_of({1, 2}, R"(, "id2label": {"0": "a", "1": "b"})"), "2 labels for 1 rows");
  expect_in(refusal_of({2, 2}, R"(, "id2label": {"0": "a", "2": "b"})"), "id2label: no text for 1");
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{2}, {2, 2, 1}, {2, 0}, {0, 2}, {(1 << 20) + 1, 1}, {1, (1 << 20) + 1}})
    expect_in(refusal_of(shape), "score.weight: its shape is that of no head");
  EXPECT_EQ(refusal_of({1, 1 << 20}), "");
  EXPECT_NE(draft("Qwen3ForCausalLM", R"("num_attention_heads": 1)", {{"score.weight", {2, 2}}}).error, "");
}

TEST(ModelDrafts, RerankersWithoutTheirAnswersAreRefused) {
  const std::vector<DraftTensor> tied = {{"model.embed_tokens.weight", {4, 2}}};
  const auto refused = [&](const SmallFiles& files, const std::vector<DraftTensor>& tensors) {
    return draft("Qwen3ForSequenceClassification", R"("num_attention_heads": 1)", tensors, files).error;
  };
  for (const char* tokenizer : {R"({"model": {"vocab": {"no": 1}}})", R"({"model": {"vocab": {"yes": -1}}})", "{}",
                                "[]", R"({"model": {"vocab": {"yes": 3000000000}}})", R"({"model": 1})"})
    expect_in(refused({{"tokenizer.json", tokenizer}}, tied),
              "/tokenizer.json: no token yes, which a reranker answers");
  expect_in(refused({}, tied), "no token yes");
  const SmallFiles far = {{"tokenizer.json", R"({"model": {"vocab": {"yes": 4, "no": 0}}})"}};
  expect_in(refused(far, tied), "no part of 1 from 4 on");
  expect_in(refused(far, {{"model.norm.weight", {2}}}), "no head, of which a reranker has two rows");
}

}  // namespace
}  // namespace tessera::convert
