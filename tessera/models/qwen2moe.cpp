// qwen2moe: Qwen 1.5 and 2 with experts. Like qwen2; routing weights are a softmax over all experts, not normalized
// over the chosen ones. A shared expert is added through a scalar gate.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Qwen2Moe final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_TRY(require_experts());
    TESSERA_ASSIGN(n_ff_shared_, hp_.integer_or("expert_shared_feed_forward_length", 0, 0, kMaxWidth));
    TESSERA_ASSIGN(n_ff_experts_, n_ff_experts(n_ff_.empty() ? 0 : n_ff_[0] / n_experts_used_));
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    return {
        .attn_norm = norm(il, "attn_norm"),
        .attention = attention(il),
        .ffn_norm = norm(il, "ffn_norm"),
        .experts = experts(il, n_ff_experts_, {.gating = nn::Gating::softmax, .normalize = false}),
        .shared_expert = shared_expert(il, n_ff_shared_ > 0 ? n_ff_shared_ : n_ff(il)),
        .shared_gate = {.weight = weights_.need(block(il, "ffn_gate_inp_shexp.weight"), {info_.n_embd}, Op::mul_mat)}};
  }

 private:
  int64_t n_ff_experts_ = 0;
  int64_t n_ff_shared_ = 0;  // 0: size of the dense block
};

}  // namespace

Result<std::unique_ptr<Model>> create_qwen2moe(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Qwen2Moe>(
      files, rope, {.architecture = "qwen2moe", .pairs = RopePairs::halves, .output = OutputWeights::own});
}

}  // namespace tessera
