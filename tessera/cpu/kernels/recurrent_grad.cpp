// Gradients of recurrent layers. They need the state before and after each token, from the last token to the first.
// Only the states at the starts of segments of about sqrt(n_tokens) tokens are kept. The states within a segment are
// recomputed when the backward pass reaches it.
#include "tessera/cpu/kernels/recurrent_grad.h"

#include <string.h>

#include "tessera/cpu/kernels/simd.h"
#include "tessera/cpu/kernels/table.h"
#include "tessera/cpu/kernels/vector_loops.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

inline void accumulate(F32x16 a, F32x16 b, float* p, int count) {
  store_up_to(fma(a, b, load_up_to(p, count)), p, count);
}

/// The number of rows of a state that are processed together, column by column, so that sums over them stay in
/// registers.
template <int64_t n>
struct RowCount {
  static constexpr int64_t value = n;
};

/// Calls block(first, RowCount) for all n_values rows of a state.
template <class Block>
inline void for_rows(int64_t n_values, Block block) {
  constexpr int64_t kRows = 8;
  int64_t first = 0;
  for (; first + kRows <= n_values; first += kRows) block(first, RowCount<kRows>{});
  for (; first < n_values; ++first) block(first, RowCount<1>{});
}

/// Returns the smallest integer r with r^2 >= n_tokens: segments of r tokens give at most r segments.
int64_t segment_of(int64_t n_tokens) {
  int64_t root = 1;
  while (root * root < n_tokens) ++root;
  return root;
}

// The scratch memory: the state at the start of each segment; the states before and after each token of one segment;
// the gradient of the state; the notes that forward() stores for backward(), which are n and n_values floats per token
// of a segment; two rows of n floats shared by all tokens.
struct Scratch {
  Scratch(float* scratch, int64_t n_tokens, int64_t n, int64_t n_values)
      : segment(segment_of(n_tokens)),
        starts(scratch),
        states(starts + segment * n * n_values),
        gradient(states + (segment + 1) * n * n_values),
        row_notes(gradient + n * n_values),
        value_notes(row_notes + segment * n),
        rows(value_notes + segment * n_values) {}

  int64_t segment;
  float *starts, *states, *gradient, *row_notes, *value_notes, *rows;
};

/// Runs forward() over all tokens, then backward() from the last token to the first.
/// forward(i, at, from, to) computes the state `to` after token i, which is token `at` of its segment, from the state
/// `from` before it. Both may share memory. backward(i, at, from, to, gradient) gets in `gradient` the gradient of the
/// state `to` from the tokens after i, initially zero, and replaces it by the gradient of `from`.
template <class Forward, class Backward>
void through_time(int64_t n_tokens, int64_t size, const float* before, const Scratch& s, Forward forward,
                  Backward backward) {
  const size_t bytes = static_cast<size_t>(size) * sizeof(float);
  const int64_t n_segments = (n_tokens + s.segment - 1) / s.segment;
  if (before == nullptr) {
    memset(s.starts, 0, bytes);
  } else {
    memcpy(s.starts, before, bytes);
  }
  for (int64_t segment = 1; segment < n_segments; ++segment) {
    float* state = s.starts + segment * size;
    memcpy(state, state - size, bytes);
    for (int64_t at = 0; at < s.segment; ++at) forward((segment - 1) * s.segment + at, at, state, state);
  }
  memset(s.gradient, 0, bytes);
  for (int64_t segment = n_segments - 1; segment >= 0; --segment) {
    const int64_t begin = segment * s.segment;
    const int64_t count = n_tokens - begin < s.segment ? n_tokens - begin : s.segment;
    memcpy(s.states, s.starts + segment * size, bytes);
    for (int64_t at = 0; at < count; ++at) forward(begin + at, at, s.states + at * size, s.states + (at + 1) * size);
    for (int64_t at = count - 1; at >= 0; --at)
      backward(begin + at, at, s.states + at * size, s.states + (at + 1) * size, s.gradient);
  }
}

}  // namespace

size_t recurrent_scratch_floats(int64_t n_tokens, int64_t n, int64_t n_values) {
  const int64_t segment = segment_of(n_tokens);
  return static_cast<size_t>((2 * segment + 2) * n * n_values + segment * (n + n_values) + 2 * n);
}

