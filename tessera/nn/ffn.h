// Feed-forward blocks.
#pragma once

#include "tessera/nn/linear.h"

namespace tessera::nn {

/// The activation of the gate, or of the only product if there is no gate.
enum class Activation : uint8_t { silu, gelu, relu, relu_squared, swiglu_oai, xielu };

/// down(act(gate x) * up x); without a gate, down(act(up x)).
struct Ffn {
  Linear gate{};  // may be absent. If up then has twice the rows of down's input,
  Linear up{};    // the first half of up is the gate
  Linear down{};
  Activation activation = Activation::silu;
  XieluParams xielu{};              // of that activation
  float limit = 0.0f;               // > 0: bound of act(gate) from above, and of up from both sides
  bool limits_gate_input = false;   // instead of act(gate), its input is bounded from above
  const Tensor* divisor = nullptr;  // [n_ff] or null: divides the activation's outputs
};

Value ffn(GraphBuilder& b, Value x, const Ffn& ffn);

Value activate(GraphBuilder& b, Value x, Activation activation);

/// act(gate) * up. limit > 0: min(act(gate), limit) * clamp(up, -limit, limit), or if it limits the gate's input,
/// act(min(gate, limit)) * clamp(up, -limit, limit).
Value activate(GraphBuilder& b, Value gate, Value up, Activation activation, float limit = 0.0f,
               bool limits_gate_input = false);

/// Views of the two halves of each row of x [2 n, t].
struct Halves {
  Value first, second;
};
Halves halves(GraphBuilder& b, Value x);

}  // namespace tessera::nn
