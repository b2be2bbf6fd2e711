// Gradients of whole models with recurrent layers and experts. After a step along the gradient of one weight, the loss
// must change by the step times the gradient's length. Two windows are computed at once, each from a zero state.
#include <cmath>

#include "tessera/cache/recurrent.h"
#include "tessera/graph/autodiff.h"
#include "tests/support/graph_runner.h"
#include "tests/support/spec_model.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

using namespace testing;
using namespace testing::tiny;

constexpr int32_t kGradientWindow = 9, kWindows = 2, kBatch = kGradientWindow * kWindows;

/// A model with its weights as f32 in plain memory, and the inputs of a training graph.
class TrainedModel {
 public:
  Result<> open(const std::string& path) {
    TESSERA_ASSIGN(files_, ModelFiles::open(path));
    TESSERA_ASSIGN(model_, create_model(*files_, {}));
    const Device& device = runner_.device();
    for (Weight& weight : model_->weights().weights()) {
      Tensor& tensor = weight.tensor;
      const auto n = static_cast<size_t>(tensor.shape().n_elements());
      const DType stored = weight.source->info.dtype;
      std::vector<float>& values = values_[&tensor];
      values.resize(n);
      quant::find_format(stored)->dequantize_row(files_->data(*weight.source).data(), tensor.shape().n_elements(),
                                                 values.data());
      tensor.dtype = DType::f32;
      TESSERA_ASSIGN(tensor.layout, contiguous_layout(DType::f32, tensor.shape()));
      tensor.buffer_type = &device.buffer_type();
      TESSERA_ASSIGN(auto buffer, device.buffer_type().allocate(n * sizeof(float), BufferUsage::any));
      buffers_.push_back(std::move(buffer));
      tensor.buffer = buffers_.back().get();
      TESSERA_TRY(set(tensor, values));
      parameters_.push_back(&tensor);
    }
    const ModelInfo& info = model_->info();
    TESSERA_ASSIGN(cache_, KvCache::plan(device, {.layers = info.kv_layers,
                                                  .type_k = DType::f32,
                                                  .type_v = DType::f32,
                                                  .n_ctx = kGradientWindow,
                                                  .n_sequences = 1,
                                                  .n_ubatch = kGradientWindow}));
    if (info.recurrent_layers.empty()) return {};
    TESSERA_ASSIGN(states_, RecurrentCache::plan(device, {.layers = info.recurrent_layers, .n_sequences = kWindows}));
    return states_->allocate();
  }

  const std::vector<const Tensor*>& parameters() const { return parameters_; }
  std::vector<float>& values(const Tensor* tensor) { return values_.at(tensor); }
  Result<> set(const Tensor& tensor, const std::vector<float>& values) {
    return tensor.buffer->set(tensor, 0, std::as_bytes(std::span(values)));
  }

  /// The sum of the losses of all tokens and, on request, the gradient of each weight by name.
  Result<double> loss(std::map<std::string, std::vector<float>>* gradients = nullptr) {
    GraphBuilder b;
    nn::BatchInputs in;
    NamedBytes bytes;
    const auto input = [&](const char* name, const std::vector<int32_t>& numbers) {
      bytes[name] = bytes_of(numbers);
      return b.input(name, DType::i32, {std::ssize(numbers)});
    };
    std::vector<int32_t> ids, positions, sequences, outputs, targets, segments;
    std::vector<BatchToken> tokens;
    const auto n_vocab = static_cast<int32_t>(model_->info().n_vocab);
    for (int32_t i = 0; i < kBatch; ++i) {
      tokens.push_back(
          {.token = (i * 7 + 1) % n_vocab, .position = i % kGradientWindow, .sequence = i / kGradientWindow});
      ids.push_back(tokens.back().token);
      positions.push_back(tokens.back().position);
      sequences.push_back(tokens.back().sequence);
      outputs.push_back(i);
      targets.push_back((i * 7 + 3) % n_vocab);
    }
    in.tokens = input("tokens", ids);
    in.positions = input("positions", positions);
    in.sequences = input("sequences", sequences);
    in.outputs = input("outputs", outputs);
    in.groups.resize(cache_->groups().size());
    for (size_t il = 0; il < cache_->config().layers.size(); ++il)
      in.group_of_layer.push_back(cache_->group_of(static_cast<int64_t>(il)));
    if (states_ != nullptr) {
      TESSERA_TRY(states_->reserve(tokens, segments));
      states_->discard();  // the next windows begin from zeros too
      in.states = states_.get();
      in.segments = input("segments", segments);
    }
    const Value losses = b.cross_entropy(model_->build(b, in, *cache_), input("targets", targets));
    b.output(losses, "losses");
    if (gradients != nullptr) {
      const Value dy = b.input("dy", DType::f32, b.spec(losses).shape());
      bytes["dy"] = bytes_of(std::vector<float>(kBatch, 1.0f));
      std::map<std::string, Value> sums;
      add_gradients(b, losses, dy, parameters_, [&](const Tensor& tensor, Value d) {
        Value& sum = sums[tensor.name];
        sum = sum.present() ? b.add(sum, d) : d;
      });
      for (const auto& [name, d] : sums) b.output(b.scale(d, 1.0f), "d " + name);
    }
    TESSERA_ASSIGN(Graph graph, std::move(b).finish());
    TESSERA_ASSIGN(const NamedBytes out, runner_.run(std::move(graph), bytes));
    if (gradients != nullptr)
      for (const auto& [name, d] : out)
        if (name.starts_with("d ")) (*gradients)[name.substr(2)] = values_of<float>(d);
    double sum = 0;
    for (const float value : values_of<float>(out.at("losses"))) sum += value;
    return sum;
  }