void causal_conv_grad(const ConvGradTask& task) {
  const int64_t n_before = task.width - 1;
  float weights[kConvWidth][kConvChannels];
  const float zeros[kConvChannels] = {};
  for (int64_t tap = 0; tap < task.width; ++tap)
    for (int64_t c = 0; c < task.n_channels; ++c) weights[tap][c] = task.weight[c * task.width + tap];
  const auto input = [&](int64_t i) {
    if (i >= 0) return task.x + task.tokens[i] * task.x_stride;
    return task.before == nullptr ? zeros : task.before + (i + n_before) * task.state_stride;
  };
  for (int64_t i = 0; i < task.n_tokens; ++i) {
    // The token's own output reads x[i] with the last tap, the next token's output with the tap before, and so on.
    const int64_t n_readers = task.n_tokens - i < task.width ? task.n_tokens - i : task.width;
    float* d_x = task.d_x + task.tokens[i] * task.d_x_stride;
    for_vectors(task.n_channels, [&](int64_t c, int count) {
      F32x16 sum = F32x16::zero();
      for (int64_t later = 0; later < n_readers; ++later)
        sum = fma(load_up_to(weights[n_before - later] + c, count),
                  load_up_to(task.dy + task.tokens[i + later] * task.dy_stride + c, count), sum);
      store_up_to(sum, d_x + c, count);
    });
    const float* dy = task.dy + task.tokens[i] * task.dy_stride;
    for (int64_t tap = 0; tap < task.width; ++tap) {
      const float* x = input(i - n_before + tap);
      float* d_weight = task.d_weight + tap * kConvChannels;
      for_vectors(task.n_channels, [=](int64_t c, int count) {
        accumulate(load_up_to(x + c, count), load_up_to(dy + c, count), d_weight + c, count);
      });
    }
  }
}

