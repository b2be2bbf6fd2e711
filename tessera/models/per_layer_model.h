// The base class of Gemma 3n and Gemma 4. Layers may use K and V of an earlier layer. V is normed without a weight.
// Beside its embedding a token may have a vector for each layer, which the layer adds to its result through a gate.
#pragma once

#include "tessera/models/transformer.h"

namespace tessera {

/// out (gelu(gate x) * the token's vector for the layer), normed.
struct PerLayerGate {
  nn::Linear gate{}, out{};
  nn::Norm post_norm{};
};

class PerLayerModel : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  /// per_layer_token_embd, per_layer_model_proj and per_layer_proj_norm.
  void list_per_layer();
  /// inp_gate, proj and post_norm.
  PerLayerGate per_layer_gate(int64_t il);
  /// Sets s.shared to the vectors [n_per_layer_, n_layers, t] of the tokens, which have the embeddings x.
  void embed_per_layer(LayerBuilder& s, Value x) const;
  /// The addend of a layer for x [n_embd, t]. In the last layer x has only the tokens whose output is wanted.
  Value per_layer(LayerBuilder& s, Value x, const PerLayerGate& gate) const;

  /// Attention with its output projection. Without weights for K, they are in the cache already. Without weights for V,
  /// V is K before its norm and rotation.
  static Value attend_shared(LayerBuilder& s, Value x, const nn::Attention& a);

  int64_t n_per_layer_ = 0;  // elements of a token's vector for a layer; 0: none

 private:
  const Tensor* per_layer_embd_ = nullptr;
  nn::Linear per_layer_proj_;
  nn::Norm per_layer_norm_;
};

}  // namespace tessera
