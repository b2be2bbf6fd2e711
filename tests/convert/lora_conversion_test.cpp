// Converted adapters: a converted model with a converted adapter must compute what the model computes whose weights
// have the adapter merged before the conversion. Settings and tensors that GGUF cannot express are refused.
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/convert/adapter/lora_settings.h"
#include "tessera/convert/conversion.h"
#include "tessera/convert/source/to_floats.h"
#include "tessera/gguf/lora_file.h"
#include "tests/convert/lora_folder.h"
#include "tests/support/engine_support.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

Result<> write_conversion(const Conversion& conversion, const std::string& output) {
  QuantizeOptions options;
  options.mix.file_type = FileType::f32;
  conversion.apply_to(options);
  TESSERA_ASSIGN(const auto plan, plan_quantize(conversion.files(), options));
  TESSERA_ASSIGN(const auto threads, ThreadPool::create({.n_threads = 2}));
  const auto progress = [](float) { return true; };
  return write_quantized(conversion.files(), plan, options, output, {*threads, nullptr, progress});
}

// A folder with a small vocabulary. Models have room for more tokens.
std::string small_vocabulary() {
  return write_folder("vocabulary", {{"tokenizer.json",
                                      R"({"pre_tokenizer":{"type":"ByteLevel","use_regex":true},"model":{"type":"BPE",)"
                                      R"("vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})"}});
}

Result<std::string> convert_model(const std::string& folder, const std::string& vocabulary, const std::string& name) {
  TESSERA_ASSIGN(const auto conversion,
                 Conversion::open(folder, FileType::f32, {.vocabulary = {.folder = vocabulary}}));
  TESSERA_TRY(write_conversion(*conversion, temporary_path(name)));
  return temporary_path(name);
}

Result<std::string> convert_lora(const std::string& folder, const std::string& base, const std::string& name,
                                 std::optional<FileType> type = {}) {
  TESSERA_ASSIGN(const auto conversion, Conversion::open_adapter(folder, base, type));
  TESSERA_TRY(write_conversion(*conversion, temporary_path(name)));
  return temporary_path(name);
}

Result<std::vector<float>> adapted_logits(const std::string& model, const std::string& lora = "") {
  TESSERA_ASSIGN(const auto engine, load_engine(model));
  SessionOptions options{.n_ctx = 64, .n_outputs = 9, .type_k = DType::f32, .type_v = DType::f32};
  if (!lora.empty()) {
    TESSERA_ASSIGN(auto adapter, Adapter::open_lora(*engine, lora));
    TESSERA_TRY(adapter->load());
    options.adapters.push_back({std::move(adapter), 1.0f});
  }
  TESSERA_ASSIGN(const auto session, Session::create(engine, options));
  return logits_of(*session, token_ids(*engine, 9));
}

// The root of the sum of squared differences divided by that of squares.
double difference(std::span<const float> a, std::span<const float> b) {
  double error = 0, power = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    error += (double{a[i]} - double{b[i]}) * (double{a[i]} - double{b[i]});
    power += double{b[i]} * double{b[i]};
  }
  return a.size() == b.size() ? std::sqrt(error / power) : 1.0;
}

constexpr double kTolerance = 5e-5;  // of sums of floats in another order
constexpr double kEffect = 1e-2;     // the least that an adapter of these tests changes

// plain: the model without the adapter. merged: with it.
void expect_adapted_is_merged(const HubFolder& plain, const HubFolder& merged, const LoraFolder& lora,
                              const std::string& vocabulary = small_vocabulary()) {
  const std::string base = plain.write("base");
  ASSERT_OK_AND_ASSIGN(const std::string model, convert_model(base, vocabulary, "base.gguf"));
  ASSERT_OK_AND_ASSIGN(const std::string whole, convert_model(merged.write("merged"), vocabulary, "merged.gguf"));
  ASSERT_OK_AND_ASSIGN(const std::string adapter, convert_lora(lora.write("lora"), base, "lora.gguf"));
  ASSERT_OK_AND_ASSIGN(const auto want, adapted_logits(whole));
  ASSERT_OK_AND_ASSIGN(const auto got, adapted_logits(model, adapter));
  ASSERT_OK_AND_ASSIGN(const auto before, adapted_logits(model));
  EXPECT_LT(difference(got, want), kTolerance);
  EXPECT_GT(difference(before, want), kEffect);
}

