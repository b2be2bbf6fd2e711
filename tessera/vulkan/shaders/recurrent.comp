#version 460
#extension GL_GOOGLE_include_directive : require
// Recurrent operations (graph/ops/recurrent.h defines the layout of segments and states). An invocation computes a
// channel, or a value of a head with its row of the state, for all tokens of a segment. Invocations share no data.
//   u[0]: workgroups per segment; u[1]: segments; u[2]: tokens; u[3]: invocations per segment
//   delta_net: u[4]: 1 if key heads are tiled; u[5]: the scale as bits
//   rwkv7: u[4]: 1 if outputs read the state before the token's own update
#include "step.glsl"

// Variants: RecurrentOp in ops/recurrent.cpp.
const uint kCausalConv = 0, kTokenShift = 1, kSelectiveScan = 2, kDeltaNet = 3;  // and rwkv7
const uint kFaultToken = 7, kFaultState = 8;
const uint kSegmentFields = 4;

uint state_operand() {
  return kVariant == kCausalConv ? 2u : kVariant == kTokenShift ? 1u : kVariant == kDeltaNet ? 5u : 6u;
}
Ints segments() { return Ints(step.x[state_operand() + 1u].data); }

struct Segment {
  uint begin, count;  // in the order of tokens
  bool has_before;
  Floats before, after;  // states to read and to write
};

bool is_index(uint what, int value, uint limit) {
  if (value >= 0 && uint(value) < limit) return true;
  report(what, value, limit);
  return false;
}

/// Reads segment i. The count is 0 if the segment is unused or, with a reported fault, out of range.
Segment segment_of(uint i) {
  Ints fields = segments();
  const int begin = fields.at[kSegmentFields * i], count = fields.at[kSegmentFields * i + 1u];
  const int read = fields.at[kSegmentFields * i + 2u], write = fields.at[kSegmentFields * i + 3u];
  const Operand state = step.x[state_operand()];
  const uint n_tokens = step.u[2], n_slots = state.ne[1];
  Segment segment;
  segment.count = 0u;
  if (count == 0) return segment;
  if (!is_index(kFaultToken, begin, n_tokens) || !is_index(kFaultToken, count, n_tokens + 1u) ||
      !is_index(kFaultToken, begin + count - 1, n_tokens) || !is_index(kFaultState, write, n_slots) ||
      (read != -1 && !is_index(kFaultState, read, n_slots)))
    return segment;
  for (int t = begin; t < begin + count; ++t)
    if (!is_index(kFaultToken, fields.at[kSegmentFields * step.u[1] + uint(t)], n_tokens)) return segment;
  segment.begin = uint(begin);
  segment.count = uint(count);
  segment.has_before = read != -1;
  segment.before = Floats(row_of(state, uint(max(read, 0)), 0u, 0u));
  segment.after = Floats(row_of(state, uint(write), 0u, 0u));
  return segment;
}
uint token_of(Segment segment, uint i) { return uint(segments().at[kSegmentFields * step.u[1] + segment.begin + i]); }

/// Returns element `at` of the state before token i of the segment.
float found(Segment segment, uint i, uint at) {
  if (i > 0u) return segment.after.at[at];
  return segment.has_before ? segment.before.at[at] : 0.0;
}

/// Returns the input of a channel at token i of the segment; for i < 0, the earlier input stored in the state.
float input_of(Segment segment, int i, uint channel, uint width) {
  if (i >= 0) return Floats(row_of(step.x[0], token_of(segment, uint(i)), 0u, 0u)).at[channel];
  return segment.has_before ? segment.before.at[(uint(i + int(width)) - 1u) * step.x[0].ne[0] + channel] : 0.0;
}

void causal_conv(Segment segment, uint channel) {
  const uint width = step.x[1].ne[0], n = step.x[0].ne[0];
  Floats weight = Floats(row_of(step.x[1], channel, 0u, 0u));
  for (uint i = 0; i < segment.count; ++i) {
    float sum = 0.0;
    for (uint tap = 0; tap < width; ++tap)
      sum = fma(weight.at[tap], input_of(segment, int(i + tap) - int(width - 1u), channel, width), sum);
    if (step.x[4].data != 0ul) sum += Floats(step.x[4].data).at[channel];
    Floats(row_of(step.y, token_of(segment, i), 0u, 0u)).at[channel] = sum;
  }
  // Oldest first: if both states are the same, each input is read before its memory is overwritten.
  for (uint row = 0; row + 1u < width; ++row)
    segment.after.at[row * n + channel] = input_of(segment, int(segment.count + row) - int(width - 1u), channel, width);
}

void token_shift(Segment segment, uint channel) {
  float last = segment.has_before ? segment.before.at[channel] : 0.0;
  for (uint i = 0; i < segment.count; ++i) {
    const uint token = token_of(segment, i);
    const float now = Floats(row_of(step.x[0], token, 0u, 0u)).at[channel];
    Floats(row_of(step.y, token, 0u, 0u)).at[channel] = last - now;
    last = now;
  }
  segment.after.at[channel] = last;
}

