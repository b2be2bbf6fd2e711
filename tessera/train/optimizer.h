// The update rules of a training step, as nodes of a graph: AdamW, SGD with momentum, and Muon.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tessera/graph/builder.h"

namespace tessera::train {

enum class OptimizerKind : uint8_t { adamw, sgd, muon };

/// "adamw", "sgd", "muon".
std::optional<OptimizerKind> optimizer_from_name(std::string_view name);
std::string_view to_string(OptimizerKind kind);

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float momentum = 0.95f;  // for sgd and muon
  float epsilon = 1e-8f;
  float weight_decay = 0.1f;  // for matrices; vectors (norms, biases) do not decay
};

/// How a parameter is updated. Muon applies `orthogonal` to the matrices of layers and `adam` to all other parameters.
enum class Rule : uint8_t { adam, momentum, orthogonal };

/// The tensors of a parameter that a step reads and writes; all are f32 except `rounded`.
struct ParameterTensors {
  const Tensor* weight = nullptr;   // the learned values in f32; read by the model's graph if `rounded` is null
  const Tensor* rounded = nullptr;  // bf16 copy of `weight` that the model's graph reads; may be null
  const Tensor* gradient = nullptr;
  const Tensor* moment1 = nullptr;
  const Tensor* moment2 = nullptr;  // only with Rule::adam
};

Rule rule_of(OptimizerKind kind, bool is_layer_matrix);
inline int n_moments(Rule rule) { return rule == Rule::adam ? 2 : 1; }

/// Returns the values for the input `hyper` of add_update() at step i >= 0. gradient_scale: factor applied to the
/// gradients first.
std::array<float, kHyperEntries> hyper_values(const OptimizerOptions& options, Rule rule, int64_t i,
                                              float learning_rate, float gradient_scale);

/// Adds the nodes that update a parameter. hyper [kHyperEntries]: the result of hyper_values() for its rule.
void add_update(GraphBuilder& b, const ParameterTensors& parameter, Rule rule, bool decays, Value hyper);

}  // namespace tessera::train
