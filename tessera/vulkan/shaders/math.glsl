// Functions whose built-in versions are too inaccurate or overflow. All propagate NaN. Drivers may compile a comparison
// and a choice to a minimum or maximum, which drops NaN, so functions that bound x look for NaN first.

float sigmoid_of(float x) { return 1.0 / (1.0 + exp(-x)); }
float silu_of(float x) { return x / (1.0 + exp(-x)); }

/// x / 2 * (1 + tanh(u)) is x * sigmoid(2 u). Below -20 the result is 0; the bound prevents an overflow of the square.
float gelu_of(float x) {
  if (isnan(x)) return x;
  const float bounded = max(x, -20.0);
  const float slope = fma(bounded * bounded, 7.1354816e-2, 1.5957691216);
  return bounded / (1.0 + exp(-bounded * slope));
}

/// Uses the series near 0, where 1 - 2 / (e^2x + 1) would cancel.
float tanh_of(float x) {
  const float magnitude = abs(x), square = x * x;
  if (magnitude < 0.25)
    return x * (1.0 +
                square * (-1.0 / 3.0 + square * (2.0 / 15.0 + square * (-17.0 / 315.0 + square * (62.0 / 2835.0)))));
  const float v = 1.0 - 2.0 / (exp(2.0 * magnitude) + 1.0);
  return x < 0.0 ? -v : v;
}

/// e^x - 1 for x <= 0, without cancellation near 0.
float expm1_of(float x) {
  const float t = tanh_of(0.5 * max(x, -30.0));
  return 2.0 * t / (1.0 - t);
}

/// ln(1 + u), 0 <= u <= 1: 2 artanh(z) with z = u / (2 + u) <= 1/3.
float log1p_of_unit(float u) {
  const float z = u / (2.0 + u), square = z * z;
  float p = 1.0 / 15.0;
  p = fma(p, square, 1.0 / 13.0);
  p = fma(p, square, 1.0 / 11.0);
  p = fma(p, square, 1.0 / 9.0);
  p = fma(p, square, 1.0 / 7.0);
  p = fma(p, square, 1.0 / 5.0);
  p = fma(p, square, 1.0 / 3.0);
  p = fma(p, square, 1.0);
  return 2.0 * z * p;
}
float softplus_of(float x) { return isnan(x) ? x : max(x, 0.0) + log1p_of_unit(exp(-abs(x))); }

/// Cosine and sine of an angle in units of 2^-32 turns. The quarter of the circle selects the formula, and polynomials
/// of the angle from the quarter's middle give the values (errors below 1e-7).
vec2 cos_sin_of(uint turns) {
  const uint quarter = turns + 0x20000000u >> 30u;
  const float angle = float(int(turns - (quarter << 30u))) * 1.4629180792671596e-9;  // 2 pi / 2^32
  const float square = angle * angle;
  const float s = angle * fma(square, fma(square, fma(square, fma(square, 2.7557319e-6, -1.9841270e-4), 8.3333333e-3),
                                          -1.6666667e-1), 1.0);
  const float c = fma(square, fma(square, fma(square, fma(square, 2.4801587e-5, -1.3888889e-3), 4.1666667e-2), -0.5),
                      1.0);
  if (quarter == 0u) return vec2(c, s);
  if (quarter == 1u) return vec2(-s, c);
  if (quarter == 2u) return vec2(-c, -s);
  return vec2(s, -c);
}
