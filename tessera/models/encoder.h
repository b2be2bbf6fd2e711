// What the BERT family has in common: embeddings of tokens, of token type 0 and, in some, of positions, with a norm;
// layers that are normed after attention and after the feed-forward block; no final norm and no output layer.
#pragma once

#include "tessera/models/decoder.h"

namespace tessera {

class Encoder : public Decoder {
 public:
  using Decoder::Decoder;

 protected:
  /// token_types and token_embd_norm; an architecture may add to them.
  void list_more() override;
  /// Attention and the norms; the feed-forward block is the architecture's.
  DecoderLayer list_layer(int64_t il) override;
  Value layer(DecoderStep& s, Value x, const DecoderLayer& l) const override;
  Value embed(DecoderStep& s) const override;

 private:
  const Tensor* token_types_ = nullptr;  // [n_embd, n_types]
};

/// Layer norms, all-to-all attention, no output layer.
inline DecoderTraits encoder_traits(std::string_view architecture, RopePart rope) {
  return {.architecture = architecture,
          .norm = nn::NormKind::layer,
          .rope = rope,
          .pairs = RopePairs::halves,
          .output = OutputWeights::none,
          .output_norm = "",
          .is_causal = false};
}

}  // namespace tessera
