#include "tessera/nn/ffn.h"

#include <limits>

#include "tessera/base/index.h"

namespace tessera::nn {

namespace {

Value relu(GraphBuilder& b, Value x) { return b.clamp(x, 0.0f, std::numeric_limits<float>::max()); }

Value hidden(GraphBuilder& b, Value x, const Ffn& ffn) {
  if (ffn.gate.weight != nullptr) {
    // The two products are consecutive, so that a backend packs or quantizes x once for both.
    const Value gate = b.mul_mat(b.tensor(*ffn.gate.weight), x);
    const Value up = b.mul_mat(b.tensor(*ffn.up.weight), x);
    return activate(b, finish_linear(b, gate, ffn.gate), finish_linear(b, up, ffn.up), ffn.activation, ffn.limit,
                    ffn.limits_gate_input);
  }
  const Value up = linear(b, x, ffn.up);
  if (ffn.activation == Activation::xielu) return b.xielu(up, ffn.xielu);
  if (ffn.up.weight->shape()[1] != 2 * ffn.down.weight->shape()[0]) return activate(b, up, ffn.activation);
  const auto [gate, multiplier] = halves(b, up);
  return activate(b, gate, multiplier, ffn.activation, ffn.limit, ffn.limits_gate_input);
}

}  // namespace

Value activate(GraphBuilder& b, Value x, Activation activation) {
  switch (activation) {
    case Activation::silu:
      return b.silu(x);
    case Activation::gelu:
      return b.gelu(x);
    case Activation::relu:
      return relu(b, x);
    case Activation::relu_squared:
      return b.relu_squared(x);
    case Activation::swiglu_oai:  // always has a gate
    case Activation::xielu:       // has parameters
      break;
  }
  b.fail_with(Error(ErrorCode::internal, "an activation that wants more than one operand"));
  return {};
}

Value activate(GraphBuilder& b, Value gate, Value up, Activation activation, float limit, bool limits_gate_input) {
  if (limit > 0.0f) {
    constexpr float kLowest = std::numeric_limits<float>::lowest();
    const Value bounded = b.clamp(up, -limit, limit);
    if (limits_gate_input) return activate(b, b.clamp(gate, kLowest, limit), bounded, activation);
    return b.mul(b.clamp(activate(b, gate, activation), kLowest, limit), bounded);
  }
  switch (activation) {
    case Activation::silu:
      return b.swiglu(gate, up);
    case Activation::gelu:
      return b.geglu(gate, up);
    case Activation::swiglu_oai:
      return b.swiglu_oai(gate, up);
    case Activation::relu:
    case Activation::relu_squared:
    case Activation::xielu:
      break;
  }
  return b.mul(activate(b, gate, activation), up);
}

Halves halves(GraphBuilder& b, Value x) {
  Layout layout = b.spec(x).layout;
  layout.shape[0] /= 2;
  return {b.view(x, layout, 0), b.view(x, layout, to_size(layout.shape[0] * layout.nb[0]))};
}

Value ffn(GraphBuilder& b, Value x, const Ffn& ffn) {
  Value h = hidden(b, x, ffn);
  if (ffn.divisor != nullptr) h = b.div(h, vector_f32(b, *ffn.divisor));
  return linear(b, h, ffn.down);
}

}  // namespace tessera::nn
