// Kernels of recurrent layers. Every element of a state has one chain of float operations, token after token. A sum
// over a state's row uses 16 striped partial sums, added by a fixed tree.
#include "tessera/cpu/kernels/recurrent.h"

#include <string.h>

#include "tessera/cpu/kernels/simd.h"
#include "tessera/cpu/kernels/table.h"
#include "tessera/cpu/kernels/vector_loops.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

void causal_conv(const ConvTask& task) {
  const int64_t n_before = task.width - 1;
  // In the file, a tap's weights for adjacent channels are `width` elements apart.
  float weights[kConvWidth][kConvChannels];
  const float zeros[kConvChannels] = {};
  for (int64_t tap = 0; tap < task.width; ++tap)
    for (int64_t c = 0; c < task.n_channels; ++c) weights[tap][c] = task.weight[c * task.width + tap];
  // Returns the input of token i of this segment; for i < 0, the earlier input stored in the state.
  const auto input = [&](int64_t i) {
    if (i >= 0) return task.x + task.tokens[i] * task.x_stride;
    return task.before == nullptr ? zeros : task.before + (i + n_before) * task.state_stride;
  };
  for (int64_t i = 0; i < task.n_tokens; ++i) {
    const float* rows[kConvWidth];
    for (int64_t tap = 0; tap < task.width; ++tap) rows[tap] = input(i - n_before + tap);
    float* out = task.out + task.tokens[i] * task.out_stride;
    for_vectors(task.n_channels, [&](int64_t c, int count) {
      F32x16 sum = mul(load_up_to(weights[0] + c, count), load_up_to(rows[0] + c, count));
      for (int64_t tap = 1; tap < task.width; ++tap)
        sum = fma(load_up_to(weights[tap] + c, count), load_up_to(rows[tap] + c, count), sum);
      if (task.bias != nullptr) sum = add(sum, load_up_to(task.bias + c, count));
      store_up_to(sum, out + c, count);
    });
  }
  if (task.n_tokens == 0) return;
  // Oldest first: if `after` is `before`, each row is read before it is overwritten.
  for (int64_t row = 0; row < n_before; ++row)
    memmove(task.after + row * task.state_stride, input(task.n_tokens - n_before + row),
            static_cast<size_t>(task.n_channels) * sizeof(float));
}

namespace {

/// Computes one value of a head of a scan. Its row of the state is read from `from` (null: zeros) and written to `to`.
template <class Decay>
inline float scan_row(int64_t n, const float* from, float* to, float dx, const float* b, const float* c, Decay decay) {
  const F32x16 input = F32x16::broadcast(dx);
  return striped_sum(n, [=](int64_t i, int count) {
    const F32x16 old = from == nullptr ? F32x16::zero() : load_up_to(from + i, count);
    const F32x16 now = fma(decay(i, count), old, mul(input, load_up_to(b + i, count)));
    store_up_to(now, to + i, count);
    return mul(now, load_up_to(c + i, count));
  });
}

}  // namespace

void selective_scan(const ScanTask& task) {
  const int64_t n = task.n_state, head_elements = n * task.head_dim;
  for (int64_t i = 0; i < task.n_tokens; ++i) {
    const int64_t t = task.tokens[i];
    const float* state = i == 0 ? task.before : task.after;
    for (int64_t h = task.head_begin; h < task.head_end; ++h) {
      const int64_t group = h / task.heads_per_group;
      const float* b = task.b + t * task.b_stride + group * task.b_group_stride;
      const float* c = task.c + t * task.c_stride + group * task.c_group_stride;
      const float* x = task.x + t * task.x_stride + h * task.x_head_stride;
      float* out = task.out + t * task.out_stride + h * task.head_dim;
      const float dt = task.dt[t * task.dt_stride + h], d = task.d[h];
      const F32x16 step = F32x16::broadcast(dt);
      const F32x16 head_decay = task.a_per_head ? exp(mul(step, F32x16::broadcast(task.a[h]))) : F32x16::zero();
      const float* a = task.a + h * n;
      for (int64_t p = 0; p < task.head_dim; ++p) {
        const int64_t at = h * head_elements + p * n;
        const float* from = state == nullptr ? nullptr : state + at;
        const float sum =
            task.a_per_head
                ? scan_row(n, from, task.after + at, dt * x[p], b, c, [=](int64_t, int) { return head_decay; })
                : scan_row(n, from, task.after + at, dt * x[p], b, c,
                           [=](int64_t j, int count) { return exp(mul(step, load_up_to(a + j, count))); });
        out[p] = sum + d * x[p];
      }
    }
  }
}

