// The base class of the BERT family. The input is the sum of the embeddings of tokens, of token type 0 and, in some
// models, of positions, followed by a norm. Layers have norms after attention and after the feed-forward block. There
// is no final norm and no output layer.
#pragma once

#include "tessera/models/transformer.h"

namespace tessera {

class Encoder : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  /// Lists token_types and token_embd_norm. Architectures may list more weights.
  void list_more() override;
  /// Lists attention and norms. Architectures list the feed-forward block.
  TransformerLayer list_layer(int64_t il) override;
  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override;
  Value embed(LayerBuilder& s) const override;

 private:
  const Tensor* token_types_ = nullptr;  // [n_embd, n_types]
};

/// Layer norms, bidirectional attention, no output layer.
inline TransformerTraits encoder_traits(std::string_view architecture, RopePart rope) {
  return {.architecture = architecture,
          .norm = nn::NormKind::layer,
          .rope = rope,
          .pairs = RopePairs::halves,
          .output = OutputWeights::none,
          .output_norm = "",
          .is_causal = false};
}

}  // namespace tessera