// Rows of q and k in another order, a table, and the output layer.
TEST(LoraConversion, ALlamaWithItsAdapterIsTheMergedLlama) {
  const HubFolder plain = hub_llama("F32");
  HubFolder merged = plain;
  LoraFolder lora;
  for (const char* module : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                             "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
    lora.add(merged, std::string("model.layers.1.") + module, 4, 8.0f / 4);
  lora.add(merged, "model.embed_tokens", 2, 8.0f / 2, LoraForm::table);
  lora.add(merged, "lm_head", 1, 8.0f);
  expect_adapted_is_merged(plain, merged, lora);
}

// A model of the hub with its values in F32.
HubFolder folder_in_floats(const std::string& path) {
  const Checkpoint checkpoint = Checkpoint::open(path).value();
  HubFolder folder{.config = read_all(path + "/config.json")};
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    std::vector<float> values(static_cast<size_t>(tensor.tensor.n_values()));
    std::vector<std::byte> bytes(values.size() * element_bytes(tensor.tensor.type));
    checkpoint.read(tensor, 0, bytes);
    to_floats(tensor.tensor.type, bytes, values);
    folder.tensors.push_back({tensor.tensor.name, "F32", tensor.tensor.shape, hub_bytes(values, "F32")});
  }
  return folder;
}

LoraForm form_of(const std::string& model, const std::string& name) {
  for (const char* table : {"embed_tokens", "word_embeddings", "wte", "embed_in", "backbone.embeddings"})
    if (name.find(table) != std::string::npos) return LoraForm::table;
  return model == "gpt2" && name != "lm_head.weight" ? LoraForm::conv1d : LoraForm::linear;
}

class LoraOfModel : public ::testing::TestWithParam<const char*> {};

// Matrices that a GGUF adapter cannot change, or that no layer of the model uses.
bool is_left_out(const HubTensor& tensor) {
  constexpr const char* kParts[] = {"wpe", "visual", "mtp.", "position"};
  return tensor.shape.size() != 2 || !tensor.name.ends_with(".weight") ||
         std::ranges::any_of(kParts, [&](const char* part) { return tensor.name.find(part) != std::string::npos; });
}

// An adapter for every matrix, with ranks that differ.
TEST_P(LoraOfModel, IsTheMergedModel) {
  const std::string model = GetParam();
  TESSERA_SHARED_OR_SKIP(path, "golden/convert/hf/" + model);
  const HubFolder plain = folder_in_floats(path);
  HubFolder merged = plain;
  LoraFolder lora;
  lora.config["use_rslora"] = true;
  for (const HubTensor& tensor : plain.tensors) {
    if (is_left_out(tensor)) continue;
    const std::string module = tensor.name.substr(0, tensor.name.size() - std::string_view(".weight").size());
    const bool is_expert = module.find(".experts.") != std::string::npos;
    const int64_t rank = is_expert ? 3 : static_cast<int64_t>(lora.tensors.size() / 2 % 2) + 1;
    lora.add(merged, module, rank, 8 / std::sqrt(static_cast<float>(rank)), form_of(model, module));
  }
  EXPECT_GT(lora.tensors.size(), 4u);
  expect_adapted_is_merged(plain, merged, lora, path);
}

INSTANTIATE_TEST_SUITE_P(Folders, LoraOfModel,
                         ::testing::Values("mixtral", "gpt2", "gptneox", "falcon", "gemma3", "qwen35", "qwen3next",
                                           "granitehybrid", "mamba2", "jamba"),
                         [](const auto& param) { return std::string(param.param); });

std::string refusal_of(const HubFolder& model, const LoraFolder& lora, std::optional<FileType> type = {}) {
  const auto opened = Conversion::open_adapter(lora.write("refused_lora"), model.write("refused_base"), type);
  return opened ? "opened" : opened.error().message();
}

void expect_said(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message << "\nwant " << part;
}

LoraFolder lora_of(HubFolder model, const std::string& module, int64_t rank = 2, LoraForm form = LoraForm::linear) {
  LoraFolder lora;
  lora.add(model, module, rank, 1.0f, form);
  return lora;
}

