// deci: Llama Nemotron. Layers differ in heads and widths. A layer without heads has no attention. One with query heads
// but no KV heads has a linear layer instead. One without a feed-forward block is skipped, with its attention.
#include "tessera/base/index.h"
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Deci final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  TransformerLayer list_layer(int64_t il) override {
    const auto i = to_size(il);
    linears_.emplace_back();
    TransformerLayer l;
    if (n_ff_.empty() || n_ff_[i] == 0) return l;
    if (n_heads_[i] > 0) l.attn_norm = norm(il, "attn_norm");
    if (n_heads_kv_[i] > 0)
      l.attention = attention(il);
    else if (n_heads_[i] > 0)
      linears_.back() = linear(block(il, "attn_output"), info_.n_embd, info_.n_embd, {.bias = false, .scale = false});
    l.ffn_norm = norm(il, "ffn_norm");
    add_ffn(l, il);
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    if (!l.ffn_norm.present()) return s.wanted(x);
    const nn::Linear& linear = linears_[to_size(s.layer)];
    if (l.attention.cache_layer >= 0)
      x = s.residual(x, s.attend(s.norm(x, l.attn_norm), l.attention));
    else if (linear.weight != nullptr)
      x = s.residual(x, nn::linear(s.b, s.wanted(s.norm(x, l.attn_norm)), linear));
    return s.residual(x, s.ffn(s.norm(s.wanted(x), l.ffn_norm), l));
  }

 private:
  std::vector<nn::Linear> linears_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_deci(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Deci>(files, rope, {.architecture = "deci", .rope = RopePart::whole, .min_heads_kv = 0});
}

}  // namespace tessera
