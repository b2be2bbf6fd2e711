#include "tessera/nn/ffn.h"

namespace tessera::nn {

Value swiglu_ffn(GraphBuilder& b, Value x, const GatedFfn& ffn) {
  const Value gate = b.mul_mat(b.tensor(*ffn.gate.weight), x);
  const Value up = b.mul_mat(b.tensor(*ffn.up.weight), x);
  return linear(b, b.swiglu(finish_linear(b, gate, ffn.gate), finish_linear(b, up, ffn.up)), ffn.down);
}

}  // namespace tessera::nn