std::vector<float> values_of(const ModelFiles& files, const char* name) {
  const ModelFiles::Tensor* tensor = files.find_tensor(name);
  if (tensor == nullptr) return {};
  const auto bytes = files.data(*tensor);
  return floats_of(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

constexpr const char* kVModule = "model.layers.0.self_attn.v_proj";

TEST(LoraConversion, KeysNameTheAdapter) {
  const HubFolder model = hub_llama();
  LoraFolder lora = lora_of(hub_llama("F32"), kVModule, 4);
  lora.config["lora_alpha"] = 6.5;
  ASSERT_OK_AND_ASSIGN(const std::string path, convert_lora(lora.write("named"), model.write("base"), "keys.gguf"));
  ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(path));
  const Metadata& keys = files->metadata();
  EXPECT_EQ(keys.get<std::string_view>("general.type").value(), "adapter");
  EXPECT_EQ(keys.get<std::string_view>("adapter.type").value(), "lora");
  EXPECT_EQ(keys.get<std::string_view>("general.architecture").value(), "llama");
  EXPECT_EQ(keys.get<std::string_view>("general.name").value(), "named");
  EXPECT_EQ(keys.get<uint32_t>("general.file_type").value(), 0u);
  EXPECT_EQ(keys.get<float>("adapter.lora.alpha").value(), 6.5f);
  EXPECT_EQ(keys.find("llama.block_count"), nullptr);
  ASSERT_EQ(files->tensors().size(), 2u);
  EXPECT_EQ(files->find_tensor("blk.0.attn_v.weight.lora_a")->info.shape, (Shape{64, 4}));
  EXPECT_EQ(files->find_tensor("blk.0.attn_v.weight.lora_b")->info.shape, (Shape{4, 32}));
}

TEST(LoraConversion, ADifferentScaleIsInTheMatrix) {
  const HubFolder plain = hub_llama("F32");
  HubFolder merged = plain;
  LoraFolder lora;
  lora.config["alpha_pattern"] = {
      {"mlp.up_proj", 3.0}, {"layers.0.mlp.up_proj", 100.0}, {"lm_head", 2.0}, {"p_proj", 5}};
  lora.add(merged, "model.layers.0.mlp.up_proj", 2, 3.0f / 2);  // the first pattern counts
  lora.add(merged, "model.layers.0.mlp.gate_proj", 4, 8.0f / 4);
  lora.add(merged, "lm_head", 4, 2.0f / 4);
  expect_adapted_is_merged(plain, merged, lora);
  ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(temporary_path("lora.gguf")));
  EXPECT_EQ(files->metadata().get<float>("adapter.lora.alpha").value(), 3.0f);
  const std::vector<float> up = floats_of(lora.tensors[3].bytes);
  std::vector<float> scaled = up;
  for (float& value : scaled) value *= 8.0f / 3.0f;
  EXPECT_EQ(values_of(*files, "blk.0.ffn_gate.weight.lora_b"), scaled);
  EXPECT_EQ(values_of(*files, "blk.0.ffn_up.weight.lora_b"), floats_of(lora.tensors[1].bytes));
  EXPECT_EQ(values_of(*files, "blk.0.ffn_gate.weight.lora_a"), floats_of(lora.tensors[2].bytes));
}

TEST(LoraConversion, ScalesOfStabilizedRanksAreTheSame) {
  const HubFolder plain = hub_llama("F32");
  HubFolder merged = plain;
  LoraFolder lora;
  lora.config["use_rslora"] = true;
  lora.config["lora_alpha"] = 3;
  lora.add(merged, "model.layers.0.mlp.up_proj", 4, 3.0f / 2);
  lora.add(merged, "model.layers.1.mlp.up_proj", 4, 3.0f / 2);
  lora.add(merged, "model.layers.1.mlp.gate_proj", 16, 3.0f / 4);
  expect_adapted_is_merged(plain, merged, lora);
  ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(temporary_path("lora.gguf")));
  EXPECT_EQ(files->metadata().get<float>("adapter.lora.alpha").value(), 6.0f);
  EXPECT_EQ(values_of(*files, "blk.1.ffn_up.weight.lora_b"), floats_of(lora.tensors[3].bytes));
}

