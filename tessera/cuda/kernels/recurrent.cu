// Recurrent operations (graph/ops/recurrent.h defines the layout of segments and states). A thread computes a channel,
// or a value of a head with its row of the state, for all tokens of a segment. Threads share no data.
//   u[0]: blocks per segment; u[1]: segments; u[2]: tokens; u[3]: threads per segment
//   delta_net: u[4]: 1 if key heads are tiled; u[5]: the scale as bits
#include "tessera/cuda/kernels/device.cuh"

namespace tessera::cuda {

namespace {

// Variants: RecurrentOp in gpu/ops/recurrent.cpp.
enum : uint32_t { kCausalConv, kTokenShift, kSelectiveScan, kDeltaNet };  // and rwkv7
constexpr uint32_t kSegmentFields = 4;

/// The operand with the states. The segments are the next one.
__device__ inline uint32_t state_operand(const Params& step) {
  switch (step.variant) {
    case kCausalConv:
      return 2;
    case kTokenShift:
      return 1;
    case kDeltaNet:
      return 5;
    default:
      return 6;
  }
}

struct Segment {
  uint32_t count;         // tokens; 0: nothing to do
  const int32_t* tokens;  // in their order
  const float* before;    // the state to read; null: zeros
  float* after;           // the state to write, which may be the same
};

__device__ inline bool is_index(const Params& step, uint32_t what, int32_t value, uint32_t limit) {
  if (value >= 0 && static_cast<uint32_t>(value) < limit) return true;
  report(step, what, value, limit);
  return false;
}

/// Reads segment i. The count is 0 if the segment is unused or, with a reported fault, out of range.
__device__ inline Segment segment_of(const Params& step, uint32_t i) {
  const Operand& state = step.x[state_operand(step)];
  const int32_t* segments = ints(step.x[state_operand(step) + 1].data);
  const int32_t* fields = segments + kSegmentFields * i;
  const int32_t begin = fields[0], count = fields[1], read = fields[2], write = fields[3];
  const uint32_t n_tokens = step.u[2], n_slots = state.ne[1];
  Segment segment = {0, segments + kSegmentFields * step.u[1] + begin, nullptr, nullptr};
  if (count == 0) return segment;
  if (!is_index(step, kFaultToken, begin, n_tokens) || !is_index(step, kFaultToken, count, n_tokens + 1) ||
      !is_index(step, kFaultToken, begin + count - 1, n_tokens) || !is_index(step, kFaultState, write, n_slots) ||
      (read != -1 && !is_index(step, kFaultState, read, n_slots)))
    return segment;
  for (int32_t t = 0; t < count; ++t)
    if (!is_index(step, kFaultToken, segment.tokens[t], n_tokens)) return segment;
  segment.count = static_cast<uint32_t>(count);
  if (read != -1) segment.before = floats(row_of(state, static_cast<uint32_t>(read), 0, 0));
  segment.after = floats(row_of(state, static_cast<uint32_t>(write), 0, 0));
  return segment;
}
__device__ inline uint32_t token_of(const Segment& segment, uint32_t i) {
  return static_cast<uint32_t>(segment.tokens[i]);
}

/// Returns element `at` of the state before token i of the segment.
__device__ inline float found(const Segment& segment, uint32_t i, uint32_t at) {
  if (i > 0) return segment.after[at];
  return segment.before != nullptr ? segment.before[at] : 0.0f;
}

/// Rows of an operand of heads, and elements of one without.
__device__ inline const float* head_row(const Operand& o, uint32_t head, uint32_t token) {
  return floats(row_of(o, head, token, 0));
}
__device__ inline float element_of(const Operand& o, uint32_t i, uint32_t token) {
  return floats(row_of(o, token, 0, 0))[i];
}

/// Returns the input of a channel `back` tokens before token i of the segment. The state has the inputs of the
/// width - 1 tokens before the segment, oldest first.
__device__ inline float input_of(const Params& step, const Segment& segment, uint32_t i, uint32_t back,
                                 uint32_t channel) {
  if (i >= back) return element_of(step.x[0], channel, token_of(segment, i - back));
  const uint32_t n_stored = step.x[1].ne[0] - 1;
  return segment.before != nullptr ? segment.before[(n_stored + i - back) * step.x[0].ne[0] + channel] : 0.0f;
}

__device__ inline void causal_conv(const Params& step, const Segment& segment, uint32_t channel) {
  const uint32_t width = step.x[1].ne[0], n = step.x[0].ne[0];
  const float* weight = floats(row_of(step.x[1], channel, 0, 0));
  for (uint32_t i = 0; i < segment.count; ++i) {
    float sum = 0;
    for (uint32_t tap = 0; tap < width; ++tap)
      sum = fmaf(weight[tap], input_of(step, segment, i, width - 1 - tap, channel), sum);
    if (step.x[4].data != 0) sum += floats(step.x[4].data)[channel];
    floats(row_of(step.y, token_of(segment, i), 0, 0))[channel] = sum;
  }
  // Oldest first: if both states are the same, each input is read before its memory is overwritten.
  for (uint32_t row = 0; row + 1 < width; ++row)
    segment.after[row * n + channel] = input_of(step, segment, segment.count + row, width - 1, channel);
}

__device__ inline void token_shift(const Params& step, const Segment& segment, uint32_t channel) {
  float last = found(segment, 0, channel);
  for (uint32_t i = 0; i < segment.count; ++i) {
    const uint32_t token = token_of(segment, i);
    const float now = element_of(step.x[0], channel, token);
    floats(row_of(step.y, token, 0, 0))[channel] = last - now;
    last = now;
  }
  segment.after[channel] = last;
}

__device__ inline void selective_scan(const Params& step, const Segment& segment, uint32_t item) {
  const uint32_t dim = step.x[0].ne[0], head = item / dim, p = item % dim, n = step.x[3].ne[0];
  const uint32_t group = head / (step.x[0].ne[1] / step.x[3].ne[1]);
  const bool is_per_head = step.x[2].ne[0] == 1;
  const float* a = floats(row_of(step.x[2], head, 0, 0));
  const float d = floats(step.x[5].data)[head];
  for (uint32_t i = 0; i < segment.count; ++i) {
    const uint32_t t = token_of(segment, i);
    const float x = head_row(step.x[0], head, t)[p], dt = element_of(step.x[1], head, t);
    const float *b = head_row(step.x[3], group, t), *c = head_row(step.x[4], group, t);
    const float head_decay = is_per_head ? expf(dt * a[0]) : 0.0f;
    float sum = 0;
    for (uint32_t j = 0; j < n; ++j) {
      const float decay = is_per_head ? head_decay : expf(dt * a[j]);
      const float now = fmaf(decay, found(segment, i, item * n + j), dt * x * b[j]);
      segment.after[item * n + j] = now;
      sum = fmaf(now, c[j], sum);
    }
    floats(row_of(step.y, head, t, 0))[p] = sum + d * x;
  }
}

__device__ inline void delta_net(const Params& step, const Segment& segment, uint32_t item) {
  const uint32_t n = step.x[0].ne[0], v_dim = step.x[2].ne[0], head = item / v_dim, j = item % v_dim;
  const uint32_t n_k = step.x[0].ne[1], k_head = step.u[4] != 0 ? head % n_k : head / (step.x[2].ne[1] / n_k);
  for (uint32_t i = 0; i < segment.count; ++i) {
    const uint32_t t = token_of(segment, i);
    const float *q = head_row(step.x[0], k_head, t), *k = head_row(step.x[1], k_head, t);
    const float decay = element_of(step.x[3], head, t), beta = element_of(step.x[4], head, t);
    float known = 0;
    for (uint32_t e = 0; e < n; ++e) known = fmaf(decay * found(segment, i, item * n + e), k[e], known);
    const float delta = beta * (head_row(step.x[2], head, t)[j] - known);
    float sum = 0;
    for (uint32_t e = 0; e < n; ++e) {
      const float now = fmaf(delta, k[e], decay * found(segment, i, item * n + e));
      segment.after[item * n + e] = now;
      sum = fmaf(now, q[e], sum);
    }
    floats(row_of(step.y, head, t, 0))[j] = sum * float_of(step.u[5]);
  }
}

__device__ inline void rwkv7(const Params& step, const Segment& segment, uint32_t item) {
  const uint32_t n = step.x[0].ne[0], head = item / n, j = item % n;
  for (uint32_t i = 0; i < segment.count; ++i) {
    const uint32_t t = token_of(segment, i);
    const float *r = head_row(step.x[0], head, t), *decay = head_row(step.x[1], head, t);
    const float *k = head_row(step.x[2], head, t), *a = head_row(step.x[4], head, t);
    const float* b = head_row(step.x[5], head, t);
    const float v = head_row(step.x[3], head, t)[j];
    float removed = 0;
    for (uint32_t e = 0; e < n; ++e) removed = fmaf(found(segment, i, item * n + e), a[e], removed);
    float sum = 0;
    for (uint32_t e = 0; e < n; ++e) {
      const float before = found(segment, i, item * n + e);
      const float now = fmaf(removed, b[e], fmaf(v, k[e], before * decay[e]));
      segment.after[item * n + e] = now;
      sum = fmaf(step.u[4] != 0 ? before : now, r[e], sum);
    }
    floats(row_of(step.y, head, t, 0))[j] = sum;
  }
}

}  // namespace

TESSERA_KERNEL(recurrent, 128) {
  allow_next();
  wait_for_previous();
  if (group_of(step) >= step.n_groups) return;
  const uint32_t item = group_of(step) % step.u[0] * n_lanes() + lane();
  if (item >= step.u[3]) return;
  const Segment segment = segment_of(step, group_of(step) / step.u[0]);
  if (segment.count == 0) return;
  switch (step.variant) {
    case kCausalConv:
      return causal_conv(step, segment, item);
    case kTokenShift:
      return token_shift(step, segment, item);
    case kSelectiveScan:
      return selective_scan(step, segment, item);
    case kDeltaNet:
      return delta_net(step, segment, item);
    default:
      return rwkv7(step, segment, item);
  }
}

}  // namespace tessera::cuda
