// DeepSeek V4: small checkpoints under the names of its own code and under those of transformers, with matrices of 8
// and 4 bits. The table of names here leads from GGUF to the hub, so it shares nothing with the rules.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "tessera/convert/conversion.h"
#include "tessera/convert/source/float8.h"
#include "tests/convert/checkpoint_folder.h"
#include "tests/convert/model_drafts.h"
#include "tests/support/engine_support.h"

namespace tessera::convert {
namespace {

using namespace testing;

constexpr int64_t kV4Width = 64, kV4Heads = 4, kV4Head = 32, kV4Groups = 2, kV4Rank = 32, kV4OutRank = 16;
constexpr int64_t kV4Grouped = kV4Groups * kV4OutRank;
constexpr int64_t kV4Experts = 4, kV4Used = 2, kV4Ffn = 32, kV4Vocab = 48, kV4Index = 16, kV4Block = 32;
constexpr int64_t kV4Ratios[] = {0, 4, 128};

enum class V4Names : uint8_t { own, transformers };
enum class V4Kind : uint8_t { bf16, f32, fp8, fp4, ids };

/// A tensor of a layer or, without its place {i}, of the model. {e}: one for each expert.
struct V4Tensor {
  std::string gguf, own, transformers;
  std::vector<int64_t> shape;  // outermost first
  V4Kind kind = V4Kind::bf16;
};

const std::vector<V4Tensor> kV4ModelTensors = {
    {"token_embd.weight", "embed.weight", "model.embed_tokens.weight", {kV4Vocab, kV4Width}},
    {"output.weight", "head.weight", "lm_head.weight", {kV4Vocab, kV4Width}},
    {"output_norm.weight", "norm.weight", "model.norm.weight", {kV4Width}},
    {"output_hc_fn.weight", "hc_head_fn", "model.hc_head.hc_fn", {4, 4 * kV4Width}, V4Kind::f32},
    {"output_hc_base.weight", "hc_head_base", "model.hc_head.hc_base", {4}, V4Kind::f32},
    {"output_hc_scale.weight", "hc_head_scale", "model.hc_head.hc_scale", {1}, V4Kind::f32},
};

const std::vector<V4Tensor> kV4LayerTensors = {
    {"attn_norm.weight", "attn_norm.weight", "input_layernorm.weight", {kV4Width}},
    {"ffn_norm.weight", "ffn_norm.weight", "post_attention_layernorm.weight", {kV4Width}},
    {"hc_attn_fn.weight", "hc_attn_fn", "attn_hc.fn", {24, 4 * kV4Width}, V4Kind::f32},
    {"hc_attn_base.weight", "hc_attn_base", "attn_hc.base", {24}, V4Kind::f32},
    {"hc_attn_scale.weight", "hc_attn_scale", "attn_hc.scale", {3}, V4Kind::f32},
    {"hc_ffn_fn.weight", "hc_ffn_fn", "ffn_hc.fn", {24, 4 * kV4Width}, V4Kind::f32},
    {"hc_ffn_base.weight", "hc_ffn_base", "ffn_hc.base", {24}, V4Kind::f32},
    {"hc_ffn_scale.weight", "hc_ffn_scale", "ffn_hc.scale", {3}, V4Kind::f32},
    {"attn_sinks.weight", "attn.attn_sink", "self_attn.sinks", {kV4Heads}, V4Kind::f32},
    {"attn_q_a.weight", "attn.wq_a.weight", "self_attn.q_a_proj.weight", {kV4Rank, kV4Width}, V4Kind::fp8},
    {"attn_q_a_norm.weight", "attn.q_norm.weight", "self_attn.q_a_norm.weight", {kV4Rank}},
    {"attn_q_b.weight", "attn.wq_b.weight", "self_attn.q_b_proj.weight", {kV4Heads * kV4Head, kV4Rank}, V4Kind::fp8},
    {"attn_kv.weight", "attn.wkv.weight", "self_attn.kv_proj.weight", {kV4Head, kV4Width}, V4Kind::fp8},
    {"attn_kv_a_norm.weight", "attn.kv_norm.weight", "self_attn.kv_norm.weight", {kV4Head}},
    {"attn_output_a.weight",
     "attn.wo_a.weight",
     "self_attn.o_a_proj.weight",
     {kV4Groups * kV4OutRank, kV4Heads* kV4Head / kV4Groups},
     V4Kind::fp8},
    {"attn_output_b.weight", "attn.wo_b.weight", "self_attn.o_b_proj.weight", {kV4Width, kV4Grouped}, V4Kind::fp8},
    {"ffn_gate_inp.weight", "ffn.gate.weight", "mlp.gate.weight", {kV4Experts, kV4Width}},
    {"ffn_gate_exps.weight",
     "ffn.experts.{e}.w1.weight",
     "mlp.experts.{e}.gate_proj.weight",
     {kV4Ffn, kV4Width},
     V4Kind::fp4},
    {"ffn_down_exps.weight",
     "ffn.experts.{e}.w2.weight",
     "mlp.experts.{e}.down_proj.weight",
     {kV4Width, kV4Ffn},
     V4Kind::fp4},
    {"ffn_up_exps.weight",
     "ffn.experts.{e}.w3.weight",
     "mlp.experts.{e}.up_proj.weight",
     {kV4Ffn, kV4Width},
     V4Kind::fp4},
    {"ffn_gate_shexp.weight",
     "ffn.shared_experts.w1.weight",
     "mlp.shared_experts.gate_proj.weight",
     {kV4Ffn, kV4Width},
     V4Kind::fp8},
    {"ffn_down_shexp.weight",
     "ffn.shared_experts.w2.weight",
     "mlp.shared_experts.down_proj.weight",
     {kV4Width, kV4Ffn},
     V4Kind::fp8},
    {"ffn_up_shexp.weight",
     "ffn.shared_experts.w3.weight",
     "mlp.shared_experts.up_proj.weight",
     {kV4Ffn, kV4Width},
     V4Kind::fp8},
};

const V4Tensor kV4Table = {
    "ffn_gate_tid2eid.weight", "ffn.gate.tid2eid", "mlp.gate.tid2eid", {kV4Vocab, kV4Used}, V4Kind::ids};
const V4Tensor kV4Bias = {
    "exp_probs_b.bias", "ffn.gate.bias", "mlp.gate.e_score_correction_bias", {kV4Experts}, V4Kind::f32};

std::vector<V4Tensor> compressor_tensors(int64_t ratio) {
  const int64_t n = ratio == 4 ? 2 * kV4Head : kV4Head;
  const std::string own = "attn.compressor.", hub = "self_attn.compressor.";
  return {{"attn_compressor_kv.weight", own + "wkv.weight", hub + "kv_proj.weight", {n, kV4Width}},
          {"attn_compressor_gate.weight", own + "wgate.weight", hub + "gate_proj.weight", {n, kV4Width}},
          {"attn_compressor_ape.weight", own + "ape", hub + "position_bias", {ratio, n}, V4Kind::f32},
          {"attn_compressor_norm.weight", own + "norm.weight", hub + "kv_norm.weight", {kV4Head}}};
}

std::vector<V4Tensor> indexer_tensors() {
  constexpr int64_t n = 2 * kV4Index;
  const std::string own = "attn.indexer.", hub = "self_attn.compressor.indexer.";
  return {{"indexer.attn_q_b.weight", own + "wq_b.weight", hub + "q_b_proj.weight", {n, kV4Rank}, V4Kind::fp8},
          {"indexer.proj.weight", own + "weights_proj.weight", hub + "scorer.weights_proj.weight", {2, kV4Width}},
          {"indexer_compressor_kv.weight", own + "compressor.wkv.weight", hub + "kv_proj.weight", {n, kV4Width}},
          {"indexer_compressor_gate.weight", own + "compressor.wgate.weight", hub + "gate_proj.weight", {n, kV4Width}},
          {"indexer_compressor_ape.weight", own + "compressor.ape", hub + "position_bias", {4, n}, V4Kind::f32},
          {"indexer_compressor_norm.weight", own + "compressor.norm.weight", hub + "kv_norm.weight", {kV4Index}}};
}

// The first layer chooses experts by a table.
std::vector<V4Tensor> tensors_of_layer(size_t i) {
  std::vector<V4Tensor> tensors = kV4LayerTensors;
  const auto add = [&](const std::vector<V4Tensor>& more) { tensors.insert(tensors.end(), more.begin(), more.end()); };
  add({i == 0 ? kV4Table : kV4Bias});
  if (kV4Ratios[i] != 0) add(compressor_tensors(kV4Ratios[i]));
  if (kV4Ratios[i] == 4) add(indexer_tensors());
  return tensors;
}

nlohmann::json v4_config(V4Names names) {
  nlohmann::json config = {{"architectures", {"DeepseekV4ForCausalLM"}},
                           {"vocab_size", kV4Vocab},
                           {"hidden_size", kV4Width},
                           {"num_hidden_layers", 3},
                           {"num_attention_heads", kV4Heads},
                           {"num_key_value_heads", 1},
                           {"head_dim", kV4Head},
                           {"q_lora_rank", kV4Rank},
                           {"o_groups", kV4Groups},
                           {"o_lora_rank", kV4OutRank},
                           {"sliding_window", 8},
                           {"max_position_embeddings", 2048},
                           {"compress_rope_theta", 160000},
                           {"index_n_heads", 2},
                           {"index_head_dim", kV4Index},
                           {"index_topk", 8},
                           {"hc_mult", 4},
                           {"hc_sinkhorn_iters", 20},
                           {"hc_eps", 0.25},
                           {"rms_norm_eps", 0.125},
                           {"n_routed_experts", kV4Experts},
                           {"n_shared_experts", 1},
                           {"num_experts_per_tok", kV4Used},
                           {"moe_intermediate_size", kV4Ffn},
                           {"routed_scaling_factor", 1.5},
                           {"norm_topk_prob", true},
                           {"scoring_func", "sqrtsoftplus"},
                           {"swiglu_limit", 10.0},
                           {"n_group", 8},
                           {"topk_group", 4},
                           {"tie_word_embeddings", false},
                           {"num_nextn_predict_layers", 1}};
  config["quantization_config"] = {
      {"quant_method", "fp8"}, {"fmt", "e4m3"}, {"scale_fmt", "ue8m0"}, {"weight_block_size", {kV4Block, kV4Block}}};
  nlohmann::json rope = {
      {"type", "yarn"}, {"factor", 16}, {"original_max_position_embeddings", 128}, {"beta_fast", 32}, {"beta_slow", 1}};
  if (names == V4Names::own) {
    config.merge_patch({{"compress_ratios", {0, 4, 128, 0}},
                        {"num_hash_layers", 1},
                        {"qk_rope_head_dim", 8},
                        {"rope_theta", 10000},
                        {"rope_scaling", rope}});
    return config;
  }
  rope.erase("type");
  rope.merge_patch({{"rope_type", "yarn"}, {"rope_theta", 10000}, {"partial_rotary_factor", 0.25}});
  nlohmann::json compress = rope;
  compress["rope_theta"] = 160000;
  config.erase("compress_rope_theta");
  config["rope_parameters"] = {{"main", rope}, {"compress", compress}};
  config["layer_types"] = {"sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"};
  config["compress_rates"] = {{"compressed_sparse_attention", 4}, {"heavily_compressed_attention", 128}};
  config["mlp_layer_types"] = {"hash_moe", "moe", "moe"};
  return config;
}

std::string v4_with_place(std::string name, const std::string& place, int64_t number) {
  if (const size_t at = name.find(place); at != std::string::npos)
    name.replace(at, place.size(), std::to_string(number));
  return name;
}

/// A checkpoint, and the values of the tensors that it becomes.
struct V4Folder {
  HubFolder folder{};
  V4Names names = V4Names::own;
  std::map<std::string, std::vector<float>> values{};