void selective_scan_grad(const ScanGradTask& task) {
  const int64_t n = task.n_state;
  const Scratch s(task.scratch, task.n_tokens, n, task.n_values);
  float *d_a = s.rows, *d_decay = s.rows + n;
  memset(d_a, 0, static_cast<size_t>(n) * sizeof(float));
  const auto a = [&](int64_t e, int count) {
    return task.a_is_one ? F32x16::broadcast(*task.a) : load_up_to(task.a + e, count);
  };
  const auto forward = [&](int64_t i, int64_t at, const float* from, float* to) {
    const int64_t t = task.tokens[i];
    const float *b = task.b + t * task.b_stride, *x = task.x + t * task.x_stride;
    const float dt = task.dt[t * task.dt_stride];
    float* decay = s.row_notes + at * n;
    const F32x16 step = F32x16::broadcast(dt);
    if (task.a_is_one) {
      const F32x16 factor = exp(mul(step, F32x16::broadcast(*task.a)));
      for_vectors(n, [=](int64_t e, int count) { store_up_to(factor, decay + e, count); });
    } else {
      for_vectors(n, [=](int64_t e, int count) { store_up_to(exp(mul(step, a(e, count))), decay + e, count); });
    }
    for (int64_t p = 0; p < task.n_values; ++p) {
      const F32x16 input = F32x16::broadcast(dt * x[p]);
      for_vectors(n, [=](int64_t e, int count) {
        const F32x16 old = load_up_to(from + p * n + e, count);
        store_up_to(fma(load_up_to(decay + e, count), old, mul(input, load_up_to(b + e, count))), to + p * n + e,
                    count);
      });
    }
  };
  float d_d = 0;
  const auto backward = [&](int64_t i, int64_t at, const float* from, const float* to, float* gradient) {
    const int64_t t = task.tokens[i];
    const float *b = task.b + t * task.b_stride, *c = task.c + t * task.c_stride;
    const float *x = task.x + t * task.x_stride, *dy = task.dy + t * task.dy_stride;
    const float* decay = s.row_notes + at * n;
    float *d_x = task.d_x + t * task.d_x_stride, *d_b = task.d_b + t * task.d_bc_stride,
          *d_c = task.d_c + t * task.d_bc_stride;
    const float dt = task.dt[t * task.dt_stride];
    float d_dt = 0;
    memset(d_decay, 0, static_cast<size_t>(n) * sizeof(float));
    for_rows(task.n_values, [&]<class Rows>(int64_t first, Rows) {
      constexpr int64_t n_rows = Rows::value;
      F32x16 sums[n_rows] = {};
      for_vectors(n, [&](int64_t e, int count) {
        const F32x16 b_e = load_up_to(b + e, count), c_e = load_up_to(c + e, count),
                     decay_e = load_up_to(decay + e, count);
        F32x16 d_b_e = load_up_to(d_b + e, count), d_c_e = load_up_to(d_c + e, count),
               d_decay_e = load_up_to(d_decay + e, count);
        for (int64_t row = 0; row < n_rows; ++row) {
          const int64_t p = first + row, place = p * n + e;
          const F32x16 d_out = F32x16::broadcast(dy[p]);
          const F32x16 d = fma(d_out, c_e, load_up_to(gradient + place, count));
          d_c_e = fma(d_out, load_up_to(to + place, count), d_c_e);
          d_b_e = fma(F32x16::broadcast(dt * x[p]), d, d_b_e);
          d_decay_e = fma(d, load_up_to(from + place, count), d_decay_e);
          sums[row] = fma(d, b_e, sums[row]);
          store_up_to(mul(d, decay_e), gradient + place, count);
        }
        store_up_to(d_b_e, d_b + e, count);
        store_up_to(d_c_e, d_c + e, count);
        store_up_to(d_decay_e, d_decay + e, count);
      });
      for (int64_t row = 0; row < n_rows; ++row) {
        const int64_t p = first + row;
        const float d_input = reduce_add(sums[row]);
        d_x[p] = task.d * dy[p] + dt * d_input;
        d_dt += x[p] * d_input;
        d_d += dy[p] * x[p];
      }
    });
    d_dt += striped_sum(n, [=](int64_t e, int count) {
      const F32x16 d_exponent = mul(load_up_to(d_decay + e, count), load_up_to(decay + e, count));
      accumulate(F32x16::broadcast(dt), d_exponent, d_a + e, count);
      return mul(d_exponent, a(e, count));
    });
    task.d_dt[t * task.d_dt_stride] += d_dt;
  };
  through_time(task.n_tokens, n * task.n_values, task.before, s, forward, backward);
  *task.d_d += d_d;
  if (task.a_is_one) {
    *task.d_a += striped_sum(n, [=](int64_t e, int count) { return load_up_to(d_a + e, count); });
  } else {
    for (int64_t e = 0; e < n; ++e) task.d_a[e] += d_a[e];
  }
}

