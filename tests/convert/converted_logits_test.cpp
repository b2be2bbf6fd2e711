// Converted models compute what is known of them. A model of other people gives its known texts. Models with known
// logits are written as hubs store them, by tables that conversions do not know, and converted back. The folders of
// conversion_golden_test have no known logits: they load and compute the same from weights of 16 and of 32 bits.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "tessera/convert/conversion.h"
#include "tests/convert/checkpoint_folder.h"
#include "tests/convert/hub_folder.h"
#include "tests/support/arch_files.h"
#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

Result<std::shared_ptr<Engine>> converted_engine(const std::string& folder, FileType type,
                                                 const std::string& vocabulary = "") {
  QuantizeOptions options;
  options.mix.file_type = type;
  const std::string output = temporary_path("run.gguf");
  TESSERA_ASSIGN(const auto conversion, Conversion::open(folder, type, {.vocabulary = {.folder = vocabulary}}));
  conversion->apply_to(options);
  TESSERA_ASSIGN(const auto plan, plan_quantize(conversion->files(), options));
  TESSERA_ASSIGN(const auto threads, ThreadPool::create({.n_threads = 2}));
  const auto progress = [](float) { return true; };
  TESSERA_TRY(write_quantized(conversion->files(), plan, options, output, {*threads, nullptr, progress}));
  return load_engine(output);
}

TEST(ConvertedLogits, StoriesOfLlama2cAreTheKnownOnes) {
  TESSERA_SHARED_OR_SKIP(folder, "golden/convert/llama2c");
  TESSERA_SHARED_OR_SKIP(golden, "golden/greedy.json");
  ASSERT_OK_AND_ASSIGN(const auto engine, converted_engine(folder, FileType::f32));
  const nlohmann::json known = nlohmann::json::parse(read_all(golden));
  ASSERT_FALSE(known["runs"].empty());
  for (const nlohmann::json& run : known["runs"]) {
    const std::string prompt = run["prompt"];
    std::vector<int32_t> want = run["result"]["prompt_ids"];
    const std::vector<int32_t> answer = run["result"]["ids"];
    EXPECT_EQ(text_ids(*engine, prompt), want) << prompt;
    ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, {.n_ctx = 512}));
    ASSERT_OK_AND_ASSIGN(const auto got, greedy_ids(*session, want, static_cast<int>(answer.size())));
    want.insert(want.end(), answer.begin(), answer.end());
    EXPECT_EQ(got, want) << prompt;
  }
}

class ConvertedModel : public ::testing::TestWithParam<const char*> {};

TEST_P(ConvertedModel, ComputesTheSameFromEitherType) {
  TESSERA_SHARED_OR_SKIP(folder, std::string("golden/convert/hf/") + GetParam());
  std::vector<float> logits[2];
  for (const FileType type : {FileType::bf16, FileType::f32}) {
    ASSERT_OK_AND_ASSIGN(const auto engine, converted_engine(folder, type));
    ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, {.n_ctx = 64,
                                                                      .n_outputs = 7,
                                                                      .type_k = DType::f32,
                                                                      .type_v = DType::f32,
                                                                      .activations = ActivationPrecision::float32}));
    ASSERT_OK_AND_ASSIGN(logits[type == FileType::f32 ? 1 : 0], logits_of(*session, token_ids(*engine, 7)));
  }
  ASSERT_EQ(logits[0].size(), logits[1].size());
  double power = 0, error = 0;
  for (size_t i = 0; i < logits[0].size(); ++i) {
    ASSERT_TRUE(std::isfinite(logits[0][i])) << i;
    power += double{logits[1][i]} * double{logits[1][i]};
    error += std::pow(double{logits[0][i]} - double{logits[1][i]}, 2);
  }
  EXPECT_GT(power, 0);
  EXPECT_LT(std::sqrt(error / power), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Folders, ConvertedModel,
                         ::testing::Values("llama", "qwen3moe", "gemma3", "mamba2", "deepseek2", "gpt2", "rwkv7"),
                         [](const auto& param) { return std::string(param.param); });

using HubNames = std::map<std::string, std::string>;

