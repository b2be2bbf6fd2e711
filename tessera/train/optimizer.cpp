#include "tessera/train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "tessera/base/index.h"

namespace tessera::train {

namespace {

constexpr std::array<std::string_view, 3> kNames = {"adamw", "sgd", "muon"};

// Normalizes x and brings its singular values near 1 by five steps of a Newton-Schulz iteration with the coefficients
// of Jordan et al. 2024 ("Muon"). The final factor scales the entries to the magnitude of AdamW's (Liu et al. 2025).
Value orthogonalized(GraphBuilder& b, Value x) {
  constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f, kEpsilon = 1e-7f, kSize = 0.2f;
  constexpr int kSteps = 5;
  const Shape shape = b.spec(x).shape();
  const bool is_tall = shape[1] > shape[0];
  x = b.reshape(b.l2_norm(b.reshape(x, {shape.n_elements()}), kEpsilon), shape);
  if (is_tall) x = b.transpose(x);  // makes the Gram matrix the smaller of the two possible ones
  for (int i = 0; i < kSteps; ++i) {
    const Value gram = b.mul_mat(x, x);
    const Value polynomial = b.add(b.scale(gram, kB), b.scale(b.mul_mat(gram, gram), kC));
    x = b.add(b.scale(x, kA), b.mul_mat(b.transpose(x), polynomial));
  }
  if (is_tall) x = b.transpose(x);
  return b.scale(x, kSize * std::sqrt(static_cast<float>(std::max(shape[0], shape[1]))));
}

}  // namespace

std::optional<OptimizerKind> optimizer_from_name(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<OptimizerKind>(found - kNames.begin());
}

std::string_view to_string(OptimizerKind kind) { return kNames[to_size(kind)]; }

Rule rule_of(OptimizerKind kind, bool is_layer_matrix) {
  if (kind == OptimizerKind::sgd) return Rule::momentum;
  return kind == OptimizerKind::muon && is_layer_matrix ? Rule::orthogonal : Rule::adam;
}

std::array<float, kHyperEntries> hyper_values(const OptimizerOptions& options, Rule rule, int64_t i,
                                              float learning_rate, float gradient_scale) {
  std::array<float, kHyperEntries> values{};
  const auto set = [&](Hyper which, float value) { values[to_size(which)] = value; };
  const auto correction = [&](float beta) {
    return static_cast<float>(1 - std::pow(double{beta}, static_cast<double>(i + 1)));
  };
  set(Hyper::gradient_scale, gradient_scale);
  set(Hyper::learning_rate, learning_rate);
  set(Hyper::weight_decay, options.weight_decay);
  set(Hyper::beta1, rule == Rule::adam ? options.beta1 : options.momentum);
  set(Hyper::beta2, options.beta2);
  set(Hyper::epsilon, options.epsilon);
  set(Hyper::correction1, correction(options.beta1));
  set(Hyper::correction2, correction(options.beta2));
  return values;
}

void add_update(GraphBuilder& b, const ParameterTensors& parameter, Rule rule, bool decays, Value hyper) {
  const Value gradient = b.tensor(*parameter.gradient), moment1 = b.tensor(*parameter.moment1);
  Value direction;
  if (rule == Rule::adam) {
    direction = b.adam(moment1, b.tensor(*parameter.moment2), gradient, hyper);
  } else {
    direction = b.momentum(moment1, gradient, hyper);
    if (rule == Rule::orthogonal) direction = orthogonalized(b, direction);
  }
  const Value rounded = parameter.rounded == nullptr ? Value() : b.tensor(*parameter.rounded);
  b.descend(b.tensor(*parameter.weight), direction, hyper, rounded, {.decays = decays});
}

}  // namespace tessera::train