void delta_net_grad(const DeltaGradTask& task) {
  const int64_t n = task.k_dim;
  const Scratch s(task.scratch, task.n_tokens, n, task.n_values);
  const auto forward = [&](int64_t i, int64_t at, const float* from, float* to) {
    const int64_t t = task.tokens[i];
    const float *k = task.k + t * task.k_stride, *v = task.v + t * task.v_stride;
    const float beta = task.beta[t * task.beta_stride];
    const F32x16 decay = F32x16::broadcast(task.decay[t * task.decay_stride]);
    float* unknown = s.value_notes + at * task.n_values;  // the part of v that the state does not yet return for k
    for (int64_t j = 0; j < task.n_values; ++j) {
      const float* old = from + j * n;
      float* now = to + j * n;
      unknown[j] = v[j] - striped_sum(n, [=](int64_t e, int count) {
                     return mul(mul(decay, load_up_to(old + e, count)), load_up_to(k + e, count));
                   });
      const F32x16 delta = F32x16::broadcast(beta * unknown[j]);
      for_vectors(n, [=](int64_t e, int count) {
        store_up_to(fma(delta, load_up_to(k + e, count), mul(decay, load_up_to(old + e, count))), now + e, count);
      });
    }
  };
  const auto backward = [&](int64_t i, int64_t at, const float* from, const float* to, float* gradient) {
    const int64_t t = task.tokens[i];
    const float *q = task.q + t * task.q_stride, *k = task.k + t * task.k_stride, *dy = task.dy + t * task.dy_stride;
    const float* unknown = s.value_notes + at * task.n_values;
    float *d_q = task.d_q + t * task.d_qk_stride, *d_k = task.d_k + t * task.d_qk_stride;
    float* d_v = task.d_v + t * task.d_v_stride;
    const float beta = task.beta[t * task.beta_stride];
    const F32x16 decay = F32x16::broadcast(task.decay[t * task.decay_stride]);
    float d_beta = 0, d_decay = 0;
    for_rows(task.n_values, [&]<class Rows>(int64_t first, Rows) {
      constexpr int64_t n_rows = Rows::value;
      F32x16 sums[n_rows] = {};
      for_vectors(n, [&](int64_t e, int count) {
        const F32x16 q_e = load_up_to(q + e, count), k_e = load_up_to(k + e, count);
        F32x16 d_q_e = load_up_to(d_q + e, count);
        for (int64_t row = 0; row < n_rows; ++row) {
          const int64_t place = (first + row) * n + e;
          const F32x16 d_out = F32x16::broadcast(task.scale * dy[first + row]);
          const F32x16 d = fma(d_out, q_e, load_up_to(gradient + place, count));
          d_q_e = fma(d_out, load_up_to(to + place, count), d_q_e);
          sums[row] = fma(d, k_e, sums[row]);
          store_up_to(d, gradient + place, count);
        }
        store_up_to(d_q_e, d_q + e, count);
      });
      float deltas[n_rows], d_known[n_rows];
      for (int64_t row = 0; row < n_rows; ++row) {
        const int64_t j = first + row;
        const float d_delta = reduce_add(sums[row]);
        d_beta += d_delta * unknown[j];
        d_v[j] = beta * d_delta;
        deltas[row] = beta * unknown[j];
        d_known[row] = -beta * d_delta;
      }
      F32x16 d_decays = F32x16::zero();
      for_vectors(n, [&](int64_t e, int count) {
        const F32x16 k_e = load_up_to(k + e, count);
        F32x16 d_k_e = load_up_to(d_k + e, count);
        for (int64_t row = 0; row < n_rows; ++row) {
          const int64_t place = (first + row) * n + e;
          const F32x16 d = load_up_to(gradient + place, count), old = load_up_to(from + place, count);
          const F32x16 d_known_row = F32x16::broadcast(d_known[row]);
          d_k_e = fma(d_known_row, mul(decay, old), d_k_e);
          d_k_e = fma(F32x16::broadcast(deltas[row]), d, d_k_e);
          const F32x16 d_decayed = fma(d_known_row, k_e, d);
          d_decays = fma(d_decayed, old, d_decays);
          store_up_to(mul(decay, d_decayed), gradient + place, count);
        }
        store_up_to(d_k_e, d_k + e, count);
      });
      d_decay += reduce_add(d_decays);
    });
    task.d_beta[t * task.d_decay_stride] += d_beta;
    task.d_decay[t * task.d_decay_stride] += d_decay;
  };
  through_time(task.n_tokens, n * task.n_values, task.before, s, forward, backward);
}

