// cogvlm: the language model of CogVLM, on text. attn_qkv has rows for as many KV heads as query heads, of which the
// first head_count_kv are used. Rope has base 10000 and no scaling whatever the file says, as in llama.cpp.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

constexpr float kRopeBase = 10000.0f;

class Cogvlm final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    nn::RopeConfig& config = info_.ropes[0].config;
    config = {.pairs = config.pairs, .n_rot = config.n_rot, .freq_base = kRopeBase};
    return {};
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_cogvlm(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Cogvlm>(files, rope,
                                    {.architecture = "cogvlm",
                                     .rope = RopePart::whole,
                                     .pairs = RopePairs::halves,
                                     .has_qkv_of_all_heads = true,
                                     .optional = {.qkv_scale = false, .rope_factors = false}});
}

}  // namespace tessera