  void add_scales(const std::string& weight, const std::vector<int64_t>& shape, bool is_fp4, const std::string& bytes) {
    if (names == V4Names::own) {
      folder.tensors.push_back({weight.substr(0, weight.rfind(".weight")) + ".scale", "F8_E8M0", shape, bytes});
      return;
    }
    HubTensor scales{weight + "_scale_inv", is_fp4 ? "F8_E8M0" : "F32", shape, bytes};
    if (!is_fp4) {
      std::vector<float> floats;
      for (const char byte : bytes) floats.push_back(f8_e8m0_to_f32(static_cast<uint8_t>(byte)));
      scales.bytes = hub_bytes(floats, "F32");
    }
    folder.tensors.push_back(std::move(scales));
  }

  void add_fp8(const std::string& name, const std::vector<int64_t>& shape, std::vector<float>& into) {
    const int64_t n_rows = shape[0], n_columns = shape[1], n_blocks = (n_columns + kV4Block - 1) / kV4Block;
    const auto seed = static_cast<int64_t>(folder.tensors.size());
    std::string bytes, scales;
    for (int64_t row = 0; row < n_rows; row += kV4Block)
      for (int64_t block = 0; block < n_blocks; ++block)
        scales += static_cast<char>(118 + (seed + row / kV4Block * 3 + block) % 9);
    for (int64_t i = 0; i < n_rows * n_columns; ++i) {
      const auto byte = static_cast<uint8_t>((i * 37 + seed) % 120 + (i % 3 == 0 ? 128 : 0));
      const auto block = static_cast<size_t>(i / n_columns / kV4Block * n_blocks + i % n_columns / kV4Block);
      bytes += static_cast<char>(byte);
      into.push_back(f8_e4m3_to_f32(byte) * f8_e8m0_to_f32(static_cast<uint8_t>(scales[block])));
    }
    folder.tensors.push_back({name, "F8_E4M3", shape, bytes});
    add_scales(name, {(n_rows + kV4Block - 1) / kV4Block, n_blocks}, false, scales);
  }