 private:
  GraphRunner runner_;
  std::unique_ptr<ModelFiles> files_;
  std::unique_ptr<Model> model_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::map<const Tensor*, std::vector<float>> values_;
  std::vector<const Tensor*> parameters_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<RecurrentCache> states_;
};

// Steps are so short that the choice of experts does not change within one, which would be visible. (It does change for
// other tokens: from i * 7 a choice in layer 1 of llama-moe changes, and every slope before it is off by the same jump
// of the loss.)
void check_model(const std::string& path) {
  TrainedModel model;
  ASSERT_OK(model.open(path));
  std::map<std::string, std::vector<float>> gradients;
  ASSERT_OK(model.loss(&gradients));
  size_t n_seen = 0, n_checked = 0;
  const size_t every = testing::all_or_few<size_t>(1, 3);
  for (const Tensor* tensor : model.parameters()) {
    if (n_seen++ % every != 0) continue;
    if (!gradients.contains(tensor->name)) continue;
    const std::vector<float>& d = gradients.at(tensor->name);
    double square = 0;
    for (const float v : d) square += double{v} * v;
    const double length = std::sqrt(square);
    ASSERT_TRUE(std::isfinite(length)) << tensor->name;
    // The loss is a sum of 18 values of about 4, each correct to a relative 1e-7. That is 1 % of a difference of 0.001.
    if (length < 0.05) continue;
    const std::vector<float> values = model.values(tensor);
    const double step = std::min(1e-2, 3e-3 / length);
    double losses[2];
    for (const int side : {0, 1}) {
      std::vector<float> moved = values;
      for (size_t i = 0; i < moved.size(); ++i)
        moved[i] += static_cast<float>((side == 0 ? -step : step) / length * d[i]);
      ASSERT_OK(model.set(*tensor, moved));
      ASSERT_OK_AND_ASSIGN(losses[side], model.loss());
    }
    ASSERT_OK(model.set(*tensor, values));
    EXPECT_NEAR((losses[1] - losses[0]) / (2 * step), length, 0.02 * length) << tensor->name;
    ++n_checked;
  }
  EXPECT_GE(n_checked, model.parameters().size() / every / 2);
}

class ModelGradients : public ::testing::TestWithParam<const char*> {};