void delta_net(const DeltaTask& task) {
  const int64_t n = task.k_dim;
  for (int64_t i = 0; i < task.n_tokens; ++i) {
    const int64_t t = task.tokens[i];
    const float* state = i == 0 ? task.before : task.after;
    const float *q = task.q + t * task.q_stride, *k = task.k + t * task.k_stride, *v = task.v + t * task.v_stride;
    const float beta = task.beta[t * task.beta_stride];
    const F32x16 decay = F32x16::broadcast(task.decay[t * task.decay_stride]);
    float* out = task.out + t * task.out_stride;
    for (int64_t j = 0; j < task.n_values; ++j) {
      const float* from = state == nullptr ? nullptr : state + j * n;
      float* to = task.after + j * n;
      const float known = striped_sum(n, [=](int64_t e, int count) {
        const F32x16 old = mul(decay, from == nullptr ? F32x16::zero() : load_up_to(from + e, count));
        store_up_to(old, to + e, count);
        return mul(old, load_up_to(k + e, count));
      });
      const F32x16 delta = F32x16::broadcast(beta * (v[j] - known));
      const float sum = striped_sum(n, [=](int64_t e, int count) {
        const F32x16 now = fma(delta, load_up_to(k + e, count), load_up_to(to + e, count));
        store_up_to(now, to + e, count);
        return mul(now, load_up_to(q + e, count));
      });
      out[j] = sum * task.scale;
    }
  }
}

void rwkv7(const Rwkv7Task& task) {
  const int64_t n = task.head_dim;
  const bool reads_before = task.reads_before;
  for (int64_t i = 0; i < task.n_tokens; ++i) {
    const int64_t t = task.tokens[i];
    const float* state = i == 0 ? task.before : task.after;
    const float *r = task.r + t * task.r_stride, *decay = task.decay + t * task.decay_stride;
    const float *k = task.k + t * task.k_stride, *v = task.v + t * task.v_stride;
    const float *a = task.a + t * task.a_stride, *b = task.b + t * task.b_stride;
    float* out = task.out + t * task.out_stride;
    for (int64_t j = 0; j < task.n_values; ++j) {
      const float* from = state == nullptr ? nullptr : state + j * n;
      float* to = task.after + j * n;
      const auto old = [=](int64_t e, int count) {
        return from == nullptr ? F32x16::zero() : load_up_to(from + e, count);
      };
      const float removed =
          striped_sum(n, [=](int64_t e, int count) { return mul(old(e, count), load_up_to(a + e, count)); });
      const F32x16 removal = F32x16::broadcast(removed), value = F32x16::broadcast(v[j]);
      out[j] = striped_sum(n, [=](int64_t e, int count) {
        const F32x16 before = old(e, count);
        F32x16 now = mul(before, load_up_to(decay + e, count));
        now = fma(value, load_up_to(k + e, count), now);
        now = fma(removal, load_up_to(b + e, count), now);
        store_up_to(now, to + e, count);
        return mul(reads_before ? before : now, load_up_to(r + e, count));
      });
    }
  }
}

const RecurrentKernels kRecurrentKernels = {
    .causal_conv = causal_conv,
    .selective_scan = selective_scan,
    .delta_net = delta_net,
    .rwkv7 = rwkv7,
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
