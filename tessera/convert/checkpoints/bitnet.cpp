// BitNet b1.58: checkpoints have weights of training. The models' code rounds them before each product, which is done
// here once.
#include <algorithm>
#include <cmath>

#include "tessera/base/index.h"
#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/source/to_floats.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kBitNetRules[] = {
    {"model.layers.{i}.self_attn.q_proj.weight", "blk.{i}.attn_q.weight", Change::ternary},
    {"model.layers.{i}.self_attn.k_proj.weight", "blk.{i}.attn_k.weight", Change::ternary},
    {"model.layers.{i}.self_attn.v_proj.weight", "blk.{i}.attn_v.weight", Change::ternary},
    {"model.layers.{i}.self_attn.o_proj.weight", "blk.{i}.attn_output.weight", Change::ternary},
    {"model.layers.{i}.mlp.gate_proj.weight", "blk.{i}.ffn_gate.weight", Change::ternary},
    {"model.layers.{i}.mlp.up_proj.weight", "blk.{i}.ffn_up.weight", Change::ternary},
    {"model.layers.{i}.mlp.down_proj.weight", "blk.{i}.ffn_down.weight", Change::ternary},
    {"model.layers.{i}.self_attn.inner_attn_ln.weight", "blk.{i}.attn_sub_norm.weight"},
    {"model.layers.{i}.mlp.ffn_layernorm.weight", "blk.{i}.ffn_sub_norm.weight"},
};

constexpr KeyRow kBitNetKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"rope.scaling.type", "", KeyType::text, otherwise_text("linear")},
    {"rope.scaling.factor", "", KeyType::f32, otherwise(1)},
};

// The mean of the absolute values of a matrix, which is read in pieces.
float mean_magnitude(const Checkpoint& checkpoint, const ConvertedTensor::Part& part) {
  constexpr int64_t kPiece = int64_t{1} << 18;
  const int64_t n = part.view.n_elements();
  const size_t width = element_bytes(part.view.type);
  std::vector<std::byte> bytes;
  std::vector<float> values;
  double sum = 0;
  for (int64_t at = 0; at < n; at += kPiece) {
    values.resize(to_size(std::min(kPiece, n - at)));
    bytes.resize(values.size() * width);
    checkpoint.read(part.view, part.file, at, bytes);
    checkpoint.forget(part.view, part.file, at, std::ssize(values));
    to_floats(part.view.type, bytes, values);
    for (const float value : values) sum += std::abs(double{value});
  }
  return static_cast<float>(sum / static_cast<double>(std::max<int64_t>(n, 1)));
}

Result<> finish_bitnet(ModelDraft& draft) {
  constexpr float kLeastScale = 1e-5f;
  for (ConvertedTensor& tensor : draft.tensors) {
    if (tensor.values != ValueChange::ternary) continue;
    for (ConvertedTensor::Part& part : tensor.parts) {
      part.factor = std::max(kLeastScale, mean_magnitude(draft.checkpoint, part));
      if (!std::isfinite(part.factor))
        return fail(ErrorCode::format, "{}: {} has values that are not finite", draft.checkpoint.folder(), tensor.name);
    }
  }
  return {};
}

constexpr ModelClass kBitNetClasses[] = {
    {.names = "BitnetForCausalLM",
     .architecture = "bitnet",
     .rules = kBitNetRules,
     .keys = kBitNetKeys,
     .is_head_tied = true,
     .scaling = RopeScaling::none,
     .finish = finish_bitnet},
};

}  // namespace

std::span<const ModelClass> bitnet_classes() { return kBitNetClasses; }

}  // namespace tessera::convert
