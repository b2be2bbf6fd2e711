// chameleon: Chameleon (Meta 2024). Like llama with layer norms of q and k, whose weights each head has for itself. In
// some models the norms are after attention and the feed-forward block, not before. Tokens of images are never chosen.
#include <algorithm>
#include <limits>
#include <utility>

#include "tessera/models/transformer.h"

namespace tessera {

namespace {

constexpr float kHeadNormEps = 1e-5f;  // no key has it
constexpr int64_t kFirstImageToken = 4, kEndOfImageTokens = 8196;

class Chameleon final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(has_post_norms_, hp_.flag_or("swin_norm", false));
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = Transformer::list_layer(il);
    for (nn::Norm* n : {&l.attention.q_norm, &l.attention.k_norm}) {
      n->kind = nn::NormKind::layer;
      n->eps = kHeadNormEps;
    }
    if (has_post_norms_) {
      l.attn_post_norm = std::exchange(l.attn_norm, {});
      l.ffn_post_norm = std::exchange(l.ffn_norm, {});
    }
    return l;
  }

  Value masked_logits(GraphBuilder& b, Value x) const override {
    constexpr float kLowest = std::numeric_limits<float>::lowest();
    const int64_t n = info_.n_vocab, end = std::min(n, kEndOfImageTokens);
    if (n <= kFirstImageToken || !x.present()) return x;
    const auto part = [&](int64_t first, int64_t last) {
      Layout layout = b.spec(x).layout;
      layout.shape[0] = last - first;
      return b.view(x, layout, static_cast<size_t>(first * layout.nb[0]));
    };
    const Value masked = b.clamp(part(kFirstImageToken, end), kLowest, kLowest);
    const Value y = b.concat(part(0, kFirstImageToken), masked);
    return end == n ? y : b.concat(y, part(end, n));
  }

 private:
  bool has_post_norms_ = false;
};

}  // namespace

Result<std::unique_ptr<Model>> create_chameleon(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Chameleon>(
      files, rope, {.architecture = "chameleon", .qk_norms = QkNorms::each_head, .rope = RopePart::whole});
}

}  // namespace tessera
