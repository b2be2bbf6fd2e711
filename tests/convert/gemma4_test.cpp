// Gemma 4 with experts, with K as V, and with layers that share K and V: small folders as hubs store them.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "tessera/convert/conversion.h"
#include "tests/convert/checkpoint_folder.h"
#include "tests/convert/hub_folder.h"
#include "tests/support/engine_support.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

constexpr int64_t kGemmaWidth = 32, kGemmaVocab = 40, kGemmaFfn = 24, kGemmaExperts = 4, kGemmaExpertFfn = 12;

/// What the models of this family differ in.
struct GemmaForm {
  std::vector<std::string> kinds = {"sliding_attention", "full_attention", "sliding_attention", "full_attention"};
  int64_t n_heads_kv = 2, n_heads_kv_full = 1;
  bool has_experts = true;
  bool is_k_v = true;
  size_t n_shared = 0;
  bool is_wider = false;       // dense blocks of layers that share K and V
  bool has_unused_kv = false;  // of these layers
  bool has_stacked_experts = true;
  bool is_unified = false;
};

std::string gemma_config(const GemmaForm& form) {
  const char* const name = form.is_unified ? "Gemma4UnifiedForConditionalGeneration" : "Gemma4ForConditionalGeneration";
  nlohmann::json text = {{"hidden_size", kGemmaWidth},
                         {"intermediate_size", kGemmaFfn},
                         {"num_hidden_layers", form.kinds.size()},
                         {"num_attention_heads", 4},
                         {"num_key_value_heads", form.n_heads_kv},
                         {"num_global_key_value_heads", nullptr},
                         {"attention_k_eq_v", form.is_k_v},
                         {"head_dim", 8},
                         {"global_head_dim", 16},
                         {"vocab_size", kGemmaVocab},
                         {"max_position_embeddings", 64},
                         {"rms_norm_eps", 1e-5},
                         {"layer_types", form.kinds},
                         {"sliding_window", 5},
                         {"hidden_size_per_layer_input", 0},
                         {"num_kv_shared_layers", form.n_shared},
                         {"use_double_wide_mlp", form.is_wider},
                         {"enable_moe_block", form.has_experts},
                         {"final_logit_softcapping", 30.0},
                         {"tie_word_embeddings", true}};
  if (form.is_k_v) text["num_global_key_value_heads"] = form.n_heads_kv_full;
  if (form.has_experts) {
    text["num_experts"] = kGemmaExperts;
    text["top_k_experts"] = 2;
    text["moe_intermediate_size"] = kGemmaExpertFfn;
  }
  return nlohmann::json({{"architectures", {name}}, {"text_config", text}}).dump();
}

void add_gemma_experts(HubFolder& folder, const std::string& layer, bool is_stacked) {
  constexpr int64_t d = kGemmaWidth, f = kGemmaExpertFfn, n = kGemmaExperts;
  folder.add(layer + "router.proj.weight", {n, d}, "F32");
  folder.add(layer + "router.scale", {d}, "F32");
  folder.add(layer + "router.per_expert_scale", {n}, "F32");
  for (const char* norm :
       {"post_feedforward_layernorm_1", "pre_feedforward_layernorm_2", "post_feedforward_layernorm_2"})
    folder.add(layer + norm + ".weight", {d}, "F32");
  if (is_stacked) {
    folder.add(layer + "experts.gate_up_proj", {n, 2 * f, d}, "F32");
    folder.add(layer + "experts.down_proj", {n, d, f}, "F32");
    return;
  }
  for (int64_t e = 0; e < n; ++e) {
    const std::string expert = layer + "experts." + std::to_string(e) + ".";
    folder.add(expert + "gate_proj.weight", {f, d}, "F32");
    folder.add(expert + "up_proj.weight", {f, d}, "F32");
    folder.add(expert + "down_proj.weight", {d, f}, "F32");
  }
}

std::string gemma_layer(size_t i) { return "model.language_model.layers." + std::to_string(i) + "."; }

