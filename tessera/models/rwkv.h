// The classes that RWKV 6 and RWKV 7 have in common: the base of both, and Qwen 2 with the time mixing of either.
#pragma once

#include "tessera/models/recurrent_model.h"

namespace tessera {

class RwkvModel : public RecurrentModel {
 public:
  using RecurrentModel::RecurrentModel;

 protected:
  void list_more() override { embd_norm_ = norm("token_embd_norm", {info_.n_embd}); }

  /// wkv.head_size. Errors: the key is missing or out of range; mismatch (the width is no multiple of it).
  Result<> read_head_dim() {
    TESSERA_ASSIGN(head_dim_, hp_.integer("wkv.head_size", 1, kMaxHeadDim));
    if (info_.n_embd % head_dim_ != 0)
      return fail(ErrorCode::mismatch, "{}: embedding_length {} and wkv.head_size {}: want a multiple", files_.name(),
                  info_.n_embd, head_dim_);
    return {};
  }

  int64_t head_dim_ = 0;
};

/// Qwen 2 with time mixing in place of attention: RMS norms, and Qwen's feed-forward block. Rwkv is a RwkvModel with
/// time_mixes_, time_mix(), which lists the weights of a layer, and mix_time(), which builds x + mixed x.
template <class Rwkv>
class QwenWithTimeMixing : public Rwkv {
 public:
  using Rwkv::Rwkv;

 protected:
  void list_more() override {}  // embeddings have no norm

  TransformerLayer list_layer(int64_t il) override {
    const int64_t n = this->info_.n_embd;
    this->time_mixes_.push_back(this->time_mix(il, this->add_state_layer({n, n * this->head_dim_})));
    this->time_mixes_.back().recurrence = 1;  // there is no state of channel mixing before it
    TransformerLayer l{.attn_norm = this->norm(il, "attn_norm"), .ffn_norm = this->norm(il, "ffn_norm")};
    this->add_ffn(l, il);
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    x = s.wanted(this->mix_time(s, x, l));
    return s.residual(x, s.ffn(s.norm(x, l.ffn_norm), l));
  }
};

}  // namespace tessera
