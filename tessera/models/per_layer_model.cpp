#include "tessera/models/per_layer_model.h"

#include <cmath>
#include <numbers>

#include "tessera/base/index.h"

namespace tessera {

void PerLayerModel::list_per_layer() {
  const int64_t n = n_per_layer_ * n_layers_;
  per_layer_embd_ = weights_.need("per_layer_token_embd.weight", {n, info_.n_vocab}, Op::get_rows);
  per_layer_proj_ = linear("per_layer_model_proj", info_.n_embd, n);
  per_layer_norm_ = norm("per_layer_proj_norm", {n_per_layer_});
}

PerLayerGate PerLayerModel::per_layer_gate(int64_t il) {
  return {.gate = linear(block(il, "inp_gate"), info_.n_embd, n_per_layer_),
          .out = linear(block(il, "proj"), n_per_layer_, info_.n_embd),
          .post_norm = norm(il, "post_norm")};
}

void PerLayerModel::embed_per_layer(LayerBuilder& s, Value x) const {
  GraphBuilder& b = s.b;
  const Shape shape{n_per_layer_, n_layers_, b.spec(x).shape()[1]};
  const Value rows =
      b.scale(b.get_rows(b.tensor(*per_layer_embd_), s.in.tokens), std::sqrt(static_cast<float>(n_per_layer_)));
  const Value projected = b.scale(nn::linear(b, x, per_layer_proj_), 1.0f / embedding_scale_);
  const Value normed = s.norm(b.reshape(projected, shape), per_layer_norm_);
  s.shared = b.scale(b.add(normed, b.reshape(rows, shape)), 1.0f / std::numbers::sqrt2_v<float>);
}

Value PerLayerModel::per_layer(LayerBuilder& s, Value x, const PerLayerGate& gate) const {
  GraphBuilder& b = s.b;
  const Layout all = b.spec(s.shared).layout;
  const Value mine =
      b.view(s.shared, {.shape = {n_per_layer_, all.shape[2]}, .nb = {all.nb[0], all.nb[2], all.nb[3], all.nb[3]}},
             to_size(s.layer * all.nb[1]));
  return s.norm(nn::linear(b, b.geglu(nn::linear(b, x, gate.gate), s.wanted(mine)), gate.out), gate.post_norm);
}

Value PerLayerModel::attend_shared(LayerBuilder& s, Value x, const nn::Attention& a) {
  GraphBuilder& b = s.b;
  const int64_t n_tokens = b.spec(x).shape()[1];
  const auto product = [&](const nn::Linear& w, int64_t dim, int64_t n_heads) {
    return b.reshape(nn::linear(b, x, w), {dim, n_heads, n_tokens});
  };
  nn::Heads heads;
  if (a.qkv.weight != nullptr || a.v.weight != nullptr) {
    heads = nn::project(b, x, a);
  } else {
    heads.q = nn::head_norm(b, product(a.q, a.k_dim, a.n_heads), a.q_norm);
    if (a.k.weight != nullptr) {
      heads.v = product(a.k, a.k_dim, a.n_heads_kv);
      heads.k = nn::head_norm(b, heads.v, a.k_norm);
    }
  }
  if (heads.v.present()) heads.v = b.rms_norm(heads.v, Value(), a.k_norm.eps);
  return nn::linear(b, s.wanted(nn::attend(b, nn::rotate(b, heads, a, s.ropes), a, s.in, s.cache)), a.out);
}

}  // namespace tessera
