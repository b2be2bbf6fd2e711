#include "tessera/models/encoder.h"

#include <fmt/format.h>

namespace tessera {

namespace {

constexpr const char* kTypeCountKey = "tokenizer.ggml.token_type_count";
constexpr int64_t kMaxTokenTypes = 1 << 16;

}  // namespace

void Encoder::list_more() {
  auto n_types = files_.metadata().get<int64_t>(kTypeCountKey);
  if (!n_types) return weights_.fail_with(std::move(n_types).error().within(files_.name()));
  if (*n_types < 1 || *n_types > kMaxTokenTypes)
    return weights_.fail_with(Error(ErrorCode::limit, fmt::format("{}: key '{}': {}, want 1 to {}", files_.name(),
                                                                  kTypeCountKey, *n_types, kMaxTokenTypes)));
  token_types_ = weights_.need("token_types.weight", {info_.n_embd, *n_types}, Op::add);
  embd_norm_ = norm("token_embd_norm", {info_.n_embd});
}

TransformerLayer Encoder::list_layer(int64_t il) {
  return {.attn_post_norm = norm(il, "attn_output_norm"),
          .attention = attention(il),
          .ffn_post_norm = norm(il, "layer_output_norm")};
}

Value Encoder::layer(LayerBuilder& s, Value x, const TransformerLayer& l) const {
  x = s.norm(s.residual(x, s.attend(x, l.attention)), l.attn_post_norm);
  return s.norm(s.residual(x, s.ffn(x, l)), l.ffn_post_norm);
}

Value Encoder::embed(LayerBuilder& s) const {
  GraphBuilder& b = s.b;
  const Value types = nn::vector_f32(b, *token_types_);
  Layout first = b.spec(types).layout;
  first.shape[1] = 1;
  Value x = b.add(b.get_rows(b.tensor(*token_embd_), s.in.tokens), b.view(types, first, 0));
  if (position_embd_ != nullptr) x = b.add(x, b.get_rows(b.tensor(*position_embd_), s.in.positions));
  return s.norm(x, embd_norm_);
}

}  // namespace tessera