TEST(LoraConversion, MatricesKeepTheirTypeUnlessAnotherIsWanted) {
  const HubFolder model = hub_llama();
  LoraFolder lora = lora_of(hub_llama("F32"), kVModule);
  const auto type_of = [&](std::optional<FileType> wanted) {
    const auto opened = Conversion::open_adapter(lora.write("typed"), model.write("base"), wanted);
    return opened ? std::string(info((*opened)->files().tensors()[0].info.dtype).name) : opened.error().message();
  };
  const auto store = [&](size_t i, const char* type) {
    lora.tensors[i].bytes = hub_bytes(std::vector<float>(128, 0.5f), type);
    lora.tensors[i].bytes.resize(lora.tensors[i].bytes.size() / (i == 0 ? 1 : 2));
    lora.tensors[i].type = type;
  };
  EXPECT_EQ(type_of({}), "f32");
  EXPECT_EQ(type_of(FileType::f16), "f16");
  EXPECT_EQ(type_of(FileType::bf16), "bf16");
  expect_said(type_of(FileType::q8_0), "adapters have the type F32, F16 or BF16, not Q8_0");
  store(0, "F16");
  EXPECT_EQ(type_of({}), "f32");
  store(1, "F16");
  EXPECT_EQ(type_of({}), "f16");
  store(0, "BF16");
  store(1, "BF16");
  EXPECT_EQ(type_of({}), "bf16");
  EXPECT_EQ(type_of(FileType::f32), "f32");
}

TEST(LoraConversion, OtherNamesOfTheSameTensorsWillDo) {
  const HubFolder model = hub_llama();
  LoraFolder lora = lora_of(hub_llama("F32"), kVModule);
  lora.prefix = "base_model.model.";
  const auto become = [&](size_t i, const std::string& name) { lora.tensors[i].name = name; };
  become(0, "base_model.model.layers.0.self_attn.v_proj.lora_A.default.weight");  // of a model without its head
  become(1, "base_model.model.layers.0.self_attn.v_proj.lora_B.default.weight");
  EXPECT_EQ(refusal_of(model, lora), "opened");
  become(0, std::string(kVModule) + ".lora_A.weight");
  become(1, std::string(kVModule) + ".lora_B.weight");
  EXPECT_EQ(refusal_of(model, lora), "opened");
  become(0, "base_model.model.model.language_model.layers.0.self_attn.v_proj.lora_A.weight");
  become(1, "base_model.model.model.language_model.layers.0.self_attn.v_proj.lora_B.weight");
  EXPECT_EQ(refusal_of(model, lora), "opened");
}

TEST(LoraConversion, TensorsThatAreNoPairsAreRefused) {
  const HubFolder model = hub_llama();
  const LoraFolder good = lora_of(hub_llama("F32"), kVModule);
  LoraFolder lora = good;
  lora.tensors.pop_back();
  expect_said(refusal_of(model, lora), "module 'model.layers.0.self_attn.v_proj': one of its two matrices is missing");
  lora.tensors[0] = good.tensors[1];
  expect_said(refusal_of(model, lora), "one of its two matrices is missing");
  lora.tensors.clear();
  expect_said(refusal_of(model, lora), "adapter_model.safetensors: an adapter without tensors");
  for (const char* name : {"base_model.model.lm_head.weight", "base_model.model.model.norm.lora_magnitude_vector",
                           "base_model.model.lm_head.lora_B.bias", "base_model.model.lm_head.lora_C.weight"}) {
    lora = good;
    lora.tensors.push_back({name, "F32", {1}, number_bytes(1.0f)});
    expect_said(refusal_of(model, lora), "want pairs of MODULE.lora_A.weight and MODULE.lora_B.weight");
  }
  lora = good;
  lora.tensors.push_back(lora.tensors[0]);
  lora.tensors[2].name.replace(lora.tensors[2].name.size() - 7, 7, ".default.weight");
  expect_said(refusal_of(model, lora), "want pairs of");
  lora = good;
  lora.tensors[0].name = std::string(kVModule) + ".lora_embedding_A";
  expect_said(refusal_of(model, lora), "want pairs of");
}

