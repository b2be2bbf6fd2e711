// llama4: Llama 4 (Scout, Maverick). Three of four layers have rope and, except in Maverick, norms of the rotated heads
// without weights. In the fourth, q grow with the logarithm of the position. Three of four layers, or as many as the
// file says, attend within chunks of the text, and the others to everything. Experts are chosen by their logits, and
// the sigmoid of the logit multiplies the input of the expert. A shared expert is added.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

constexpr int64_t kChunk = 8192;  // also the number of positions between steps of the factor of q
constexpr float kTemperature = 0.1f;
constexpr int64_t kExpertsMaverick = 128;

class Llama4 final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    window_ = kChunk;
    TESSERA_TRY(read_temperature(kChunk));
    if (!hp_.has("attention.temperature_scale")) temperature_.beta = kTemperature;
    temperature_.offset = 1;
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = Transformer::list_layer(il);
    nn::Attention& a = l.attention;
    a.params.chunked = a.params.window > 0;
    const bool has_rope = a.rope != nn::kNoRope;
    a.has_temperature = !has_rope;
    if (has_rope && n_experts_ != kExpertsMaverick) {
      a.q_norm = a.k_norm = {.is_weightless = true, .eps = eps_};
      a.norms_rotated = true;
    }
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    x = s.residual(x, s.attend(s.norm(x, l.attn_norm), l.attention));
    const Value n = s.norm(x, l.ffn_norm);
    return s.residual(x, l.shared_expert.down.weight == nullptr
                             ? nn::ffn(s.b, n, l.ffn)
                             : s.b.add(routed_experts(s.b, n, l.experts), nn::ffn(s.b, n, l.shared_expert)));
  }

 private:
  static Value routed_experts(GraphBuilder& b, Value x, const nn::Experts& e) {
    const Value logits = nn::linear(b, x, {.weight = e.router.weight, .bias = e.router.bias});
    const Value ids = b.top_k(logits, e.router.n_used);
    const ExpertRoutes routes = b.expert_routes(ids, e.router.n_experts);
    const Value weights = b.expert_weights(b.sigmoid(logits), ids, {});
    const Value ones = b.exp(b.scale(weights, 0.0f));
    return nn::experts(b, b.expert_spread(x, weights, routes), e, {routes, ones}, ExpertInput::routed);
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_llama4(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Llama4>(
      files, rope,
      {.architecture = "llama4",
       .rope = RopePart::whole,
       .no_rope_period = 4,
       .window = {.period = 4, .reads_period = true, .absent = kChunk},
       .mixture = {.layers = ExpertLayers::all, .shared = SharedWidth::own_or_expert, .step_key = KeyUse::required}});
}

}  // namespace tessera