HubFolder gemma_folder(const GemmaForm& form) {
  constexpr int64_t d = kGemmaWidth;
  HubFolder folder{.config = gemma_config(form)};
  folder.add("model.language_model.embed_tokens.weight", {kGemmaVocab, d}, "F32");
  folder.add("model.language_model.norm.weight", {d}, "F32");
  for (const char* part : {"vision_tower", "vision_embedder", "embed_vision", "embed_audio"})
    folder.add(std::string("model.") + part + ".weight", {3}, "F32");
  for (size_t i = 0; i < form.kinds.size(); ++i) {
    const std::string layer = gemma_layer(i), attention = layer + "self_attn.";
    const bool is_full = form.kinds[i] == "full_attention", is_shared = i >= form.kinds.size() - form.n_shared;
    const int64_t head = is_full ? 16 : 8, n_kv = is_full && form.is_k_v ? form.n_heads_kv_full : form.n_heads_kv;
    const int64_t ffn = is_shared && form.is_wider ? 2 * kGemmaFfn : kGemmaFfn;
    for (const char* norm :
         {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"})
      folder.add(layer + norm + ".weight", {d}, "F32");
    folder.add(layer + "layer_scalar", {1}, "F32");
    folder.add(attention + "q_proj.weight", {4 * head, d}, "F32");
    folder.add(attention + "q_norm.weight", {head}, "F32");
    folder.add(attention + "o_proj.weight", {d, 4 * head}, "F32");
    if (!is_shared || form.has_unused_kv) {
      folder.add(attention + "k_proj.weight", {n_kv * head, d}, "F32");
      folder.add(attention + "k_norm.weight", {head}, "F32");
      if (!is_full || !form.is_k_v) folder.add(attention + "v_proj.weight", {n_kv * head, d}, "F32");
    }
    folder.add(layer + "mlp.gate_proj.weight", {ffn, d}, "F32");
    folder.add(layer + "mlp.up_proj.weight", {ffn, d}, "F32");
    folder.add(layer + "mlp.down_proj.weight", {d, ffn}, "F32");
    if (form.has_experts) add_gemma_experts(folder, layer, form.has_stacked_experts);
  }
  return folder;
}

std::string gemma_vocabulary() {
  return write_folder("gemma4-vocabulary",
                      {{"tokenizer.json", R"({"pre_tokenizer":{"type":"ByteLevel","use_regex":true},)"
                                          R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})"}});
}

Result<std::unique_ptr<ModelFiles>> converted_gemma(const HubFolder& folder) {
  const std::string output = temporary_path("gemma4.gguf");
  QuantizeOptions options;
  options.mix.file_type = FileType::f32;
  TESSERA_ASSIGN(const auto conversion, Conversion::open(folder.write("gemma4"), FileType::f32,
                                                         {.vocabulary = {.folder = gemma_vocabulary()}}));
  conversion->apply_to(options);
  TESSERA_ASSIGN(const auto plan, plan_quantize(conversion->files(), options));
  TESSERA_ASSIGN(const auto threads, ThreadPool::create({.n_threads = 1}));
  TESSERA_TRY(
      write_quantized(conversion->files(), plan, options, output, {*threads, nullptr, [](float) { return true; }}));
  return ModelFiles::open(output);
}

Result<std::vector<float>> gemma_logits(const HubFolder& folder) {
  TESSERA_ASSIGN(const auto files, converted_gemma(folder));
  TESSERA_ASSIGN(const auto engine, load_engine(temporary_path("gemma4.gguf")));
  TESSERA_ASSIGN(const auto session,
                 Session::create(engine, {.n_ctx = 64, .n_outputs = 9, .type_k = DType::f32, .type_v = DType::f32}));
  return logits_of(*session, token_ids(*engine, 9));
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  double power = 0, error = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_TRUE(std::isfinite(got[i])) << i;
    power += double{want[i]} * double{want[i]};
    error += std::pow(double{got[i]} - double{want[i]}, 2);
  }
  EXPECT_GT(power, 1.0);
  EXPECT_LT(error / power, 1e-9);
}

std::vector<float> hub_floats(const HubTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

// Multiplies value i of a tensor by factor(i).
template <class Factor>
void scale_hub_tensor(HubTensor& tensor, const Factor& factor) {
  std::vector<float> values = hub_floats(tensor);
  for (size_t i = 0; i < values.size(); ++i) values[i] *= factor(i);
  tensor.bytes = hub_bytes(values, "F32");
}

// Names in GGUF of the tensors of a layer, "blk.N." left out.
const std::map<std::string, std::string>& gemma_names() {
  static const std::map<std::string, std::string> kNames = {
      {"input_layernorm.weight", "attn_norm.weight"},
      {"post_attention_layernorm.weight", "post_attention_norm.weight"},
      {"pre_feedforward_layernorm.weight", "ffn_norm.weight"},
      {"post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
      {"layer_scalar", "layer_output_scale.weight"},
      {"self_attn.q_proj.weight", "attn_q.weight"},
      {"self_attn.k_proj.weight", "attn_k.weight"},
      {"self_attn.v_proj.weight", "attn_v.weight"},
      {"self_attn.o_proj.weight", "attn_output.weight"},
      {"self_attn.q_norm.weight", "attn_q_norm.weight"},
      {"self_attn.k_norm.weight", "attn_k_norm.weight"},
      {"mlp.gate_proj.weight", "ffn_gate.weight"},
      {"mlp.up_proj.weight", "ffn_up.weight"},
      {"mlp.down_proj.weight", "ffn_down.weight"},
      {"post_feedforward_layernorm_1.weight", "post_ffw_norm_1.weight"},
      {"pre_feedforward_layernorm_2.weight", "pre_ffw_norm_2.weight"},
      {"post_feedforward_layernorm_2.weight", "post_ffw_norm_2.weight"},
      {"router.proj.weight", "ffn_gate_inp.weight"},
      {"router.scale", "ffn_gate_inp.scale"},
      {"router.per_expert_scale", "ffn_down_exps.scale"},
      {"experts.gate_up_proj", "ffn_gate_up_exps.weight"},
      {"experts.down_proj", "ffn_down_exps.weight"}};
  return kNames;
}

// The name in GGUF; empty for tensors that are left out.
std::string gemma_name(const std::string& hub) {
  const std::string layers = "model.language_model.layers.";
  if (hub == "model.language_model.embed_tokens.weight") return "token_embd.weight";
  if (hub == "model.language_model.norm.weight") return "output_norm.weight";
  if (!hub.starts_with(layers)) return "";
  const size_t dot = hub.find('.', layers.size());
  return "blk." + hub.substr(layers.size(), dot - layers.size()) + "." + gemma_names().at(hub.substr(dot + 1));
}

TEST(Gemma4, ExpertsKeepTheirForm) {
  const HubFolder folder = gemma_folder({});
  ASSERT_OK_AND_ASSIGN(const auto files, converted_gemma(folder));
  size_t n_found = 0;
  for (const HubTensor& hub : folder.tensors) {
    const std::string name = gemma_name(hub.name);
    if (name.empty()) continue;
    const ModelFiles::Tensor* const tensor = files->find_tensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    ++n_found;
    const std::vector<int64_t> extents(hub.shape.rbegin(), hub.shape.rend());
    const Shape& shape = tensor->info.shape;
    ASSERT_EQ(tensor->info.rank, std::ssize(extents)) << name;
    EXPECT_TRUE(std::equal(extents.begin(), extents.end(), shape.ne.begin())) << name;
    EXPECT_EQ(tensor->info.dtype, DType::f32) << name;
    const auto bytes = files->data(*tensor);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), hub.bytes) << name;
  }
  EXPECT_EQ(n_found + 1, files->tensors().size());  // and rope_freqs
  EXPECT_EQ(n_found + 4, folder.tensors.size());    // and those for images and sound
  const Metadata& keys = files->metadata();
  const auto number = [&](const char* key) { return keys.get<uint32_t>(std::string("gemma4.") + key).value_or(0); };
  EXPECT_EQ(number("expert_count"), 4u);
  EXPECT_EQ(number("expert_used_count"), 2u);
  EXPECT_EQ(number("expert_feed_forward_length"), 12u);
  EXPECT_EQ(number("feed_forward_length"), 24u);
  EXPECT_EQ(number("embedding_length_per_layer_input"), 0u);
  EXPECT_EQ(number("attention.key_length"), 16u);
  EXPECT_EQ(number("attention.key_length_swa"), 8u);
  const GgufValue* heads = keys.find("gemma4.attention.head_count_kv");
  ASSERT_NE(heads, nullptr);
  EXPECT_EQ(heads->element_type(), GgufType::i32);
  EXPECT_EQ(to_string(*heads), "[2, 1, 2, 1]");
}

TEST(Gemma4, FactorsOfTheRouterAreApplied) {
  HubFolder folder = gemma_folder({});
  ASSERT_OK_AND_ASSIGN(const auto want, gemma_logits(folder));
  for (size_t i = 0; i < 4; ++i) {
    const std::string layer = gemma_layer(i);
    HubTensor &scale = folder.find(layer + "router.scale"), &expert = folder.find(layer + "router.per_expert_scale");
    const std::vector<float> scales = hub_floats(scale), experts = hub_floats(expert);
    scale_hub_tensor(folder.find(layer + "router.proj.weight"), [&](size_t at) { return scales[at % kGemmaWidth]; });
    scale_hub_tensor(folder.find(layer + "experts.down_proj"),
                     [&](size_t at) { return experts[at / (kGemmaWidth * kGemmaExpertFfn)]; });
    scale.bytes = hub_bytes(std::vector<float>(kGemmaWidth, 1.0f), "F32");
    expert.bytes = hub_bytes(std::vector<float>(kGemmaExperts, 1.0f), "F32");
  }
  ASSERT_OK_AND_ASSIGN(const auto got, gemma_logits(folder));
  expect_near(got, want);
}

TEST(Gemma4, ExpertsMayBeTensorsOfTheirOwn) {
  const HubFolder apart = gemma_folder({.has_stacked_experts = false});
  HubFolder stacked = gemma_folder({});
  for (size_t i = 0; i < 4; ++i) {
    const std::string experts = gemma_layer(i) + "experts.";
    HubTensor &gate_up = stacked.find(experts + "gate_up_proj"), &down = stacked.find(experts + "down_proj");
    gate_up.bytes.clear();
    down.bytes.clear();
    for (int e = 0; e < kGemmaExperts; ++e) {
      const std::string expert = experts + std::to_string(e) + ".";
      HubFolder source = apart;
      gate_up.bytes += source.find(expert + "gate_proj.weight").bytes + source.find(expert + "up_proj.weight").bytes;
      down.bytes += source.find(expert + "down_proj.weight").bytes;
    }
  }
  for (const HubTensor& tensor : apart.tensors)
    if (tensor.name.find(".experts.") == std::string::npos) stacked.find(tensor.name).bytes = tensor.bytes;
  ASSERT_OK_AND_ASSIGN(const auto want, gemma_logits(stacked));
  ASSERT_OK_AND_ASSIGN(const auto got, gemma_logits(apart));
  expect_near(got, want);
}

// Dense models, such as those of 12B and 31B.
TEST(Gemma4, KeysMayBeValues) {
  const HubFolder one = gemma_folder({.n_heads_kv = 1, .has_experts = false, .is_unified = true});
  HubFolder both = gemma_folder({.n_heads_kv = 1, .has_experts = false, .is_k_v = false});
  for (const HubTensor& tensor : one.tensors) both.find(tensor.name).bytes = tensor.bytes;
  for (const size_t i : {1, 3}) {
    const std::string attention = gemma_layer(i) + "self_attn.";
    both.find(attention + "v_proj.weight").bytes = both.find(attention + "k_proj.weight").bytes;
  }
  ASSERT_OK_AND_ASSIGN(const auto want, gemma_logits(both));
  ASSERT_OK_AND_ASSIGN(const auto got, gemma_logits(one));
  expect_near(got, want);
  // Such a layer has no V of its own, whatever is stored.
  HubFolder more = one;
  more.add(gemma_layer(1) + "self_attn.v_proj.weight", {16, kGemmaWidth}, "F32");
  ASSERT_OK_AND_ASSIGN(const auto same, gemma_logits(more));
  EXPECT_TRUE(same_bits(same, got));
}

TEST(Gemma4, LayersThatShareKeysHaveNone) {
  const GemmaForm form{.has_experts = false, .is_k_v = false, .n_shared = 2, .is_wider = true};
  GemmaForm redundant = form;
  redundant.has_unused_kv = true;
  HubFolder folder = gemma_folder(redundant);
  const HubFolder least = gemma_folder(form);
  for (const HubTensor& tensor : least.tensors) folder.find(tensor.name).bytes = tensor.bytes;
  ASSERT_OK_AND_ASSIGN(const auto want, gemma_logits(least));
  ASSERT_OK_AND_ASSIGN(const auto got, gemma_logits(folder));
  EXPECT_TRUE(same_bits(got, want));
  ASSERT_OK_AND_ASSIGN(const auto files, converted_gemma(folder));
  EXPECT_EQ(files->find_tensor("blk.2.attn_k.weight"), nullptr);
  EXPECT_NE(files->find_tensor("blk.1.attn_k.weight"), nullptr);
  const GgufValue* widths = files->metadata().find("gemma4.feed_forward_length");
  ASSERT_NE(widths, nullptr);
  EXPECT_EQ(widths->element_type(), GgufType::i32);
  EXPECT_EQ(to_string(*widths), "[24, 24, 48, 48]");
  EXPECT_EQ(files->metadata().get<uint32_t>("gemma4.attention.head_count_kv").value_or(0), 2u);
}

}  // namespace
}  // namespace tessera::convert
