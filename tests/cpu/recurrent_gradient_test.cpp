// Gradients of recurrent operations against differences of double-precision references. Tokens of three sequences are
// interleaved. One sequence continues from a state, which is a constant.
#include <algorithm>
#include <cmath>

#include "tests/support/gradient_check.h"

namespace tessera {
namespace {

using namespace testing;

using Doubles = std::vector<double>;
using Leaves = std::vector<Doubles>;
using Values = std::vector<Value>;

struct Segment {
  std::vector<int32_t> tokens;
  int32_t read;  // -1: zeros
};

/// Sequence 0 has every third token, and its last one is a separate segment. Sequence 1 has the others except one
/// token.
std::vector<Segment> segments_of(int32_t n_tokens) {
  std::vector<Segment> segments{{{}, 0}, {{}, -1}, {{}, -1}};
  for (int32_t t = 0; t < n_tokens; ++t) segments[t == n_tokens / 2 ? 2 : t % 3 == 0 ? 0 : 1].tokens.push_back(t);
  return segments;
}

constexpr int64_t kSlots = 4;  // segment i writes slot i + 1

GradientLeaf runs_leaf(int32_t n_tokens) {
  std::vector<int32_t> fields, order;
  int32_t slot = 1;
  for (const Segment& segment : segments_of(n_tokens)) {
    const std::vector<int32_t> segment_fields{static_cast<int32_t>(order.size()),
                                              static_cast<int32_t>(segment.tokens.size()), segment.read, slot++};
    fields.insert(fields.end(), segment_fields.begin(), segment_fields.end());
    order.insert(order.end(), segment.tokens.begin(), segment.tokens.end());
  }
  fields.insert(fields.end(), {0, 0, 0, 0});  // not used
  fields.insert(fields.end(), order.begin(), order.end());
  return {.shape = {std::ssize(fields)}, .numbers = fields};
}

GradientLeaf state_leaf(int64_t n_elements) { return {.shape = {n_elements, kSlots}, .is_parameter = false}; }

/// Calls step(token, state) for the tokens of each segment in order. A segment begins from its slot of `state` or from
/// zeros.
template <class Step>
void for_tokens(int32_t n_tokens, const Doubles& state, Step step) {
  const auto n = static_cast<ptrdiff_t>(state.size()) / kSlots;
  for (const Segment& segment : segments_of(n_tokens)) {
    Doubles s(static_cast<size_t>(n));
    if (segment.read >= 0) std::copy_n(state.begin() + segment.read * n, n, s.begin());
    for (const int32_t t : segment.tokens) step(t, s);
  }
}

size_t index(int64_t row, int64_t n, int64_t i) { return static_cast<size_t>(row * n + i); }

// --- causal_conv, token_shift

GradientCase conv_case(int64_t n, int64_t width, int32_t t, bool has_bias) {
  return {
      .leaves = {{.shape = {n, t}}, {.shape = {width, n}}, {.shape = {n}}, state_leaf(n * (width - 1)), runs_leaf(t)},
      .build = [=](GraphBuilder& b,
                   const Values& v) { return b.causal_conv(v[0], v[1], has_bias ? v[2] : Value(), v[3], v[4]); },
      .reference =
          [=](const Leaves& l) {
            Doubles y(static_cast<size_t>(n * t));
            for_tokens(t, l[3], [&](int64_t token, Doubles& s) {
              const auto x = l[0].begin() + static_cast<ptrdiff_t>(token * n);
              s.insert(s.end(), x, x + static_cast<ptrdiff_t>(n));  // the last `width` inputs
              for (int64_t c = 0; c < n; ++c) {
                double& sum = y[index(token, n, c)] = has_bias ? l[2][static_cast<size_t>(c)] : 0;
                for (int64_t j = 0; j < width; ++j) sum += l[1][index(c, width, j)] * s[index(j, n, c)];
              }
              s.erase(s.begin(), s.begin() + static_cast<ptrdiff_t>(n));
            });
            return y;
          },
      .gradient_ops = {Op::causal_conv_grad}};
}

TEST(RecurrentGradients, OfConvolutions) {
  check_gradients(conv_case(70, 4, 9, true));   // 64 channels and a remainder
  check_gradients(conv_case(3, 7, 12, false));  // wider than a segment
}

TEST(RecurrentGradients, OfTokenShifts) {
  const int64_t n = 5;
  const int32_t t = 10;
  check_gradients({.leaves = {{.shape = {n, t}}, state_leaf(n), runs_leaf(t)},
                   .build = [](GraphBuilder& b, const Values& v) { return b.token_shift(v[0], v[1], v[2]); },
                   .reference =
                       [=](const Leaves& l) {
                         Doubles y(static_cast<size_t>(n * t));
                         for_tokens(t, l[1], [&](int64_t token, Doubles& s) {
                           for (int64_t c = 0; c < n; ++c) {
                             const double now = l[0][index(token, n, c)];
                             y[index(token, n, c)] = s[static_cast<size_t>(c)] - now;
                             s[static_cast<size_t>(c)] = now;
                           }
                         });
                         return y;
                       },
                   .gradient_ops = {Op::token_shift_grad}});
}

// --- selective_scan

struct ScanSizes {
  int64_t head_dim, n_heads, n_groups, n_state;
  int32_t t;
  bool a_per_head;
};

GradientCase scan_case(const ScanSizes& z) {
  const auto [dim, heads, groups, n, t, a_per_head] = z;
  const int64_t n_a = a_per_head ? 1 : n;
  return {.leaves = {{.shape = {dim, heads, t}},
                     {.shape = {heads, t}, .low = 0.1f, .high = 1.0f},
                     {.shape = {n_a, heads}, .low = -1.0f, .high = -0.1f},
                     {.shape = {n, groups, t}},
                     {.shape = {n, groups, t}},
                     {.shape = {heads}},
                     state_leaf(n * dim * heads),
                     runs_leaf(t)},
          .build = [](GraphBuilder& b,
                      const Values& v) { return b.selective_scan(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]); },
          .reference =
              [=, dim = dim, heads = heads, groups = groups, n = n, t = t](const Leaves& l) {
                Doubles y(static_cast<size_t>(dim * heads * t));
                for_tokens(t, l[6], [&](int64_t token, Doubles& s) {
                  for (int64_t h = 0; h < heads; ++h)
                    for (int64_t p = 0; p < dim; ++p) {
                      const double dt = l[1][index(token, heads, h)], x = l[0][index(token * heads + h, dim, p)];
                      const int64_t group = token * groups + h / (heads / groups);
                      double sum = l[5][static_cast<size_t>(h)] * x;
                      for (int64_t i = 0; i < n; ++i) {
                        double& e = s[index(h * dim + p, n, i)];
                        e = std::exp(dt * l[2][index(h, n_a, i % n_a)]) * e + dt * x * l[3][index(group, n, i)];
                        sum += e * l[4][index(group, n, i)];
                      }
                      y[index(token * heads + h, dim, p)] = sum;
                    }
                });
                return y;
              },
          .gradient_ops = {Op::selective_scan_grad}};
}

TEST(RecurrentGradients, OfScansWithAStateOfTheirOwnDecays) {
  check_gradients(scan_case({.head_dim = 1, .n_heads = 5, .n_groups = 1, .n_state = 18, .t = 16, .a_per_head = false}));
}
TEST(RecurrentGradients, OfScansWithADecayPerHead) {
  check_gradients(scan_case({.head_dim = 3, .n_heads = 4, .n_groups = 2, .n_state = 5, .t = 9, .a_per_head = true}));
}
TEST(RecurrentGradients, OfScansOfManyHeadsAndLargeOnes) {
  // Groups of 17 heads, where tasks contain parts of two groups; heads with more values than a task.
  check_gradients(scan_case({.head_dim = 2, .n_heads = 34, .n_groups = 2, .n_state = 3, .t = 6, .a_per_head = true}));
  check_gradients(scan_case({.head_dim = 40, .n_heads = 1, .n_groups = 1, .n_state = 33, .t = 5, .a_per_head = false}));
}

// --- delta_net

struct DeltaSizes {
  int64_t k_dim, n_k, v_dim, n_heads;
  int32_t t;
  KeyHeads key_heads;
};

GradientCase delta_case(const DeltaSizes& z) {
  const auto [k_dim, n_k, v_dim, heads, t, key_heads] = z;
  const DeltaNetParams params{.key_heads = key_heads, .scale = 0.6f};
  return {.leaves = {{.shape = {k_dim, n_k, t}},
                     {.shape = {k_dim, n_k, t}, .low = -0.4f, .high = 0.4f},
                     {.shape = {v_dim, heads, t}},
                     {.shape = {heads, t}, .low = 0.5f, .high = 1.0f},
                     {.shape = {heads, t}, .low = 0.1f, .high = 0.9f},
                     state_leaf(k_dim * v_dim * heads),
                     runs_leaf(t)},
          .build = [params](GraphBuilder& b,
                            const Values& v) { return b.delta_net(v[0], v[1], v[2], v[3], v[4], v[5], v[6], params); },
          .reference =
              [=, k_dim = k_dim, n_k = n_k, v_dim = v_dim, heads = heads, t = t](const Leaves& l) {
                Doubles y(static_cast<size_t>(v_dim * heads * t));
                for_tokens(t, l[5], [&](int64_t token, Doubles& s) {
                  for (int64_t h = 0; h < heads; ++h) {
                    const int64_t k_head = params.key_heads == KeyHeads::tiled ? h % n_k : h / (heads / n_k);
                    const double *q = &l[0][index(token * n_k + k_head, k_dim, 0)],
                                 *k = &l[1][index(token * n_k + k_head, k_dim, 0)];
                    const double decay = l[3][index(token, heads, h)], beta = l[4][index(token, heads, h)];
                    for (int64_t j = 0; j < v_dim; ++j) {
                      double* state = &s[index(h * v_dim + j, k_dim, 0)];
                      double known = 0, sum = 0;
                      for (int64_t i = 0; i < k_dim; ++i) known += (state[i] *= decay) * k[i];
                      const double delta = beta * (l[2][index(token * heads + h, v_dim, j)] - known);
                      for (int64_t i = 0; i < k_dim; ++i) sum += (state[i] += delta * k[i]) * q[i];
                      y[index(token * heads + h, v_dim, j)] = double{params.scale} * sum;
                    }
                  }
                });
                return y;
              },
          .gradient_ops = {Op::delta_net_grad}};
}

TEST(RecurrentGradients, OfDeltaNets) {
  check_gradients(delta_case({.k_dim = 5, .n_k = 2, .v_dim = 3, .n_heads = 4, .t = 13, .key_heads = KeyHeads::tiled}));
  check_gradients(
      delta_case({.k_dim = 17, .n_k = 2, .v_dim = 2, .n_heads = 4, .t = 7, .key_heads = KeyHeads::grouped}));
}
TEST(RecurrentGradients, OfDeltaNetsWithLargeHeads) {
  check_gradients(
      delta_case({.k_dim = 33, .n_k = 1, .v_dim = 36, .n_heads = 1, .t = 5, .key_heads = KeyHeads::grouped}));
}

// --- rwkv7

GradientCase rwkv7_case(int64_t dim, int64_t heads, int32_t t, StateRead read = StateRead::after) {
  const Shape shape{dim, heads, t};
  return {.leaves = {{.shape = shape},
                     {.shape = shape, .low = 0.5f, .high = 1.0f},
                     {.shape = shape},
                     {.shape = shape},
                     {.shape = shape, .low = -0.3f, .high = 0.3f},
                     {.shape = shape, .low = -0.3f, .high = 0.3f},
                     state_leaf(dim * dim * heads),
                     runs_leaf(t)},
          .build = [=](GraphBuilder& b,
                       const Values& v) { return b.rwkv7(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], {read}); },
          .reference =
              [=](const Leaves& l) {
                Doubles y(static_cast<size_t>(dim * heads * t));
                for_tokens(t, l[6], [&](int64_t token, Doubles& s) {
                  for (int64_t h = 0; h < heads; ++h) {
                    const size_t head = index(token * heads + h, dim, 0);
                    const double *r = &l[0][head], *decay = &l[1][head], *k = &l[2][head], *v = &l[3][head],
                                 *a = &l[4][head], *b = &l[5][head];
                    for (int64_t i = 0; i < dim; ++i) {
                      double* state = &s[index(h * dim + i, dim, 0)];
                      double removed = 0, sum = 0;
                      for (int64_t j = 0; j < dim; ++j) removed += state[j] * a[j];
                      for (int64_t j = 0; j < dim; ++j) {
                        const double before = state[j];
                        state[j] = before * decay[j] + v[i] * k[j] + removed * b[j];
                        sum += (read == StateRead::before ? before : state[j]) * r[j];
                      }
                      y[head + static_cast<size_t>(i)] = sum;
                    }
                  }
                });
                return y;
              },
          .gradient_ops = {Op::rwkv7_grad}};
}