void rwkv7_grad(const Rwkv7GradTask& task) {
  const int64_t n = task.head_dim;
  const bool reads_before = task.reads_before;
  const Scratch s(task.scratch, task.n_tokens, n, task.n_values);
  const auto forward = [&](int64_t i, int64_t at, const float* from, float* to) {
    const int64_t t = task.tokens[i];
    const float *decay = task.decay + t * task.decay_stride, *k = task.k + t * task.k_stride;
    const float *a = task.a + t * task.a_stride, *b = task.b + t * task.b_stride, *v = task.v + t * task.v_stride;
    float* removed = s.value_notes + at * task.n_values;
    for (int64_t j = 0; j < task.n_values; ++j) {
      const float* old = from + j * n;
      float* now = to + j * n;
      removed[j] = striped_sum(
          n, [=](int64_t e, int count) { return mul(load_up_to(old + e, count), load_up_to(a + e, count)); });
      const F32x16 removal = F32x16::broadcast(removed[j]), value = F32x16::broadcast(v[j]);
      for_vectors(n, [=](int64_t e, int count) {
        const F32x16 kept = mul(load_up_to(old + e, count), load_up_to(decay + e, count));
        store_up_to(fma(removal, load_up_to(b + e, count), fma(value, load_up_to(k + e, count), kept)), now + e, count);
      });
    }
  };
  const auto backward = [&](int64_t i, int64_t at, const float* from, const float* to, float* gradient) {
    const int64_t t = task.tokens[i];
    const float *r = task.r + t * task.r_stride, *decay = task.decay + t * task.decay_stride;
    const float *k = task.k + t * task.k_stride, *v = task.v + t * task.v_stride, *dy = task.dy + t * task.dy_stride;
    const float *a = task.a + t * task.a_stride, *b = task.b + t * task.b_stride;
    const float* removed = s.value_notes + at * task.n_values;
    const int64_t to_token = t * task.d_stride;
    float *d_r = task.d_r + to_token, *d_decay = task.d_decay + to_token, *d_k = task.d_k + to_token,
          *d_v = task.d_v + to_token, *d_a = task.d_a + to_token, *d_b = task.d_b + to_token;
    for_rows(task.n_values, [&]<class Rows>(int64_t first, Rows) {
      constexpr int64_t n_rows = Rows::value;
      F32x16 sums_k[n_rows] = {}, sums_b[n_rows] = {};
      for_vectors(n, [&](int64_t e, int count) {
        const F32x16 r_e = load_up_to(r + e, count), k_e = load_up_to(k + e, count), b_e = load_up_to(b + e, count);
        F32x16 d_r_e = load_up_to(d_r + e, count), d_k_e = load_up_to(d_k + e, count),
               d_b_e = load_up_to(d_b + e, count);
        F32x16 d_decay_e = load_up_to(d_decay + e, count);
        for (int64_t row = 0; row < n_rows; ++row) {
          const int64_t j = first + row, place = j * n + e;
          const F32x16 d_out = F32x16::broadcast(dy[j]);
          const F32x16 before = load_up_to(from + place, count), later = load_up_to(gradient + place, count);
          const F32x16 d = reads_before ? later : fma(d_out, r_e, later);
          d_r_e = fma(d_out, reads_before ? before : load_up_to(to + place, count), d_r_e);
          d_decay_e = fma(d, before, d_decay_e);
          d_k_e = fma(F32x16::broadcast(v[j]), d, d_k_e);
          d_b_e = fma(F32x16::broadcast(removed[j]), d, d_b_e);
          sums_k[row] = fma(d, k_e, sums_k[row]);
          sums_b[row] = fma(d, b_e, sums_b[row]);
          store_up_to(d, gradient + place, count);
        }
        store_up_to(d_r_e, d_r + e, count);
        store_up_to(d_k_e, d_k + e, count);
        store_up_to(d_b_e, d_b + e, count);
        store_up_to(d_decay_e, d_decay + e, count);
      });
      float d_removed[n_rows];
      for (int64_t row = 0; row < n_rows; ++row) {
        d_v[first + row] = reduce_add(sums_k[row]);
        d_removed[row] = reduce_add(sums_b[row]);
      }
      for_vectors(n, [&](int64_t e, int count) {
        const F32x16 decay_e = load_up_to(decay + e, count), a_e = load_up_to(a + e, count);
        const F32x16 r_e = load_up_to(r + e, count);
        F32x16 d_a_e = load_up_to(d_a + e, count);
        for (int64_t row = 0; row < n_rows; ++row) {
          const int64_t place = (first + row) * n + e;
          const F32x16 removal = F32x16::broadcast(d_removed[row]);
          d_a_e = fma(removal, load_up_to(from + place, count), d_a_e);
          F32x16 d = fma(removal, a_e, mul(load_up_to(gradient + place, count), decay_e));
          if (reads_before) d = fma(F32x16::broadcast(dy[first + row]), r_e, d);
          store_up_to(d, gradient + place, count);
        }
        store_up_to(d_a_e, d_a + e, count);
      });
    });
  };
  through_time(task.n_tokens, n * task.n_values, task.before, s, forward, backward);
}

const RecurrentGradKernels kRecurrentGradKernels = {
    .causal_conv = causal_conv_grad,
    .selective_scan = selective_scan_grad,
    .delta_net = delta_net_grad,
    .rwkv7 = rwkv7_grad,
    .scratch_floats = recurrent_scratch_floats,
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