// Names of a layer's tensors in GGUF and in the hub's folders, without their ends.
const HubNames& decoder_names() {
  static const HubNames kNames = {{"token_embd", "model.embed_tokens"},
                                  {"output_norm", "model.norm"},
                                  {"output", "lm_head"},
                                  {"attn_norm", "input_layernorm"},
                                  {"attn_q", "self_attn.q_proj"},
                                  {"attn_k", "self_attn.k_proj"},
                                  {"attn_v", "self_attn.v_proj"},
                                  {"attn_output", "self_attn.o_proj"},
                                  {"attn_q_norm", "self_attn.q_norm"},
                                  {"attn_k_norm", "self_attn.k_norm"},
                                  {"ffn_norm", "post_attention_layernorm"},
                                  {"ffn_gate", "mlp.gate_proj"},
                                  {"ffn_up", "mlp.up_proj"},
                                  {"ffn_down", "mlp.down_proj"},
                                  {"ffn_gate_inp", "mlp.gate"},
                                  {"ffn_gate_exps", "mlp.experts.{e}.gate_proj"},
                                  {"ffn_up_exps", "mlp.experts.{e}.up_proj"},
                                  {"ffn_down_exps", "mlp.experts.{e}.down_proj"}};
  return kNames;
}

/// A model with known logits, and what makes a folder of the hub of it.
struct KnownModel {
  const char* name;
  std::string config;  // after the common members
  int n_ff = 192;
  std::string scaled = "attn_";  // the beginning of the matrices whose factors this architecture applies; "": of all
  HubNames names{};              // that differ
  std::string layers = "model.layers.";
  std::function<void(const std::string& name, HubTensor& tensor, std::vector<float>& values)> undo{};
};

// Pairs of rows of each head become halves.
void undo_rope(HubTensor& tensor, std::vector<float>& values, int64_t n_heads) {
  const auto n_row = static_cast<size_t>(tensor.shape.size() == 2 ? tensor.shape[1] : 1);
  const auto size = static_cast<size_t>(tensor.shape[0] / n_heads);
  const std::vector<float> old = values;
  for (size_t row = 0; row < old.size() / n_row; ++row) {
    const size_t in_head = row % size, to = row - in_head + in_head % 2 * (size / 2) + in_head / 2;
    for (size_t i = 0; i < n_row; ++i) values[to * n_row + i] = old[row * n_row + i];
  }
}

std::vector<KnownModel> known_models() {
  const std::string q = "attn_q", k = "attn_k";
  return {
      {.name = "smollm3-dense",
       .config = R"("architectures": ["SmolLM3ForCausalLM"])",
       .undo =
           [=](const std::string& name, HubTensor& tensor, std::vector<float>& values) {
             if (name == q) undo_rope(tensor, values, 4);
             if (name == k) undo_rope(tensor, values, 2);
           }},
      {.name = "qwen3-dense", .config = R"("architectures": ["Qwen3ForCausalLM"], "head_dim": 32)", .scaled = ""},
      {.name = "qwen3moe-moe",
       .config = R"("architectures": ["Qwen3MoeForCausalLM"], "head_dim": 32, "num_experts": 4,
           "num_experts_per_tok": 2, "moe_intermediate_size": 192)",
       .scaled = ""},
      {.name = "gemma2-dense",
       .config = R"("architectures": ["Gemma2ForCausalLM"], "head_dim": 32, "sliding_window": 16)",
       .names = {{"post_attention_norm", "post_attention_layernorm"},
                 {"ffn_norm", "pre_feedforward_layernorm"},
                 {"post_ffw_norm", "post_feedforward_layernorm"}},
       .undo =
           [](const std::string& name, HubTensor&, std::vector<float>& values) {
             if (!name.ends_with("_norm")) return;
             for (float& value : values) value -= 1.0f;
           }},
      {.name = "mamba2-dense",
       .config = R"("architectures": ["Mamba2ForCausalLM"], "state_size": 128, "num_heads": 4, "n_groups": 2,
           "conv_kernel": 4, "expand": 2, "layer_norm_epsilon": 1e-5)",
       .n_ff = 256,
       .scaled = "ssm_",
       .names = {{"token_embd", "backbone.embeddings"},
                 {"output_norm", "backbone.norm_f"},
                 {"attn_norm", "norm"},
                 {"ssm_norm", "mixer.norm"},
                 {"ssm_in", "mixer.in_proj"},
                 {"ssm_out", "mixer.out_proj"},
                 {"ssm_conv1d", "mixer.conv1d"},
                 {"ssm_a", "mixer.A_log"},
                 {"ssm_d", "mixer.D"},
                 {"ssm_dt", "mixer.dt_bias"}},
       .layers = "backbone.layers.",
       .undo =
           [](const std::string& name, HubTensor& tensor, std::vector<float>& values) {
             if (name == "ssm_a")
               for (float& value : values) value = std::log(-value);
             if (name == "ssm_conv1d" && tensor.shape.size() == 2) tensor.shape.insert(tensor.shape.begin() + 1, 1);
             if (name == "ssm_a" || name == "ssm_d" || name == "ssm_norm") tensor.shape = {std::ssize(values)};
             if (name == "ssm_dt") tensor.name.resize(tensor.name.size() - std::string_view(".bias").size());
           }},
  };
}