TEST(LoraConversion, ShapesThatHaveNoProductAreRefused) {
  const HubFolder model = hub_llama();
  const LoraFolder good = lora_of(hub_llama("F32"), kVModule);
  const auto shaped = [&](std::vector<int64_t> down, std::vector<int64_t> up) {
    LoraFolder lora = good;
    lora.tensors[0].shape = std::move(down);
    lora.tensors[1].shape = std::move(up);
    for (SmallTensor& tensor : lora.tensors) {
      int64_t n = 4;
      for (const int64_t extent : tensor.shape) n *= extent;
      tensor.bytes.assign(static_cast<size_t>(n), 'x');
    }
    return refusal_of(model, lora);
  };
  EXPECT_EQ(shaped({2, 64}, {32, 2}), "opened");
  expect_said(shaped({2, 8, 8}, {32, 2}), "3 dimensions, want a matrix");
  expect_said(shaped({2, 64}, {64}), "1 dimensions, want a matrix");
  expect_said(shaped({2, 64}, {32, 3}), "matrices of 32 x 3 and 2 x 64 have no product");
  expect_said(shaped({0, 64}, {32, 0}), "have no product");
  expect_said(shaped({2, 0}, {32, 2}), "have no product");
  EXPECT_EQ(shaped({1 << 16, 1}, {2, 1 << 16}), "opened");
  expect_said(shaped({(1 << 16) + 1, 1}, {1, (1 << 16) + 1}), "rank 65537, limit 65536");
}

TEST(LoraConversion, WeightsThatNoAdapterChangesAreRefused) {
  const HubFolder model = hub_llama("F32");
  expect_said(refusal_of(model, lora_of(model, kVModule, 2, LoraForm::table)),
              "adapters cannot change blk.0.attn_v.weight");
  expect_said(refusal_of(model, lora_of(model, "model.embed_tokens")), "adapters cannot change token_embd.weight");
  LoraFolder lora = lora_of(model, kVModule);
  for (SmallTensor& tensor : lora.tensors) tensor.name.replace(17, std::string_view(kVModule).size(), "model.other");
  expect_said(refusal_of(model, lora), "no rule for tensor \"model.other.weight\"");
  for (SmallTensor& tensor : lora.tensors) tensor.name.replace(17, 11, "visual.a");
  expect_said(refusal_of(model, lora), "module 'visual.a': is no part of a model of text");

  HubFolder tied = hub_llama("F32", R"("tie_word_embeddings": true,)");
  expect_said(refusal_of(tied, lora_of(tied, "lm_head")), "config.json: the output layer is the token embedding");
  EXPECT_EQ(refusal_of(model, lora_of(model, "lm_head")), "opened");
  EXPECT_EQ(refusal_of(tied, lora_of(tied, kVModule)), "opened");
  tied.config.replace(tied.config.find("LlamaForCausalLM"), 16, "GemmaForCausalLM");
  expect_said(refusal_of(tied, lora_of(tied, "lm_head")), "module 'lm_head': models of gemma do not have it in GGUF");

  HubFolder other = hub_llama("F32");
  other.config = R"({"architectures": ["OtherForCausalLM"]})";
  expect_said(refusal_of(other, lora_of(other, kVModule)), "refused_base/config.json: models of class");
}

// Latent attention has one matrix for keys and values of all heads, which GGUF divides by heads.
TEST(LoraConversion, LatentAttentionIsRefused) {
  HubFolder model{.config = R"({"architectures": ["DeepseekV2ForCausalLM"], "num_attention_heads": 2,
      "num_hidden_layers": 1, "qk_nope_head_dim": 3, "v_head_dim": 3})"};
  model.add("model.layers.0.self_attn.kv_b_proj.weight", {12, 8}, "F32");
  expect_said(refusal_of(model, lora_of(model, "model.layers.0.self_attn.kv_b_proj")),
              "adapters cannot change blk.0.attn_k_b.weight");
}

TEST(LoraConversion, ExpertsAreCompleteAndOfOneRank) {
  HubFolder model{.config = R"({"architectures": ["MixtralForCausalLM"], "num_attention_heads": 2,
      "num_hidden_layers": 1})"};
  LoraFolder lora;
  const auto expert = [](int i) { return "model.layers.0.block_sparse_moe.experts." + std::to_string(i) + ".w1"; };
  for (const int i : {0, 1, 2}) model.add(expert(i) + ".weight", {4, 8}, "F32");
  lora.add(model, expert(0), 2, 1.0f);
  lora.add(model, expert(2), 2, 1.0f);
  expect_said(refusal_of(model, lora), "blk.0.ffn_gate_exps.weight: expert 1 is missing");
  lora.add(model, expert(1), 3, 1.0f);
  expect_said(refusal_of(model, lora), "experts.1.w1': rank 3, and module");
  lora = lora_of(model, expert(0));
  EXPECT_EQ(refusal_of(model, lora), "opened");
}