  void add_fp4(const std::string& name, const std::vector<int64_t>& shape, std::vector<float>& into) {
    constexpr float kCodes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    const int64_t n = shape[0] * shape[1];
    const auto seed = static_cast<int64_t>(folder.tensors.size());
    std::string bytes, scales;
    for (int64_t i = 0; i < n; i += 2) {
      const auto first = static_cast<uint32_t>((i * 7 + seed) % 16), second = static_cast<uint32_t>((i * 5 + 3) % 16);
      const auto scale = static_cast<uint8_t>(120 + (i / 32 + seed) % 7);
      if (i % 32 == 0) scales += static_cast<char>(scale);
      bytes += static_cast<char>(first | second << 4);
      for (const uint32_t code : {first, second}) into.push_back(kCodes[code] * f8_e8m0_to_f32(scale));
    }
    folder.tensors.push_back({name, "I8", {shape[0], shape[1] / 2}, bytes});
    add_scales(name, {shape[0], shape[1] / 32}, true, scales);
  }

  void add_ids(const std::string& name, const std::vector<int64_t>& shape, std::vector<float>& into) {
    std::string bytes;
    for (int64_t i = 0; i < shape[0] * shape[1]; ++i) {
      const int64_t id = (i * i + i / 7) % kV4Experts;
      bytes += number_bytes(id);
      into.push_back(static_cast<float>(id));
    }
    folder.tensors.push_back({name, "I64", shape, bytes});
  }