TEST_P(ModelGradients, AreSlopesOfTheLoss) { check_model(arch_model(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Files, ModelGradients,
                         ::testing::Values("llama-dense", "lfm2-dense", "mamba-dense", "mamba2-dense", "llama-moe",
                                           "qwen2moe-moe", "deepseek2-moe", "gpt-oss-moe"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase_if(name, [](char c) { return c == '-'; });
                           return name;
                         });

TEST(ModelGradientsOf, Rwkv7) {
  TinyModel m("rwkv7", 2);
  m.key("attention.head_count", 0);
  m.key("feed_forward_length", 30);
  m.key("wkv.head_size", 8);
  m.key("attention.decay_lora_rank", 5);
  m.key("attention.iclr_lora_rank", 4);
  m.key("attention.value_residual_mix_lora_rank", 3);
  m.key("attention.gate_lora_rank", 6);
  const auto layer_norm_weights = [&](const std::string& name) {
    m.norm(name, {kWidth});
    m.add(name + ".bias", {kWidth}, 0.3f);
  };
  layer_norm_weights("token_embd_norm");
  layer_norm_weights("output_norm");
  for (int64_t il = 0; il < 2; ++il) {
    const std::string blk = block(il), time = blk + "time_mix_";
    for (const char* name : {"attn_norm", "attn_norm_2", "time_mix_ln"}) layer_norm_weights(blk + name);
    m.add(time + "lerp_fused.weight", {kWidth, 1, 1, 6}, 0.5f, 0.5f);
    for (const char* name : {"receptance", "key", "value", "output"}) m.add(time + name + ".weight", {kWidth, kWidth});
    for (const auto& [which, rank] : {std::pair<const char*, int64_t>{"w", 5}, {"a", 4}, {"v", 3}, {"g", 6}}) {
      m.add(time + which + "1.weight", {kWidth, rank});
      m.add(time + which + "2.weight", {rank, kWidth});
      if (*which != 'g') m.add(time + which + "0.weight", {kWidth});
    }
    for (const char* name : {"k_k", "k_a", "r_k"}) m.add(time + name + ".weight", {kWidth}, 0.5f, 0.5f);
    m.add(blk + "channel_mix_lerp_k.weight", {kWidth}, 0.5f, 0.5f);
    m.add(blk + "channel_mix_key.weight", {kWidth, 30});
    m.add(blk + "channel_mix_value.weight", {30, kWidth});
  }
  check_model(m.write("tiny.gguf"));
}

// Delta nets with grouped heads, gated attention, experts beside a shared one.
TEST(ModelGradientsOf, Qwen3Next) {
  const AttentionRules rules{.n_rot = 4, .has_norms = true, .has_gate = true};
  constexpr int64_t kDim = 8, kKeyHeads = 2, kValueHeads = 4, kAll = kDim * (2 * kKeyHeads + kValueHeads);
  TinyModel m("qwen3next", 2);
  m.key("ssm.conv_kernel", 4);
  m.key("ssm.inner_size", kDim * kValueHeads);
  m.key("ssm.state_size", kDim);
  m.key("ssm.time_step_rank", kValueHeads);
  m.key("ssm.group_count", kKeyHeads);
  m.key("attention.head_count", rules.n_heads);
  m.key("attention.head_count_kv", rules.n_heads_kv);
  m.key("attention.key_length", rules.dim);
  m.key("attention.value_length", rules.dim);
  m.key("rope.dimension_count", rules.n_rot);
  m.key("full_attention_interval", 2);
  m.key("feed_forward_length", 20);
  m.key("expert_count", kExperts);
  m.key("expert_used_count", 2);
  m.key("expert_feed_forward_length", 10);
  m.key("expert_shared_feed_forward_length", 12);
  m.norm("output_norm", {kWidth});
  for (int64_t il = 0; il < 2; ++il) {
    const std::string blk = block(il);
    m.norm(blk + "attn_norm", {kWidth});
    m.norm(blk + "post_attention_norm", {kWidth});
    add_experts(m, blk, 10);
    add_ffn(m, blk, "_shexp", 12);
    m.add(blk + "ffn_gate_inp_shexp.weight", {kWidth}, 0.3f);
    if (il == 1) {
      add_attention(m, blk, rules);
      continue;
    }
    m.add(blk + "ssm_in.weight", {kWidth, kAll + kDim * kValueHeads});
    m.add(blk + "ssm_conv1d.weight", {4, kAll});
    m.add(blk + "ssm_dt.bias", {kValueHeads});
    m.add(blk + "ssm_a", {kValueHeads}, 0.9f, -1.0f);
    m.add(blk + "ssm_ba.weight", {kWidth, 2 * kValueHeads});
    m.norm(blk + "ssm_norm", {kDim});
    m.add(blk + "ssm_out.weight", {kDim * kValueHeads, kWidth});
  }
  check_model(m.write("tiny.gguf"));
}

}  // namespace
}  // namespace tessera