// The model has a plain FFN where a layer has one expert, and so has the adapter.
TEST(LoraConversion, TheOnlyExpertOfJambaIsAPlainFfn) {
  HubFolder model{.config = R"({"architectures": ["JambaForCausalLM"], "num_attention_heads": 2,
      "num_hidden_layers": 2, "expert_layer_period": 2, "expert_layer_offset": 1})"};
  LoraFolder lora;
  for (const char* module : {"0.feed_forward.experts.0", "1.feed_forward.experts.0", "1.feed_forward.experts.1"}) {
    const std::string name = std::string("model.layers.") + module + ".up_proj";
    model.add(name + ".weight", {4, 8}, "F32");
    lora.add(model, name, 2, 1.0f);
  }
  const std::string base = model.write("base");
  ASSERT_OK_AND_ASSIGN(const std::string path, convert_lora(lora.write("lora"), base, "jamba.gguf"));
  ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(path));
  const auto expect_shape = [&](const char* name, int rank, const Shape& shape) {
    const ModelFiles::Tensor* const tensor = files->find_tensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(tensor->info.rank, rank) << name;
    EXPECT_EQ(tensor->info.shape, shape) << name;
  };
  EXPECT_EQ(files->tensors().size(), 4u);
  expect_shape("blk.0.ffn_up.weight.lora_a", 2, Shape{8, 2});
  expect_shape("blk.0.ffn_up.weight.lora_b", 2, Shape{2, 4});
  expect_shape("blk.1.ffn_up_exps.weight.lora_a", 3, Shape{8, 2, 2});
  expect_shape("blk.1.ffn_up_exps.weight.lora_b", 3, Shape{2, 4, 2});
  EXPECT_EQ(values_of(*files, "blk.0.ffn_up.weight.lora_a"), floats_of(lora.tensors[0].bytes));
  LoraFolder more = lora;
  model.add("model.layers.0.feed_forward.experts.1.up_proj.weight", {4, 8}, "F32");
  more.add(model, "model.layers.0.feed_forward.experts.1.up_proj", 2, 1.0f);
  expect_said(refusal_of(model, more), "expert_layer_period says that layer 0 has none");
}

// The pickled form, whose tensors may be views.
TEST(LoraConversion, PickledAdaptersAreRead) {
  const HubFolder model = hub_llama("F32");
  const std::string module = "base_model.model.model.layers.0.self_attn.v_proj.lora_";
  const std::string object =
      pickle::whole(pickle::dictionary({{module + "A.weight", pickle::tensor({"0", 64, 0, {1, 64}, {64, 1}})},
                                        {module + "B.weight", pickle::tensor({"1", 64, 0, {32, 1}, {2, 1}})}}));
  std::vector<float> down(64), up(64);
  for (size_t i = 0; i < 64; ++i) down[i] = static_cast<float>(i), up[i] = static_cast<float>(2 * i);
  const std::string file = legacy_torch_file(object, {{"0", vector_bytes(down)}, {"1", vector_bytes(up)}});
  LoraFolder lora;
  const std::string folder = write_folder("pickled", {{"adapter_config.json", "{}"}, {"adapter_model.bin", file}});
  ASSERT_OK_AND_ASSIGN(const std::string path, convert_lora(folder, model.write("base"), "pickled.gguf"));
  ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(path));
  EXPECT_EQ(values_of(*files, "blk.0.attn_v.weight.lora_a"), down);
  std::vector<float> every_second;
  for (size_t i = 0; i < 32; ++i) every_second.push_back(up[2 * i]);
  EXPECT_EQ(values_of(*files, "blk.0.attn_v.weight.lora_b"), every_second);
  EXPECT_EQ(files->metadata().get<float>("adapter.lora.alpha").value(), 8.0f);
}

TEST(LoraConversion, AFolderWithoutAnAdapterIsRefused) {
  const std::string base = hub_llama().write("base");
  const auto refused = [&](const std::string& path, const std::string& model) {
    const auto opened = Conversion::open_adapter(path, model, {});
    return opened ? "opened" : opened.error().message();
  };
  expect_said(refused(base, base), "base: no adapter: want adapter_config.json and adapter_model.*");
  const std::string lora = lora_of(hub_llama("F32"), kVModule).write("lora");
  expect_said(refused(lora, lora), "lora: no config.json");
  EXPECT_EQ(refused(lora + "/adapter_model.safetensors", base), "opened");
}

}  // namespace
}  // namespace tessera::convert
