// The tensors of a LoRA adapter in the form of the PEFT library, under the names and in the orders of GGUF.
#pragma once

#include <span>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/convert/adapter/lora_settings.h"
#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

struct LoraDraft {
  std::vector<ConvertedTensor> tensors{};  // NAME.lora_a and NAME.lora_b, alternately
  float alpha = 0;                         // the scale of each product times its rank
};

/// Converts pairs of matrices by the rules of the base model's class. What a rule does to a weight is done to the
/// product of the pair: other orders of its rows are those of one matrix, experts are stacked. A file has one alpha, so
/// pairs with another scale have it in the values of a matrix.
/// Errors: format (a matrix without its partner, names, shapes); unsupported (other tensors, no rule, weights that
/// adapters cannot change); mismatch (experts of different ranks, or some of them missing); limit (rank).
Result<LoraDraft> draft_lora(const Checkpoint& adapter, const LoraSettings& settings, const ModelClass& model_class,
                             const HubConfig& base);

}  // namespace tessera::convert