std::vector<float> floats_of_tensor(const ModelFiles& files, const std::string& name) {
  const ModelFiles::Tensor* tensor = files.find_tensor(name);
  if (tensor == nullptr) return {};
  std::vector<float> values(static_cast<size_t>(tensor->info.shape.n_elements()));
  std::memcpy(values.data(), files.data(*tensor).data(), values.size() * sizeof(float));
  return values;
}

// Adds a tensor, or one for each expert.
void add_hub_tensor(HubFolder& folder, HubTensor tensor, const std::vector<float>& values) {
  const size_t place = tensor.name.find("{e}");
  if (place == std::string::npos) {
    tensor.bytes = hub_bytes(values, "F32");
    folder.tensors.push_back(std::move(tensor));
    return;
  }
  const auto n = static_cast<size_t>(tensor.shape[0]), n_each = values.size() / n;
  for (size_t i = 0; i < n; ++i) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(i * n_each);
    HubTensor expert{tensor.name, "F32", {tensor.shape[1], tensor.shape[2]}};
    expert.name.replace(place, 3, std::to_string(i));
    expert.bytes = hub_bytes({first, first + static_cast<std::ptrdiff_t>(n_each)}, "F32");
    folder.tensors.push_back(std::move(expert));
  }
}

// Factors of whole matrices, which these models have, become part of the matrices.
HubFolder hub_folder_of(const KnownModel& model, const ModelFiles& files) {
  HubFolder folder{.config = R"({"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 128, "rope_theta": 10000.0,
      "rms_norm_eps": 1e-5, "intermediate_size": )" +
                             std::to_string(model.n_ff) + ", " + model.config + "}"};
  for (const ModelFiles::Tensor& source : files.tensors()) {
    const std::string full(source.info.name);
    const size_t dot = full.rfind('.');
    const std::string end = dot == std::string::npos ? "" : full.substr(dot);
    if (end == ".scale" || end == ".input_scale" || full.starts_with("cls.")) continue;
    const bool has_end = end == ".weight" || end == ".bias";
    std::string name = has_end ? full.substr(0, dot) : full, hub;
    std::vector<float> values = floats_of_tensor(files, full);
    const std::vector<float> factors = floats_of_tensor(files, name + ".scale");
    const bool is_scaled = end == ".weight" && !factors.empty() && full.find(model.scaled) != std::string::npos;
    for (size_t i = 0; is_scaled && i < values.size(); ++i) values[i] *= factors[i / (values.size() / factors.size())];
    if (name.starts_with("blk.")) {
      const size_t number = std::string_view("blk.").size(), after = name.find('.', number);
      hub = model.layers + name.substr(number, after + 1 - number);
      name = name.substr(after + 1);
    }
    const auto own = model.names.find(name);
    hub += own != model.names.end() ? own->second : decoder_names().at(name);
    HubTensor tensor{hub + (has_end ? end : ""), "F32", {}};
    for (int i = source.info.rank; i-- > 0;) tensor.shape.push_back(source.info.shape[static_cast<size_t>(i)]);
    if (model.undo) model.undo(name, tensor, values);
    add_hub_tensor(folder, std::move(tensor), values);
  }
  return folder;
}

TEST(ConvertedLogits, AreThoseThatAreKnownOfTheModel) {
  const std::string vocabulary = write_folder(
      "vocabulary",
      {{"tokenizer.json", R"({"pre_tokenizer":{"type":"ByteLevel","use_regex":true},"model":{"type":"BPE",)"
                          R"("vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})"}});
  for (const KnownModel& model : known_models()) {
    SCOPED_TRACE(model.name);
    ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(arch_model(model.name)));
    const GoldenLogits known = arch_logits(model.name);
    const std::string folder = hub_folder_of(model, *files).write("known");
    ASSERT_OK_AND_ASSIGN(const auto engine, converted_engine(folder, FileType::f32, vocabulary));
    ASSERT_OK_AND_ASSIGN(
        const auto session,
        Session::create(
            engine, {.n_ctx = 128, .n_outputs = std::ssize(known.tokens), .type_k = DType::f32, .type_v = DType::f32}));
    ASSERT_OK_AND_ASSIGN(const auto logits, logits_of(*session, known.tokens));
    ASSERT_EQ(logits.size(), known.logits.size());
    double error = 0, power = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      error += std::pow(double{logits[i]} - double{known.logits[i]}, 2);
      power += double{known.logits[i]} * double{known.logits[i]};
    }
    // The reference reads GELU from a table of 16-bit values.
    EXPECT_LE(error / power, std::string(model.name).starts_with("gemma") ? 1e-6 : 1e-10);
  }
}

}  // namespace
}  // namespace tessera::convert
