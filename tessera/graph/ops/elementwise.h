// Element-wise operations on one or two f32 operands.
#pragma once

#include "tessera/graph/params.h"
#include "tessera/graph/value.h"

namespace tessera {

struct ScaleParams {
  float factor = 1.0f;
  void list(ParamList& params) const { params.number("factor", factor); }
};

struct SoftCapParams {
  float cap = 1.0f;
  void list(ParamList& params) const { params.number("cap", cap); }
};

struct ClampParams {
  float min = 0.0f;
  float max = 0.0f;
  void list(ParamList& params) const {
    params.number("min", min);
    params.number("max", max);
  }
};

struct XieluParams {
  float square = 0.0f;       // factor of x^2 for x > 0
  float exponential = 0.0f;  // factor of e^x - 1 - x for x <= 0
  float linear = 0.0f;       // factor of x
  float bound = 0.0f;        // of x in e^x, from above; at most 0
  void list(ParamList& params) const {
    params.number("square", square);
    params.number("exponential", exponential);
    params.number("linear", linear);
    params.number("bound", bound);
  }
};

/// The part of GraphBuilder that adds element-wise operations.
class ElementwiseOps {
 public:
  /// a + b, a * b, a / b. b is repeated along dimensions in which its extent is 1 (add, div: except the innermost).
  Value add(Value a, Value b);
  Value mul(Value a, Value b);
  Value div(Value a, Value b);
  /// x * factor
  Value scale(Value x, float factor);
  /// x * sigmoid(x)
  Value silu(Value x);
  /// 1 / (1 + exp(-x))
  Value sigmoid(Value x);
  /// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) (Hendrycks and Gimpel 2016)
  Value gelu(Value x);
  /// max(x, 0)^2 (So et al. 2021)
  Value relu_squared(Value x);
  /// cap * tanh(x / cap)
  Value soft_cap(Value x, float cap);
  /// x, or the nearest bound if x is out of range. NaN stays NaN.
  Value clamp(Value x, float min, float max);
  Value sqrt(Value x);
  /// ln(1 + e^x)
  Value softplus(Value x);
  /// e^x
  Value exp(Value x);
  /// linear x + square x^2 for x > 0, linear x + exponential (e^min(x, bound) - 1 - x) else (Huang and Schlag 2024)
  Value xielu(Value x, const XieluParams& params);
  /// silu(gate) * up, gelu(gate) * up (Shazeer 2020)
  Value swiglu(Value gate, Value up);
  Value geglu(Value gate, Value up);
  /// g * sigmoid(1.702 g) * (u + 1), g = min(gate, 7), u = up within -7 to 7 (gpt-oss)
  Value swiglu_oai(Value gate, Value up);
  /// dy times the derivative at x of silu, gelu, clamp.
  Value silu_grad(Value x, Value dy);
  Value gelu_grad(Value x, Value dy);
  Value clamp_grad(Value x, Value dy, float min, float max);
};

}  // namespace tessera
