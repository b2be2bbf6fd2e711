// Apertus: rows of q and k are in the order of GGUF, and the numbers of the activation xIELU become keys.
#include <algorithm>
#include <cmath>
#include <string>

#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kApertusRules[] = {
    {"model.layers.{i}.attention_layernorm.weight", "blk.{i}.attn_norm.weight"},
    {"model.layers.{i}.feedforward_layernorm.weight", "blk.{i}.ffn_norm.weight"},
    {"model.layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight"},
    // These become keys.
    {"model.layers.{i}.mlp.act_fn.alpha_p", "blk.{i}.xielu.alpha_p"},
    {"model.layers.{i}.mlp.act_fn.alpha_n", "blk.{i}.xielu.alpha_n"},
    {"model.layers.{i}.mlp.act_fn.beta", "blk.{i}.xielu.beta"},
    {"model.layers.{i}.mlp.act_fn.eps", "blk.{i}.xielu.eps"},
};

constexpr KeyRow kApertusKeys[] = {
    {"context_length", "*", KeyType::u32, otherwise(65536)},
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(12e6)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"rope.dimension_count", "=head_size"},
};

// Moves the numbers of xIELU from tensors to keys. Each key is a list with one number per layer. These keys do not
// begin with the name of the architecture.
Result<> finish_apertus(ModelDraft& draft) {
  TESSERA_ASSIGN(const int64_t n_layers, layers_of(draft.config));
  for (const std::string name : {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps"}) {
    std::vector<float> numbers;
    for (int64_t i = 0; i < n_layers; ++i) {
      const std::string full = "blk." + std::to_string(i) + "." + name;
      const auto found = std::ranges::find(draft.tensors, full, &ConvertedTensor::name);
      const std::vector<float> values =
          found == draft.tensors.end() ? std::vector<float>{} : stored_floats(draft.checkpoint, *found);
      if (values.size() != 1 || !std::isfinite(values[0]))
        return fail(ErrorCode::format, "{}: {} of layer {}: {} values, want one number", draft.checkpoint.folder(),
                    name, i, values.size());
      numbers.push_back(values[0]);
      draft.tensors.erase(found);
    }
    draft.builder.set_array(name, numbers);
  }
  return {};
}

constexpr ModelClass kApertusClasses[] = {
    {.names = "ApertusForCausalLM",
     .architecture = "apertus",
     .rules = kApertusRules,
     .keys = kApertusKeys,
     .finish = finish_apertus},
};

}  // namespace

std::span<const ModelClass> apertus_classes() { return kApertusClasses; }

}  // namespace tessera::convert
