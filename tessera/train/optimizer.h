// What a step does to a parameter, as nodes of a graph: AdamW, SGD with momentum, and Muon.
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
  float momentum = 0.95f;  // of sgd and muon
  float epsilon = 1e-8f;
  float weight_decay = 0.1f;  // of matrices; vectors (norms, biases) do not decay
};

/// How a parameter is updated. With muon, matrices of layers are; all else follows AdamW.
enum class Rule : uint8_t { adam, momentum, orthogonal };

/// The tensors of a parameter that a step reads and writes; all f32 but `rounded`.
struct ParameterTensors {
  const Tensor* weight = nullptr;   // f32: what the graph reads, or what `rounded` is rounded from
  const Tensor* rounded = nullptr;  // bf16, what the graph reads then; else null
  const Tensor* gradient = nullptr;
  const Tensor* moment1 = nullptr;
  const Tensor* moment2 = nullptr;  // only with Rule::adam
};

Rule rule_of(OptimizerKind kind, bool is_layer_matrix);
inline int n_moments(Rule rule) { return rule == Rule::adam ? 2 : 1; }

/// The numbers of step 0 <= i: what the inputs of update() are filled with. gradient_scale: gradients are multiplied by
/// it first.
std::array<float, kHyperEntries> hyper_values(const OptimizerOptions& options, Rule rule, int64_t i,
                                              float learning_rate, float gradient_scale);

/// Adds the nodes that update a parameter; hyper [kHyperEntries] holds the numbers of its rule.
void add_update(GraphBuilder& b, const ParameterTensors& parameter, Rule rule, bool decays, Value hyper);

}  // namespace tessera::train
