// Trains low-rank adapters while the model's own weights, which may be quantized, stay fixed (Hu et al. 2021):
// W x + (alpha / rank) * up (down x).
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
  bool has_default_targets = true;  // targets absent from the model are skipped; if false they are an error
};

class Lora {
 public:
  /// Creates a pair of tensors for each matrix of the model with one of these names. The model outlives this. Errors:
  /// invalid_argument (rank, alpha); not_found (no matrix for a target, or for any of them).
  static Result<std::unique_ptr<Lora>> create(const Model& model, const LoraOptions& options);

  const AdapterTerms& terms() const { return terms_; }
  /// NAME.lora_a [n_in, rank] and NAME.lora_b [rank, n_out] alternately, in the order of the model's weights.
  std::deque<Tensor>& tensors() { return tensors_; }
  const LoraOptions& options() const { return options_; }

  /// Returns the initial values of one of tensors(). lora_a is uniform within 1 / sqrt(n_in). lora_b is 0, so the
  /// adapter does not change the model at first.
  static std::vector<float> initial_values(const Tensor& tensor, uint64_t seed);

 private:
  Lora() = default;
  LoraOptions options_;
  std::deque<Tensor> tensors_;
  AdapterTerms terms_;
};

}  // namespace tessera::train