  void add_floats(const std::string& name, const std::vector<int64_t>& shape, const std::string& type,
                  std::vector<float>& into) {
    folder.add(name, shape, type);
    const std::string& bytes = folder.tensors.back().bytes;
    for (size_t i = 0; i < bytes.size(); i += type == "F32" ? 4 : 2) {
      float value = 0;
      uint16_t bits = 0;
      std::memcpy(&value, bytes.data() + i, type == "F32" ? sizeof value : 0);
      std::memcpy(&bits, bytes.data() + i, sizeof bits);
      into.push_back(type == "F32" ? value : bf16_to_f32(bits));
    }
  }

  void add(const V4Tensor& tensor, const std::string& before, const std::string& gguf) {
    const std::string hub = before + (names == V4Names::own ? tensor.own : tensor.transformers);
    std::vector<float>& into = values[gguf];
    const int64_t n = hub.find("{e}") == std::string::npos ? 1 : kV4Experts;
    for (int64_t e = 0; e < n; ++e) {
      const std::string name = v4_with_place(hub, "{e}", e);
      switch (tensor.kind) {
        case V4Kind::fp8:
          add_fp8(name, tensor.shape, into);
          break;
        case V4Kind::fp4:
          add_fp4(name, tensor.shape, into);
          break;
        case V4Kind::ids:
          add_ids(name, tensor.shape, into);
          break;
        default:
          add_floats(name, tensor.shape, tensor.kind == V4Kind::f32 ? "F32" : "BF16", into);
      }
    }
  }
};

V4Folder v4_folder(V4Names names) {
  V4Folder made{.folder = {.config = v4_config(names).dump()}, .names = names};
  for (const V4Tensor& tensor : kV4ModelTensors) made.add(tensor, "", tensor.gguf);
  for (size_t i = 0; i < std::size(kV4Ratios); ++i) {
    const std::string number = std::to_string(i) + ".";
    for (const V4Tensor& tensor : tensors_of_layer(i))
      made.add(tensor, (names == V4Names::own ? "layers." : "model.layers.") + number, "blk." + number + tensor.gguf);
  }
  V4Folder later{.names = V4Names::own};  // a head that predicts a further token
  for (const V4Tensor& tensor : kV4LayerTensors) later.add(tensor, "mtp.0.", "later");
  if (names == V4Names::own)
    for (HubTensor& tensor : later.folder.tensors) made.folder.tensors.push_back(std::move(tensor));
  return made;
}

std::vector<int64_t> v4_shape(const std::string& gguf) {
  const auto find = [&](const std::vector<V4Tensor>& tensors, const std::string& name) {
    for (const V4Tensor& tensor : tensors)
      if (tensor.gguf == name) return &tensor;
    return static_cast<const V4Tensor*>(nullptr);
  };
  const V4Tensor* tensor = find(kV4ModelTensors, gguf);
  const std::vector<V4Tensor> layer =
      gguf.starts_with("blk.") ? tensors_of_layer(static_cast<size_t>(gguf[4] - '0')) : std::vector<V4Tensor>();
  if (tensor == nullptr) tensor = find(layer, gguf.substr(6));
  std::vector<int64_t> shape = tensor->shape;
  if (gguf.find("_exps.") != std::string::npos) shape.insert(shape.begin(), kV4Experts);
  return shape;
}

TEST(Deepseek4, BothSpellingsBecomeTheSameTensors) {
  for (const V4Names names : {V4Names::own, V4Names::transformers}) {
    const V4Folder made = v4_folder(names);
    const Drafted drafted = draft_folder(made.folder.write("deepseek4"));
    ASSERT_EQ(drafted.error, "");
    EXPECT_EQ(drafted.tensors.size(), made.values.size());
    for (size_t i = 0; i < drafted.tensors.size(); ++i) {
      const ConvertedTensor& tensor = drafted.tensors[i];
      const auto want = made.values.find(tensor.name);
      ASSERT_NE(want, made.values.end()) << tensor.name;
      EXPECT_TRUE(drafted.values[i] == want->second) << tensor.name;
      std::vector<int64_t> shape = v4_shape(tensor.name);
      const bool is_fp4 = tensor.name.find("_exps.") != std::string::npos;
      if (is_fp4) shape.back() /= 32;  // in blocks
      EXPECT_EQ(tensor.shape, shape) << tensor.name;
      EXPECT_EQ(tensor.parts[0].view.type == ElementType::mxfp4, is_fp4) << tensor.name;
    }
  }
}

TEST(Deepseek4, BothSpellingsBecomeTheSameKeys) {
  const Drafted own = draft_folder(v4_folder(V4Names::own).folder.write("deepseek4"));
  const Drafted hub = draft_folder(v4_folder(V4Names::transformers).folder.write("deepseek4"));
  EXPECT_EQ(own.keys, hub.keys);
  for (const char* const key : {"block_count=3",
                                "context_length=2048",
                                "embedding_length=64",
                                "vocab_size=48",
                                "attention.head_count=4",
                                "attention.head_count_kv=1",
                                "attention.key_length=32",
                                "attention.value_length=32",
                                "attention.layer_norm_rms_epsilon=0.125",
                                "attention.q_lora_rank=32",
                                "attention.sliding_window=8",
                                "attention.output_group_count=2",
                                "attention.output_lora_rank=16",
                                "attention.compress_rope_freq_base=160000",
                                "attention.compress_ratios=[0, 4, 128]",
                                "attention.indexer.head_count=2",
                                "attention.indexer.key_length=16",
                                "attention.indexer.top_k=8",
                                "rope.dimension_count=8",
                                "rope.freq_base=10000",
                                R"(rope.scaling.type="yarn")",
                                "rope.scaling.factor=16",
                                "rope.scaling.original_context_length=128",
                                "rope.scaling.yarn_beta_fast=32",
                                "rope.scaling.yarn_beta_slow=1",
                                "hyper_connection.count=4",
                                "hyper_connection.sinkhorn_iterations=20",
                                "hyper_connection.epsilon=0.25",
                                "hash_layer_count=1",
                                "expert_count=4",
                                "expert_used_count=2",
                                "expert_feed_forward_length=32",
                                "expert_shared_count=1",
                                "expert_weights_scale=1.5",
                                "expert_weights_norm=true",
                                "expert_gating_func=4",
                                "swiglu_clamp_exp=[10, 10, 10]"})
    expect_in(own.keys, "deepseek4." + std::string(key) + " ");
  expect_not_in(own.keys, "expert_group");
}

/// Members of config.json, without the class.
std::string v4_members(V4Names names, const nlohmann::json& patch) {
  nlohmann::json config = v4_config(names);
  config.erase("architectures");
  config.merge_patch(patch);
  const std::string text = config.dump();
  return text.substr(1, text.size() - 2);
}

Drafted v4_draft(V4Names names, const nlohmann::json& patch, const std::vector<DraftTensor>& tensors = {}) {
  return draft("DeepseekV4ForCausalLM", v4_members(names, patch), tensors);
}

TEST(Deepseek4, StackedExpertsOfTransformers) {
  const Drafted drafted = v4_draft(
      V4Names::transformers, nlohmann::json::object(),
      {{"model.layers.0.mlp.experts.gate_up_proj", {2, 4, 2}}, {"model.layers.0.mlp.experts.down_proj", {2, 1, 2}}});
  EXPECT_EQ(drafted.error, "");
  EXPECT_EQ(drafted.of("blk.0.ffn_gate_exps.weight"), (Floats{0, 1, 2, 3, 8, 9, 10, 11}));
  EXPECT_EQ(drafted.of("blk.0.ffn_up_exps.weight"), (Floats{4, 5, 6, 7, 12, 13, 14, 15}));
  EXPECT_EQ(drafted.of("blk.0.ffn_down_exps.weight"), (Floats{16, 17, 18, 19}));
}

TEST(Deepseek4, TablesOfExpertsAreChecked) {
  const auto error_of = [](const std::string& type, const std::string& bytes) {
    HubFolder folder{.config = v4_config(V4Names::own).dump()};
    folder.tensors.push_back({"layers.0.ffn.gate.tid2eid", type, {1, 2}, bytes});
    return draft_folder(folder.write("deepseek4")).error;
  };
  const auto numbers = [](auto first, auto second) { return number_bytes(first) + number_bytes(second); };
  EXPECT_EQ(error_of("I64", numbers(int64_t{0}, int64_t{3})), "");
  EXPECT_EQ(error_of("I32", numbers(int32_t{0}, int32_t{3})), "");
  expect_in(error_of("I64", numbers(int64_t{0}, int64_t{4})), "tid2eid: element 1 is 4, want the number of one of 4");
  expect_in(error_of("I64", numbers(int64_t{-1}, int64_t{0})), "tid2eid: element 0 is -1, want");
  expect_in(error_of("I64", numbers(int64_t{0}, int64_t{1} << 32)), "tid2eid: element 1 is 4");
  expect_in(error_of("F32", numbers(0.0f, 1.0f)), "tid2eid: elements of type F32, want I64 or I32");
}

TEST(Deepseek4, ConfigsThatDoNotFitAreRefused) {
  const auto error_of = [](V4Names names, const nlohmann::json& patch) { return v4_draft(names, patch).error; };
  constexpr V4Names kOwn = V4Names::own, kHub = V4Names::transformers;
  EXPECT_EQ(error_of(kOwn, {{"compress_ratios", {0, 4, 128}}}), "");
  expect_in(error_of(kOwn, {{"compress_ratios", {0, 4}}}), "compress_ratios: want a list of one number per layer");
  expect_in(error_of(kOwn, {{"compress_ratios", nullptr}}), "compress_ratios: want a list of one number per layer");
  expect_in(error_of(kOwn, {{"qk_rope_head_dim", nullptr}}),
            "qk_rope_head_dim is 0, want an even number of a head's 32");
  expect_in(error_of(kOwn, {{"qk_rope_head_dim", 7}}), "qk_rope_head_dim is 7, want");
  expect_in(error_of(kOwn, {{"qk_rope_head_dim", 34}}), "qk_rope_head_dim is 34, want");
  expect_in(error_of(kOwn, {{"num_hash_layers", nullptr}}), "no num_hash_layers");
  expect_in(error_of(kOwn, {{"swiglu_limit", nullptr}}), "no swiglu_limit");
  expect_in(error_of(kOwn, {{"compress_rope_theta", nullptr}}), "no compress_rope_theta");
  expect_in(error_of(kHub, {{"layer_types", {"sliding_attention", "linear_attention", "sliding_attention"}}}),
            R"(layer_types: "linear_attention" is not known)");
  for (const nlohmann::json& kinds :
       {nlohmann::json({"moe", "hash_moe", "moe"}), nlohmann::json({"hash_moe", "moe"}), nlohmann::json("moe")})
    expect_in(error_of(kHub, {{"mlp_layer_types", kinds}}), "mlp_layer_types: want a kind per layer");
  expect_in(v4_draft(kHub, {{"mlp_layer_types", {"hash_moe", "hash_moe", "hash_moe"}}}).keys, "hash_layer_count=3 ");
  nlohmann::json other = {{"compress_rates", {{"compressed_sparse_attention", 8}}}};
  expect_in(v4_draft(kHub, other).keys, "compress_ratios=[0, 8, 128] ");
  other = {{"compress_rates", nullptr}};
  expect_in(v4_draft(kHub, other).keys, "compress_ratios=[0, 4, 128] ");
}

std::vector<float> file_values(const ModelFiles& files, const ModelFiles::Tensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.info.shape.n_elements()));
  const auto bytes = files.data(tensor);
  if (tensor.info.dtype != DType::i32) {
    quant::find_format(tensor.info.dtype)->dequantize_row(bytes.data(), std::ssize(values), values.data());
    return values;
  }
  std::vector<int32_t> numbers(values.size());
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return {numbers.begin(), numbers.end()};
}

