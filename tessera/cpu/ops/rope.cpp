#include "tessera/graph/ops/rope.h"
#include "tessera/base/index.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/cpu/step.h"

namespace tessera::cpu {

namespace {

// Returns the angle of pair i per position. YaRN blends the stretched angle (interpolation) and the original angle
// (extrapolation) by a ramp that decreases from 1 at yarn_low to 0 at yarn_high.
double angle_per_position(const RopeTableParams& p, int64_t i, float factor) {
  const double base =
      std::pow(static_cast<double>(p.freq_base), -2.0 * static_cast<double>(i) / static_cast<double>(p.n_rot));
  const double original = base / factor;
  const double stretched = original * p.freq_scale;
  if (p.yarn_ext == 0) return stretched;
  const double span = std::max(0.001, static_cast<double>(p.yarn_high) - p.yarn_low);
  const double ramp = 1.0 - std::clamp((static_cast<double>(i) - p.yarn_low) / span, 0.0, 1.0);
  return stretched * (1.0 - p.yarn_ext * ramp) + original * p.yarn_ext * ramp;
}

void run_rope_table(const Step& step, Worker& worker) {
  const auto& params = std::get<RopeTableParams>(step.node->params);
  const auto* positions = step.in[0].row<const int32_t>(0);
  const float* factors = step.in[1].present() ? step.in[1].row(0) : nullptr;
  const Range share = worker.share(step.out.shape()[1]);
  if (share.empty()) return;
  for (int64_t i = 0; i < params.n_rot / 2; ++i) {
    const double angle = angle_per_position(params, i, factors == nullptr ? 1.0f : factors[i]);
    for (int64_t t = share.begin; t < share.end; ++t) {
      const double theta = angle * positions[t];
      float* pair = step.out.row(t) + 2 * i;
      pair[0] = static_cast<float>(std::cos(theta)) * params.magnitude;
      pair[1] = static_cast<float>(std::sin(theta)) * params.magnitude;
    }
  }
}

bool is_inverse(const Step& step) { return std::get<RopeParams>(step.node->params).inverse; }

// Bytes of a thread's scratch row: a row of the table with negated angles.
size_t inverse_row_bytes(const Step& step) {
  constexpr size_t kCacheLine = 64;
  return round_up(to_size(step.in[1].shape()[0]) * sizeof(float), kCacheLine);
}

size_t rope_work_bytes(const Kernels&, const Step& step) {
  return is_inverse(step) ? to_size(step.n_threads) * inverse_row_bytes(step) : 0;
}

void negate_sines(const float* cos_sin, int64_t n_rot, float* out) {
  for (int64_t i = 0; i < n_rot; i += 2) {
    out[i] = cos_sin[i];
    out[i + 1] = -cos_sin[i + 1];
  }
}

void run_rope(const Step& step, Worker& worker) {
  const auto pairs = std::get<RopeParams>(step.node->params).pairs;
  const auto rotate = pairs == RopePairs::adjacent ? worker.kernels.rope_adjacent : worker.kernels.rope_halves;
  const Shape& shape = step.out.shape();
  const int64_t n_rot = step.in[1].shape()[0];
  float* opposite = nullptr;
  if (is_inverse(step))
    opposite = reinterpret_cast<float*>(step.work + to_size(worker.thread.index) * inverse_row_bytes(step));
  int64_t negated = -1;  // the token whose angles are in `opposite`
  const Range share = worker.share(shape.n_rows());
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t head = i % shape[1], token = i / shape[1];
    const float* angles = step.in[1].row(token);
    if (opposite != nullptr && std::exchange(negated, token) != token) negate_sines(angles, n_rot, opposite);
    rotate(step.in[0].row(head, token), opposite != nullptr ? opposite : angles, n_rot, shape[0],
           step.out.row(head, token));
  }
}

// --- temperature: one value per token

void run_temperature(const Step& step, Worker& worker) {
  const auto& p = std::get<TemperatureParams>(step.node->params);
  const auto* positions = step.in[0].row<const int32_t>(0);
  const Range share = worker.share(step.in[0].shape()[0]);
  for (int64_t t = share.begin; t < share.end; ++t) {
    const auto n_steps = static_cast<double>((std::max(positions[t], 0) + p.offset) / p.length);
    *step.out.row(0, t) = static_cast<float>(1.0 + static_cast<double>(p.beta) * std::log1p(n_steps));
  }
}

}  // namespace

const OpKernel op_kernels::temperature{.run = run_temperature};
const OpKernel op_kernels::rope_table{.run = run_rope_table};
const OpKernel op_kernels::rope{.work_bytes = rope_work_bytes, .run = run_rope};

}  // namespace tessera::cpu
