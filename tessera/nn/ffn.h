// Feed-forward blocks.
#pragma once

#include "tessera/nn/linear.h"

namespace tessera::nn {

/// What the gate, or without one the only product, goes through.
enum class Activation : uint8_t { silu, gelu, relu_squared, swiglu_oai };

/// down(act(gate x) * up x); without a gate down(act(up x)).
struct Ffn {
  Linear gate{};  // no weight: none, unless up has twice the rows that down takes:
  Linear up{};    // then its first half is the gate
  Linear down{};
  Activation activation = Activation::silu;
  const Tensor* divisor = nullptr;  // [n_ff] or null: the activation's outputs are divided by it
};

Value ffn(GraphBuilder& b, Value x, const Ffn& ffn);

/// act(gate) * up.
Value activate(GraphBuilder& b, Value gate, Value up, Activation activation);

/// The halves of each row of x [2 n, t], as views.
struct Halves {
  Value first, second;
};
Halves halves(GraphBuilder& b, Value x);

}  // namespace tessera::nn