// The type of a tensor in a file whose other matrices have the wanted type.
DType v4_type(const std::string& name, size_t rank, DType wanted) {
  if (name.ends_with("_exps.weight")) return DType::mxfp4;
  if (name.ends_with("tid2eid.weight")) return DType::i32;
  if (rank == 1) return DType::f32;
  for (const char* const part : {"hc_", "_ape.", "indexer.proj.", "ffn_gate_inp."})
    if (name.find(part) != std::string::npos) return DType::f32;
  return wanted;
}

Result<std::string> convert_v4(const V4Folder& made, std::optional<FileType> type) {
  const std::string vocabulary =
      write_folder("deepseek4-vocabulary",
                   {{"tokenizer.json", R"({"pre_tokenizer":{"type":"ByteLevel","use_regex":true},)"
                                       R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})"}});
  TESSERA_ASSIGN(const auto conversion,
                 Conversion::open(made.folder.write("deepseek4"), type, {.vocabulary = {.folder = vocabulary}}));
  QuantizeOptions options;
  options.mix.file_type = type.value_or(FileType::bf16);
  conversion->apply_to(options);
  TESSERA_ASSIGN(const auto plan, plan_quantize(conversion->files(), options));
  TESSERA_ASSIGN(const auto threads, ThreadPool::create({.n_threads = 2}));
  const std::string output = temporary_path("deepseek4.gguf");
  TESSERA_TRY(
      write_quantized(conversion->files(), plan, options, output, {*threads, nullptr, [](float) { return true; }}));
  return output;
}

TEST(Deepseek4, FilesHaveTheTypesAndValuesOfTheCheckpoint) {
  const V4Folder made = v4_folder(V4Names::own);
  for (const auto& [type, wanted] :
       {std::pair(std::optional<FileType>(), DType::bf16), std::pair(std::optional(FileType::q8_0), DType::q8_0)}) {
    ASSERT_OK_AND_ASSIGN(const std::string output, convert_v4(made, type));
    ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(output));
    EXPECT_EQ(files->tensors().size(), made.values.size());
    for (const ModelFiles::Tensor& tensor : files->tensors()) {
      const std::string name(tensor.info.name);
      const std::vector<int64_t> shape = v4_shape(name);
      ASSERT_EQ(tensor.info.rank, std::ssize(shape)) << name;
      EXPECT_TRUE(std::equal(shape.rbegin(), shape.rend(), tensor.info.shape.ne.begin())) << name;
      EXPECT_EQ(tensor.info.dtype, v4_type(name, shape.size(), wanted)) << name;
      std::vector<float> want = made.values.at(name);
      if (tensor.info.dtype == DType::q8_0) continue;
      if (tensor.info.dtype == DType::bf16)
        for (float& value : want) value = bf16_to_f32(f32_to_bf16(value));
      EXPECT_TRUE(file_values(*files, tensor) == want) << name;
    }
  }
}