TEST(RecurrentGradients, OfRwkv7) { check_gradients(rwkv7_case(6, 3, 13)); }
TEST(RecurrentGradients, OfRwkv7WithTheStateBefore) { check_gradients(rwkv7_case(6, 3, 13, StateRead::before)); }
TEST(RecurrentGradients, OfRwkv7WithLargeHeads) { check_gradients(rwkv7_case(34, 1, 5)); }

// Operands that are columns of one product, and columns of those columns.
TEST(RecurrentGradients, OfViewsOfOneTensor) {
  const int64_t n = 4, width = 3;
  const int32_t t = 7;
  const auto columns = [](GraphBuilder& b, Value x, int64_t first, int64_t count) {
    Layout layout = b.spec(x).layout;
    layout.shape[0] = count;
    return b.view(x, layout, static_cast<size_t>(first) * sizeof(float));
  };
  GradientCase c = conv_case(n, width, t, true);
  const GradientCase plain = c;
  c.leaves[0].shape = {3 * n, t};
  c.build = [=](GraphBuilder& b, const Values& v) {
    Values part = v;
    part[0] = columns(b, columns(b, v[0], 2, 2 * n), 1, n);
    return plain.build(b, part);
  };
  c.reference = [=](const Leaves& l) {
    Leaves part = l;
    part[0].clear();
    for (int64_t row = 0; row < t; ++row)
      for (int64_t i = 0; i < n; ++i) part[0].push_back(l[0][index(row, 3 * n, 3 + i)]);
    return plain.reference(part);
  };
  check_gradients(c);
}

}  // namespace
}  // namespace tessera
