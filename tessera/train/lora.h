// Low-rank adapters that are learned while the model's own weights stay as they are (Hu et al. 2021), quantized ones
// too: W x + (alpha / rank) * up (down x).
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "tessera/graph/adapters.h"
#include "tessera/models/model.h"

namespace tessera::train {

struct LoraOptions {
  int64_t rank = 8;
  float alpha = 16.0f;
  /// Names of matrices without "blk.N." and ".weight": "attn_q", "ffn_up", "output".
  std::vector<std::string> targets = {"attn_q",      "attn_k",   "attn_v", "attn_qkv",
                                      "attn_output", "ffn_gate", "ffn_up", "ffn_down"};
  bool has_default_targets = true;  // then those that the model does not have are no error
};

class Lora {
 public:
  /// Pairs for the model's matrices of these names. The model outlives this. Errors: invalid_argument (rank, alpha);
  /// not_found (a target, none at all).
  static Result<std::unique_ptr<Lora>> create(const Model& model, const LoraOptions& options);

  const AdapterTerms& terms() const { return terms_; }
  /// NAME.lora_a [n_in, rank] and NAME.lora_b [rank, n_out], in turn, in the order of the model's weights.
  std::deque<Tensor>& tensors() { return tensors_; }
  const LoraOptions& options() const { return options_; }

  /// First values of one of tensors(): of lora_a uniform within 1 / sqrt(n_in), of lora_b 0, so that the model begins
  /// as it is.
  static std::vector<float> initial_values(const Tensor& tensor, uint64_t seed);

 private:
  Lora() = default;
  LoraOptions options_;
  std::deque<Tensor> tensors_;
  AdapterTerms terms_;
};

}  // namespace tessera::train
