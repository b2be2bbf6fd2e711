// Feed-forward blocks.
#pragma once

#include "tessera/nn/linear.h"

namespace tessera::nn {

struct GatedFfn {
  Linear gate, up, down;
};

/// down(silu(gate x) * up x) (Shazeer 2020, SwiGLU).
Value swiglu_ffn(GraphBuilder& b, Value x, const GatedFfn& ffn);

}  // namespace tessera::nn