void selective_scan(Segment segment, uint item) {
  const uint dim = step.x[0].ne[0], head = item / dim, p = item % dim, n = step.x[3].ne[0];
  const uint group = head / (step.x[0].ne[1] / step.x[3].ne[1]);
  const bool is_per_head = step.x[2].ne[0] == 1u;
  Floats a = Floats(row_of(step.x[2], head, 0u, 0u));
  const float d = Floats(step.x[5].data).at[head];
  for (uint i = 0; i < segment.count; ++i) {
    const uint t = token_of(segment, i);
    const float x = Floats(row_of(step.x[0], head, t, 0u)).at[p], dt = Floats(row_of(step.x[1], t, 0u, 0u)).at[head];
    Floats b = Floats(row_of(step.x[3], group, t, 0u)), c = Floats(row_of(step.x[4], group, t, 0u));
    const float head_decay = is_per_head ? exp(dt * a.at[0]) : 0.0;
    float sum = 0.0;
    for (uint j = 0; j < n; ++j) {
      const float decay = is_per_head ? head_decay : exp(dt * a.at[j]);
      const float now = fma(decay, found(segment, i, item * n + j), dt * x * b.at[j]);
      segment.after.at[item * n + j] = now;
      sum = fma(now, c.at[j], sum);
    }
    Floats(row_of(step.y, head, t, 0u)).at[p] = sum + d * x;
  }
}

void delta_net(Segment segment, uint item) {
  const uint n = step.x[0].ne[0], v_dim = step.x[2].ne[0], head = item / v_dim, j = item % v_dim;
  const uint n_k = step.x[0].ne[1], k_head = step.u[4] != 0u ? head % n_k : head / (step.x[2].ne[1] / n_k);
  for (uint i = 0; i < segment.count; ++i) {
    const uint t = token_of(segment, i);
    Floats q = Floats(row_of(step.x[0], k_head, t, 0u)), k = Floats(row_of(step.x[1], k_head, t, 0u));
    const float decay = Floats(row_of(step.x[3], t, 0u, 0u)).at[head];
    const float beta = Floats(row_of(step.x[4], t, 0u, 0u)).at[head];
    float known = 0.0;
    for (uint e = 0; e < n; ++e) known = fma(decay * found(segment, i, item * n + e), k.at[e], known);
    const float delta = beta * (Floats(row_of(step.x[2], head, t, 0u)).at[j] - known);
    float sum = 0.0;
    for (uint e = 0; e < n; ++e) {
      const float now = fma(delta, k.at[e], decay * found(segment, i, item * n + e));
      segment.after.at[item * n + e] = now;
      sum = fma(now, q.at[e], sum);
    }
    Floats(row_of(step.y, head, t, 0u)).at[j] = sum * uintBitsToFloat(step.u[5]);
  }
}

void rwkv7(Segment segment, uint item) {
  const uint n = step.x[0].ne[0], head = item / n, j = item % n;
  for (uint i = 0; i < segment.count; ++i) {
    const uint t = token_of(segment, i);
    Floats r = Floats(row_of(step.x[0], head, t, 0u)), decay = Floats(row_of(step.x[1], head, t, 0u));
    Floats k = Floats(row_of(step.x[2], head, t, 0u)), a = Floats(row_of(step.x[4], head, t, 0u));
    Floats b = Floats(row_of(step.x[5], head, t, 0u));
    const float v = Floats(row_of(step.x[3], head, t, 0u)).at[j];
    float removed = 0.0;
    for (uint e = 0; e < n; ++e) removed = fma(found(segment, i, item * n + e), a.at[e], removed);
    float sum = 0.0;
    for (uint e = 0; e < n; ++e) {
      const float before = found(segment, i, item * n + e);
      const float now = fma(removed, b.at[e], fma(v, k.at[e], before * decay.at[e]));
      segment.after.at[item * n + e] = now;
      sum = fma(step.u[4] != 0u ? before : now, r.at[e], sum);
    }
    Floats(row_of(step.y, head, t, 0u)).at[j] = sum;
  }
}

void main() {
  const uint group = group_index();
  if (group >= step.n_groups) return;
  const uint item = group % step.u[0] * n_lanes() + lane();
  if (item >= step.u[3]) return;
  Segment segment = segment_of(group / step.u[0]);
  if (segment.count == 0u) return;
  switch (kVariant) {
    case kCausalConv:
      causal_conv(segment, item);
      break;
    case kTokenShift:
      token_shift(segment, item);
      break;
    case kSelectiveScan:
      selective_scan(segment, item);
      break;
    case kDeltaNet:
      delta_net(segment, item);
      break;
    default:
      rwkv7(segment, item);
  }
}