// In the bytes of MXFP4, value i of a block is beside value i + 16, and not beside value i + 1.
TEST(Deepseek4, ExpertsKeepTheirBytes) {
  const V4Folder made = v4_folder(V4Names::own);
  ASSERT_OK_AND_ASSIGN(const std::string output, convert_v4(made, FileType::q8_0));
  ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(output));
  const ModelFiles::Tensor* const tensor = files->find_tensor("blk.1.ffn_down_exps.weight");
  ASSERT_NE(tensor, nullptr);
  std::string want;
  for (int64_t e = 0; e < kV4Experts; ++e) {
    V4Folder copy = made;
    const std::string expert = "layers.1.ffn.experts." + std::to_string(e) + ".w2";
    const std::string codes = copy.folder.find(expert + ".weight").bytes;
    const std::string scales = copy.folder.find(expert + ".scale").bytes;
    for (size_t block = 0; block < scales.size(); ++block) {
      want += scales[block];
      const auto code = [&](size_t i) {
        return static_cast<uint8_t>(codes[block * 16 + i / 2]) >> (i % 2 == 0 ? 0 : 4) & 15;
      };
      for (size_t i = 0; i < 16; ++i) want += static_cast<char>(code(i) | code(i + 16) << 4);
    }
  }
  const auto bytes = files->data(*tensor);
  EXPECT_TRUE(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) == want);
}

TEST(Deepseek4, BothSpellingsBecomeTheSameFileWhichRuns) {
  std::string bytes[2];
  for (const V4Names names : {V4Names::own, V4Names::transformers}) {
    ASSERT_OK_AND_ASSIGN(const std::string output, convert_v4(v4_folder(names), std::nullopt));
    ASSERT_OK_AND_ASSIGN(bytes[static_cast<size_t>(names)], read_file(output, 1 << 30));
  }
  EXPECT_TRUE(bytes[0] == bytes[1]);
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(temporary_path("deepseek4.gguf")));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, {.n_ctx = 64, .n_outputs = 20}));
  ASSERT_OK_AND_ASSIGN(const std::vector<float> logits, logits_of(*session, token_ids(*engine, 20)));
  float largest = 0;
  for (const float logit : logits) {
    ASSERT_TRUE(std::isfinite(logit));
    largest = std::max(largest, std::abs(logit));
  }
  EXPECT_GT(largest, 0);
}

}  // namespace
}  // namespace tessera::convert
