// Recurrent operations against double precision, and the same bits for any split into micro-batches, any mixture of
// sequences, any number of threads, and whether states move between slots or stay.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/support/graph_runner.h"

namespace tessera {
namespace {

using namespace testing;

using NamedValues = std::map<std::string, Value>;
using NamedFloats = std::map<std::string, std::vector<float>>;
using Doubles = std::vector<double>;

/// An operation with a state, on inputs with one row per token.
struct Layer {
  std::map<std::string, std::vector<int64_t>> rows;        // extents for one token
  std::map<std::string, std::vector<int64_t>> weights;     // extents
  int64_t n_state = 0;                                     // elements of a slot
  int64_t n_out = 0;                                       // of a token
  std::function<Value(GraphBuilder&, NamedValues&)> op{};  // also gets "state" and "segments"
};

int64_t count(const std::vector<int64_t>& extents) {
  int64_t n = 1;
  for (const int64_t extent : extents) n *= extent;
  return n;
}

Shape shape_of(std::vector<int64_t> extents) {
  Shape shape;
  for (size_t i = 0; i < extents.size(); ++i) shape.ne[i] = extents[i];
  return shape;
}

struct Token {
  int32_t sequence;
  int32_t row;  // of the inputs
};
using MicroBatches = std::vector<std::vector<Token>>;

struct Outcome {
  std::vector<float> y;                          // n_out per row of the inputs
  std::map<int32_t, std::vector<float>> states;  // by sequence
};

enum class StatePlace { moves, stays };  // a micro-batch writes a different slot than it reads, or the same

constexpr int32_t kStateSlots = 5;

/// Segments as from RecurrentCache: sequence s has slots s and s + 2.
std::vector<int32_t> segments_of(const std::vector<Token>& batch, std::map<int32_t, int32_t>& slots, StatePlace place) {
  std::vector<int32_t> fields, order;
  for (const int32_t s : {1, 0, 7}) {  // 7: an unused segment
    const auto begin = static_cast<int32_t>(order.size());
    for (size_t i = 0; i < batch.size(); ++i)
      if (batch[i].sequence == s) order.push_back(static_cast<int32_t>(i));
    const int32_t n = static_cast<int32_t>(order.size()) - begin;
    const int32_t read = slots.contains(s) ? slots[s] : -1;
    const int32_t write = place == StatePlace::stays && read != -1 ? read : read == s ? s + 2 : s;
    for (const int32_t value : {begin, n, read, write}) fields.push_back(n == 0 ? 0 : value);
    if (n > 0) slots[s] = write;
  }
  fields.insert(fields.end(), order.begin(), order.end());
  return fields;
}

Result<Outcome> run(const Layer& layer, const NamedFloats& values, const GraphRunner& runner,
                    const MicroBatches& batches, StatePlace place) {
  // A slot that was never written must not be read.
  const std::vector<float> unwritten(static_cast<size_t>(layer.n_state * kStateSlots), std::nanf(""));
  const OwnedTensor state(runner.device().buffer_type(), "state", DType::f32, {layer.n_state, kStateSlots},
                          bytes_of(unwritten));
  Outcome outcome;
  std::map<int32_t, int32_t> slots;
  for (const std::vector<Token>& batch : batches) {
    const auto t = static_cast<int64_t>(batch.size());
    GraphBuilder b;
    NamedValues in;
    NamedBytes bytes;
    for (const auto& [name, extents] : layer.weights) {
      in[name] = b.input(name, DType::f32, shape_of(extents));
      bytes[name] = bytes_of(values.at(name));
    }
    for (const auto& [name, extents] : layer.rows) {
      std::vector<int64_t> all = extents;
      all.push_back(t);
      in[name] = b.input(name, DType::f32, shape_of(all));
      std::vector<float> rows;
      for (const Token& token : batch) {
        const auto begin = values.at(name).begin() + token.row * count(extents);
        rows.insert(rows.end(), begin, begin + count(extents));
      }
      bytes[name] = bytes_of(rows);
    }
    const std::vector<int32_t> segments = segments_of(batch, slots, place);
    bytes["segments"] = bytes_of(segments);
    in["segments"] = b.input("segments", DType::i32, {static_cast<int64_t>(segments.size())});
    in["state"] = b.tensor(state.tensor);
    b.output(layer.op(b, in), "y");
    TESSERA_ASSIGN(Graph graph, std::move(b).finish());
    TESSERA_ASSIGN(const std::vector<float> y, runner.run_y(std::move(graph), bytes));
    for (size_t i = 0; i < batch.size(); ++i) {
      const size_t end = static_cast<size_t>((batch[i].row + 1) * layer.n_out);
      outcome.y.resize(std::max(outcome.y.size(), end));
      std::copy_n(y.begin() + static_cast<ptrdiff_t>(i) * layer.n_out, layer.n_out,
                  outcome.y.begin() + static_cast<ptrdiff_t>(end) - layer.n_out);
    }
  }
  const std::vector<float> all = values_of<float>(state.read());
  for (const auto& [sequence, slot] : slots)
    outcome.states[sequence].assign(all.begin() + slot * layer.n_state, all.begin() + (slot + 1) * layer.n_state);
  return outcome;
}

constexpr int32_t kTokens[] = {13, 6};  // of sequences 0 and 1; rows of 1 follow those of 0

std::vector<MicroBatches> splits() {
  const auto token = [](int32_t s, int32_t i) { return Token{s, i + (s == 0 ? 0 : kTokens[0])}; };
  MicroBatches whole(1), single, pieces, interleaved(1), cut_interleaved(2);
  for (const int32_t s : {0, 1})
    for (int32_t i = 0; i < kTokens[s]; ++i) {
      whole[0].push_back(token(s, i));
      single.push_back({token(s, i)});
      if (i % 5 == 0) pieces.emplace_back();
      pieces.back().push_back(token(s, i));
    }
  for (int32_t i = 0; i < kTokens[0]; ++i)
    for (const int32_t s : {1, 0})
      if (i < kTokens[s]) interleaved[0].push_back(token(s, i));
  for (size_t i = 0; i < interleaved[0].size(); ++i) cut_interleaved[i < 7 ? 0 : 1].push_back(interleaved[0][i]);
  return {whole, single, pieces, interleaved, cut_interleaved};
}

/// The outputs and the last state of one sequence whose tokens are rows [begin, end).
struct Expected {
  Doubles y, state;
};
using StateReference = std::function<Expected(const NamedFloats&, int64_t begin, int64_t end)>;

NamedFloats random_inputs(const Layer& layer, float limit = 1.0f) {
  Rng rng(11);
  NamedFloats values;
  for (const auto& [name, extents] : layer.weights) values[name] = random_values(rng, count(extents), limit);
  for (const auto& [name, extents] : layer.rows)
    values[name] = random_values(rng, count(extents) * (kTokens[0] + kTokens[1]), limit);
  return values;
}

void check(const Layer& layer, const NamedFloats& values, const StateReference& reference, double tolerance) {
  const Expected a = reference(values, 0, kTokens[0]), c = reference(values, kTokens[0], kTokens[0] + kTokens[1]);
  Doubles y = a.y;
  y.insert(y.end(), c.y.begin(), c.y.end());
  Outcome first;
  for (Setting& setting : all_settings()) {
    bool is_first = setting.n_threads == 1;
    for (const MicroBatches& batches : splits())
      for (const StatePlace place : {StatePlace::moves, StatePlace::stays}) {
        // Each segment has barriers, which cost time slices on few and busy CPUs.
        if (batches.size() > 2 && setting.n_threads > 1) continue;
        const auto outcome = run(layer, values, setting.runner, batches, place);
        ASSERT_OK(outcome);
        if (is_first) {
          first = *outcome;
          expect_near(first.y, y, tolerance);
          expect_near(first.states[0], a.state, tolerance);
          expect_near(first.states[1], c.state, tolerance);
        }
        is_first = false;
        const std::string what = setting.isa + ", " + std::to_string(setting.n_threads) + " threads, " +
                                 std::to_string(batches.size()) + " micro-batches";
        ASSERT_TRUE(same_bytes(outcome->y, first.y)) << what;
        ASSERT_TRUE(same_bytes(outcome->states.at(0), first.states.at(0))) << what;
        ASSERT_TRUE(same_bytes(outcome->states.at(1), first.states.at(1))) << what;
      }
  }
}

// --- causal_conv

void check_conv(int64_t n, int64_t width, bool has_bias) {
  Layer layer{
      .rows = {{"x", {n}}}, .weights = {{"w", {width, n}}, {"bias", {n}}}, .n_state = n * (width - 1), .n_out = n};
  layer.op = [=](GraphBuilder& b, NamedValues& v) {
    return b.causal_conv(v["x"], v["w"], has_bias ? v["bias"] : Value(), v["state"], v["segments"]);
  };
  const auto reference = [=](const NamedFloats& v, int64_t begin, int64_t end) {
    const auto input = [&](int64_t t, int64_t c) {
      return t < begin ? 0.0 : double{v.at("x")[static_cast<size_t>(t * n + c)]};
    };
    Expected e;
    for (int64_t t = begin; t < end; ++t)
      for (int64_t c = 0; c < n; ++c) {
        double sum = has_bias ? v.at("bias")[static_cast<size_t>(c)] : 0;
        for (int64_t j = 0; j < width; ++j)
          sum += v.at("w")[static_cast<size_t>(c * width + j)] * input(t - (width - 1) + j, c);
        e.y.push_back(sum);
      }
    for (int64_t t = end - (width - 1); t < end; ++t)
      for (int64_t c = 0; c < n; ++c) e.state.push_back(input(t, c));
    return e;
  };
  check(layer, random_inputs(layer), reference, 1e-6);  // up to 32 roundings of sums below 4
}

TEST(CausalConv, IsTheSumOverTheLastInputs) {
  check_conv(1, 2, false);
  check_conv(70, 4, true);  // 64 channels and a remainder
  check_conv(128, 3, false);
  check_conv(5, 20, true);  // wider than either sequence
}

TEST(CausalConv, ByHand) {
  GraphRunner runner;
  const OwnedTensor state(runner.device().buffer_type(), "state", DType::f32, {2, 1}, bytes_of<float>({10, 20}));
  GraphBuilder b;
  b.output(
      b.causal_conv(b.input("x", DType::f32, {1, 2}), b.input("w", DType::f32, {3, 1}),
                    b.input("bias", DType::f32, {1}), b.tensor(state.tensor), b.input("segments", DType::i32, {6})),
      "y");
  ASSERT_OK_AND_ASSIGN(
      const auto y, runner.run_y(std::move(b).finish().value(), {{"x", bytes_of<float>({30, 40})},
                                                                 {"w", bytes_of<float>({1, 2, 3})},
                                                                 {"bias", bytes_of<float>({0.5f})},
                                                                 {"segments", bytes_of<int32_t>({0, 2, 0, 0, 0, 1})}}));
  EXPECT_EQ(y, (std::vector<float>{10 + 40 + 90 + 0.5f, 20 + 60 + 120 + 0.5f}));
  EXPECT_EQ(values_of<float>(state.read()), (std::vector<float>{30, 40}));
}

TEST(TokenShift, IsTheTokenBeforeLessTheToken) {
  const int64_t n = 33;
  Layer layer{.rows = {{"x", {n}}}, .weights = {}, .n_state = n, .n_out = n};
  layer.op = [](GraphBuilder& b, NamedValues& v) { return b.token_shift(v["x"], v["state"], v["segments"]); };
  const auto reference = [=](const NamedFloats& v, int64_t begin, int64_t end) {
    const auto& x = v.at("x");
    Expected e;
    for (int64_t i = begin * n; i < end * n; ++i) {
      const auto at = static_cast<size_t>(i);
      e.y.push_back((i < (begin + 1) * n ? 0.0 : double{x[at - n]}) - x[at]);
      if (i >= (end - 1) * n) e.state.push_back(x[at]);
    }
    return e;
  };
  check(layer, random_inputs(layer), reference, 1e-7);
}

// --- selective_scan

struct ScanShape {
  int64_t n, p, h, g;
  bool a_per_head;
};

void check_scan(const ScanShape& s) {
  const auto [n, p, h, g, a_per_head] = s;
  Layer layer{.rows = {{"x", {p, h}}, {"dt", {h}}, {"b", {n, g}}, {"c", {n, g}}},
              .weights = {{"a", {a_per_head ? 1 : n, h}}, {"d", {h}}},
              .n_state = n * p * h,
              .n_out = p * h};
  layer.op = [](GraphBuilder& b, NamedValues& v) {
    return b.selective_scan(v["x"], v["dt"], v["a"], v["b"], v["c"], v["d"], v["state"], v["segments"]);
  };
  NamedFloats values = random_inputs(layer);
  for (float& a : values["a"]) a = -4 * std::abs(a);
  for (float& dt : values["dt"]) dt = std::abs(dt);
  const auto reference = [=](const NamedFloats& v, int64_t begin, int64_t end) {
    const auto get = [&](const char* name, int64_t i) { return double{v.at(name)[static_cast<size_t>(i)]}; };
    Expected e;
    e.state.assign(static_cast<size_t>(n * p * h), 0.0);
    for (int64_t t = begin; t < end; ++t)
      for (int64_t ih = 0; ih < h; ++ih)
        for (int64_t ip = 0; ip < p; ++ip) {
          const double x = get("x", (t * h + ih) * p + ip), dt = get("dt", t * h + ih);
          const int64_t group = (t * g + ih / (h / g)) * n;
          double y = get("d", ih) * x;
          for (int64_t i = 0; i < n; ++i) {
            double& state = e.state[static_cast<size_t>((ih * p + ip) * n + i)];
            state = std::exp(dt * get("a", a_per_head ? ih : ih * n + i)) * state + dt * x * get("b", group + i);
            y += state * get("c", group + i);
          }
          e.y.push_back(y);
        }
    return e;
  };
  check(layer, values, reference, 1e-5);  // dozens of terms with some roundings and an exp() to 2 ulp each
}

TEST(SelectiveScan, IsTheRecurrenceOfMamba) {
  check_scan({.n = 16, .p = 1, .h = 300, .g = 1, .a_per_head = false});
  check_scan({.n = 5, .p = 1, .h = 3, .g = 1, .a_per_head = false});
}

TEST(SelectiveScan, IsTheRecurrenceOfMamba2) {
  check_scan({.n = 128, .p = 64, .h = 4, .g = 2, .a_per_head = true});
  check_scan({.n = 20, .p = 7, .h = 6, .g = 3, .a_per_head = true});
}

// --- delta_net

struct DeltaShape {
  int64_t k_dim, v_dim, n_k, n_v;
  KeyHeads key_heads;
};

Layer delta_layer(const DeltaShape& s) {
  Layer layer{.rows = {{"q", {s.k_dim, s.n_k}},
                       {"k", {s.k_dim, s.n_k}},
                       {"v", {s.v_dim, s.n_v}},
                       {"decay", {s.n_v}},
                       {"beta", {s.n_v}}},
              .weights = {},
              .n_state = s.k_dim * s.v_dim * s.n_v,
              .n_out = s.v_dim * s.n_v};
  const KeyHeads key_heads = s.key_heads;
  layer.op = [key_heads](GraphBuilder& b, NamedValues& v) {
    return b.delta_net(v["q"], v["k"], v["v"], v["decay"], v["beta"], v["state"], v["segments"], {key_heads, 0.5f});
  };
  return layer;
}

// Keys have norm 1, as in models. Otherwise the recurrence grows without bound.
NamedFloats delta_inputs(const Layer& layer, int64_t k_dim) {
  NamedFloats values = random_inputs(layer);
  for (float& v : values["decay"]) v = 0.5f + 0.5f * std::abs(v);
  for (float& v : values["beta"]) v = std::abs(v);
  std::vector<float>& k = values["k"];
  for (size_t i = 0; i < k.size(); i += static_cast<size_t>(k_dim)) {
    double square = 0;
    for (int64_t j = 0; j < k_dim; ++j) square += double{k[i + static_cast<size_t>(j)]} * k[i + static_cast<size_t>(j)];
    for (int64_t j = 0; j < k_dim; ++j) k[i + static_cast<size_t>(j)] /= static_cast<float>(std::sqrt(square));
  }
  return values;
}

// The chunked form of the gated delta rule (Yang et al. 2024), with one chunk for all tokens. The update of a token
// depends on earlier tokens through the inverse of a triangular matrix, not through a state.
Expected delta_in_one_chunk(const DeltaShape& s, const NamedFloats& v, int64_t begin, int64_t end) {
  const auto n = static_cast<size_t>(end - begin);
  Expected e;
  e.y.assign(n * static_cast<size_t>(s.v_dim * s.n_v), 0.0);
  e.state.assign(static_cast<size_t>(s.k_dim * s.v_dim * s.n_v), 0.0);
  for (int64_t h = 0; h < s.n_v; ++h) {
    const int64_t kh = s.key_heads == KeyHeads::tiled ? h % s.n_k : h / (s.n_v / s.n_k);
    const auto token = [&](size_t i) { return begin + static_cast<int64_t>(i); };
    const auto key = [&](const char* name, size_t i, int64_t d) {
      return double{v.at(name)[static_cast<size_t>((token(i) * s.n_k + kh) * s.k_dim + d)]};
    };
    const auto per_head = [&](const char* name, size_t i) {
      return double{v.at(name)[static_cast<size_t>(token(i) * s.n_v + h)]};
    };
    const auto value = [&](size_t i, int64_t d) {
      return double{v.at("v")[static_cast<size_t>((token(i) * s.n_v + h) * s.v_dim + d)]};
    };
    const auto dot = [&](const char* name, size_t i, size_t j) {
      double sum = 0;
      for (int64_t d = 0; d < s.k_dim; ++d) sum += key(name, i, d) * key("k", j, d);
      return sum;
    };
    Doubles gamma(n);  // cumulative
    for (size_t i = 0; i < n; ++i) gamma[i] = (i > 0 ? gamma[i - 1] : 0.0) + std::log(per_head("decay", i));
    // (I + A) V' = beta v by forward substitution, with A[i, j] = beta_i (k_i k_j) e^(gamma_i - gamma_j) for j < i.
    std::vector<Doubles> learnt(n, Doubles(static_cast<size_t>(s.v_dim)));
    for (size_t i = 0; i < n; ++i)
      for (int64_t d = 0; d < s.v_dim; ++d) {
        double sum = value(i, d);
        for (size_t j = 0; j < i; ++j)
          sum -= dot("k", i, j) * std::exp(gamma[i] - gamma[j]) * learnt[j][static_cast<size_t>(d)];
        learnt[i][static_cast<size_t>(d)] = per_head("beta", i) * sum;
      }
    for (size_t i = 0; i < n; ++i)
      for (int64_t d = 0; d < s.v_dim; ++d) {
        double sum = 0;
        for (size_t j = 0; j <= i; ++j)
          sum += dot("q", i, j) * std::exp(gamma[i] - gamma[j]) * learnt[j][static_cast<size_t>(d)];
        e.y[(i * static_cast<size_t>(s.n_v) + static_cast<size_t>(h)) * static_cast<size_t>(s.v_dim) +
            static_cast<size_t>(d)] = 0.5 * sum;
      }
    for (int64_t d = 0; d < s.v_dim; ++d)
      for (int64_t c = 0; c < s.k_dim; ++c)
        for (size_t j = 0; j < n; ++j)
          e.state[static_cast<size_t>((h * s.v_dim + d) * s.k_dim + c)] +=
              std::exp(gamma[n - 1] - gamma[j]) * key("k", j, c) * learnt[j][static_cast<size_t>(d)];
  }
  return e;
}

void check_delta(const DeltaShape& shape) {
  const Layer layer = delta_layer(shape);
  const auto reference = [&](const NamedFloats& v, int64_t begin, int64_t end) {
    return delta_in_one_chunk(shape, v, begin, end);
  };
  check(layer, delta_inputs(layer, shape.k_dim), reference, 2e-5);  // sums of up to 128 products, 13 tokens deep
}

TEST(DeltaNet, IsTheChunkedFormToo) {
  if (testing::runs_all_cases())
    check_delta({.k_dim = 128, .v_dim = 128, .n_k = 1, .n_v = 2, .key_heads = KeyHeads::grouped});
  check_delta({.k_dim = 20, .v_dim = 9, .n_k = 2, .n_v = 6, .key_heads = KeyHeads::grouped});
  check_delta({.k_dim = 16, .v_dim = 32, .n_k = 2, .n_v = 6, .key_heads = KeyHeads::tiled});
}

// --- rwkv7

void check_rwkv7(int64_t dim, int64_t n_heads, StateRead read = StateRead::after) {
  const std::vector<int64_t> heads{dim, n_heads};
  Layer layer{.rows = {{"r", heads}, {"w", heads}, {"k", heads}, {"v", heads}, {"a", heads}, {"b", heads}},
              .weights = {},
              .n_state = dim * dim * n_heads,
              .n_out = dim * n_heads};
  layer.op = [read](GraphBuilder& b, NamedValues& v) {
    return b.rwkv7(v["r"], v["w"], v["k"], v["v"], v["a"], v["b"], v["state"], v["segments"], {read});
  };
  NamedFloats values = random_inputs(layer);
  for (float& v : values["w"]) v = 0.5f + 0.5f * std::abs(v);
  for (const char* name : {"a", "b"})
    for (float& v : values[name]) v /= std::sqrt(static_cast<float>(dim));
  const auto reference = [=](const NamedFloats& v, int64_t begin, int64_t end) {
    Expected e;
    e.state.assign(static_cast<size_t>(dim * dim * n_heads), 0.0);
    for (int64_t t = begin; t < end; ++t)
      for (int64_t h = 0; h < n_heads; ++h) {
        const auto get = [&](const char* name, int64_t i) {
          return double{v.at(name)[static_cast<size_t>((t * n_heads + h) * dim + i)]};
        };
        for (int64_t i = 0; i < dim; ++i) {
          double* row = e.state.data() + (h * dim + i) * dim;
          double removed = 0, y = 0;
          for (int64_t j = 0; j < dim; ++j) removed += row[j] * get("a", j);
          for (int64_t j = 0; j < dim; ++j) {
            const double before = row[j];
            row[j] = before * get("w", j) + get("v", i) * get("k", j) + removed * get("b", j);
            y += (read == StateRead::before ? before : row[j]) * get("r", j);
          }
          e.y.push_back(y);
        }
      }
    return e;
  };
  check(layer, values, reference, 2e-5);  // sums of up to 128 products, 13 tokens deep
}

TEST(Rwkv7, IsItsRecurrence) {
  check_rwkv7(64, 2);
  check_rwkv7(128, 1);  // a head divided into several tasks
  check_rwkv7(10, 3);
}

TEST(Rwkv7, OutputsMayReadTheStateBeforeTheToken) {
  check_rwkv7(64, 2, StateRead::before);
  check_rwkv7(10, 3, StateRead::before);
}

// --- invalid segments

TEST(RecurrentOps, RunsOutOfRangeFailTheRun) {
  GraphRunner runner;
  const OwnedTensor state(runner.device().buffer_type(), "state", DType::f32, {4, 2}, {});
  const auto shifted = [&](const std::vector<int32_t>& segments) {
    GraphBuilder b;
    b.output(
        b.token_shift(b.input("x", DType::f32, {4, 3}), b.tensor(state.tensor), b.input("segments", DType::i32, {7})),
        "y");
    return runner.run_y(std::move(b).finish().value(),
                        {{"x", bytes_of(std::vector<float>(12, 1.0f))}, {"segments", bytes_of(segments)}});
  };
  ASSERT_OK(shifted({0, 3, -1, 0, 0, 1, 2}));
  EXPECT_ERROR(shifted({0, 3, -2, 0, 0, 1, 2}), "state -2, want 0 to 1");
  EXPECT_ERROR(shifted({0, 3, 2, 0, 0, 1, 2}), "state 2, want 0 to 1");
  EXPECT_ERROR(shifted({0, 3, 0, -1, 0, 1, 2}), "state -1, want 0 to 1");
  EXPECT_ERROR(shifted({0, 3, 0, 2, 0, 1, 2}), "state 2, want 0 to 1");
  EXPECT_ERROR(shifted({-1, 3, 0, 0, 0, 1, 2}), "first token -1");
  EXPECT_ERROR(shifted({1, 3, 0, 0, 0, 1, 2}), "last token 3");
  EXPECT_ERROR(shifted({2, -1, 0, 0, 0, 1, 2}), "tokens -1");
  EXPECT_ERROR(shifted({0, 3, 0, 0, 0, 1, 3}), "token 3");
  EXPECT_ERROR(shifted({0, 3, 0, 0, 0, -1, 2}), "token -1");
}

}  // namespace
}  // namespace tessera
