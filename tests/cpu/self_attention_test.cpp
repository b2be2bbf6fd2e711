// Attention among the tokens of a batch: outputs against the formula in double precision, gradients against central
// differences of that formula, and the same bits for any number of threads and any other tokens in the batch.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "tessera/graph/autodiff.h"
#include "tessera/graph/op_info.h"
#include "tests/support/graph_runner.h"

namespace tessera {
namespace {

using namespace testing;

enum class Order { sequence_by_sequence, interleaved, shuffled };

struct AttentionCase {
  const char* name;
  int64_t k_dim = 8, v_dim = 8, n_heads = 2, n_heads_kv = 2, n_tokens = 150;
  AttentionParams params{};
  bool has_sinks = false;
  int n_sequences = 1;
  Order order = Order::sequence_by_sequence;
};

void PrintTo(const AttentionCase& c, std::ostream* out) { *out << c.name; }

constexpr float kScale = 0.4f;

// 150 tokens are two whole blocks of 64 and a part; 13 is a part of a group.
const AttentionCase kCases[] = {
    {.name = "few_tokens", .n_tokens = 13, .params = {.scale = kScale}},
    {.name = "causal", .params = {.scale = kScale}},
    {.name = "causal_whole_blocks", .k_dim = 64, .v_dim = 64, .n_tokens = 256, .params = {.scale = 0.1f}},
    {.name = "grouped", .k_dim = 20, .v_dim = 36, .n_heads = 6, .params = {.scale = kScale}},
    {.name = "bidirectional", .params = {.scale = kScale, .causal = false}},
    {.name = "window", .n_tokens = 200, .params = {.scale = kScale, .window = 40}},
    {.name = "chunks", .n_tokens = 200, .params = {.scale = kScale, .window = 40, .chunked = true}},
    {.name = "window_both_ways", .n_tokens = 200, .params = {.scale = kScale, .causal = false, .window = 70}},
    {.name = "soft_cap", .params = {.scale = 1.5f, .soft_cap = 2.0f}},
    {.name = "alibi", .n_heads = 6, .params = {.scale = kScale, .max_alibi = 8.0f}},
    {.name = "alibi_both_ways", .n_heads = 6, .params = {.scale = kScale, .causal = false, .max_alibi = 8.0f}},
    {.name = "sinks", .n_heads = 4, .params = {.scale = kScale}, .has_sinks = true},
    {.name = "latent_v",
     .k_dim = 24,
     .v_dim = 18,
     .n_heads = 3,
     .n_heads_kv = 1,
     .params = {.scale = kScale, .latent_v = 18}},
    {.name = "two_sequences", .n_tokens = 130, .params = {.scale = kScale}, .n_sequences = 2},
    {.name = "interleaved", .params = {.scale = kScale}, .n_sequences = 2, .order = Order::interleaved},
    {.name = "any_order",
     .n_tokens = 200,
     .params = {.scale = kScale, .window = 50},
     .has_sinks = true,
     .n_sequences = 2,
     .order = Order::shuffled},
    {.name = "everything",
     .k_dim = 12,
     .v_dim = 40,
     .n_heads = 6,
     .n_heads_kv = 3,
     .n_tokens = 170,
     .params = {.scale = 1.0f, .window = 90, .soft_cap = 3.0f, .max_alibi = 4.0f},
     .has_sinks = true,
     .n_sequences = 3,
     .order = Order::interleaved}};

/// The operands of a case. q, k and v of a token are one row of x, so that the kernels get strides.
struct Operands {
  explicit Operands(const AttentionCase& c) : c(c), tokens(static_cast<size_t>(c.n_tokens)) {
    Rng rng(static_cast<uint64_t>(c.n_tokens * 31 + c.k_dim));
    x = random_values(rng, n_row() * c.n_tokens);
    dy = random_values(rng, c.v_dim * c.n_heads * c.n_tokens);
    sinks = random_values(rng, c.n_heads, 2.0f);
    std::iota(tokens.begin(), tokens.end(), 0);
    if (c.order == Order::shuffled)
      for (size_t i = tokens.size(); i > 1; --i) std::swap(tokens[i - 1], tokens[rng.next_u32() % i]);
    const int64_t per_sequence = (c.n_tokens + c.n_sequences - 1) / c.n_sequences;
    for (const int32_t i : tokens) {
      const bool is_interleaved = c.order == Order::interleaved;
      sequences.push_back(static_cast<int32_t>(is_interleaved ? i % c.n_sequences : i / per_sequence));
      positions.push_back(static_cast<int32_t>(is_interleaved ? i / c.n_sequences : i % per_sequence) + 5);
    }
  }

  bool has_v() const { return c.params.latent_v == 0; }
  int64_t n_q() const { return c.k_dim * c.n_heads; }
  int64_t n_k() const { return c.k_dim * c.n_heads_kv; }
  int64_t n_v() const { return has_v() ? c.v_dim * c.n_heads_kv : 0; }
  int64_t n_row() const { return n_q() + n_k() + n_v(); }

  AttentionCase c;
  std::vector<int32_t> tokens, positions, sequences;
  std::vector<float> x, dy, sinks;
};

struct Inputs {
  Value q, k, v, positions, sequences, sinks, dy;
};

Inputs inputs_of(GraphBuilder& b, const Operands& o) {
  const AttentionCase& c = o.c;
  const Value x = b.input("x", DType::f32, {o.n_row(), c.n_tokens});
  const auto heads = [&](int64_t first, int64_t dim, int64_t n_heads) {
    const int64_t nb = o.n_row() * 4;
    return b.view(x, {.shape = {dim, n_heads, c.n_tokens}, .nb = {4, dim * 4, nb, nb * c.n_tokens}},
                  static_cast<size_t>(first * 4));
  };
  Inputs in;
  in.q = heads(0, c.k_dim, c.n_heads);
  in.k = heads(o.n_q(), c.k_dim, c.n_heads_kv);
  if (o.has_v()) in.v = heads(o.n_q() + o.n_k(), c.v_dim, c.n_heads_kv);
  in.positions = b.input("positions", DType::i32, {c.n_tokens});
  in.sequences = b.input("sequences", DType::i32, {c.n_tokens});
  const Value sinks = b.input("sinks", DType::f32, {c.n_heads});
  if (c.has_sinks) in.sinks = sinks;
  in.dy = b.input("dy", DType::f32, {c.v_dim, c.n_heads, c.n_tokens});
  return in;
}

Graph forward_graph(const Operands& o) {
  GraphBuilder b;
  const Inputs in = inputs_of(b, o);
  b.output(b.self_attention(in.q, in.k, in.v, in.positions, in.sequences, in.sinks, o.c.params), "y");
  return std::move(b).finish().value();
}

Graph backward_graph(const Operands& o) {
  GraphBuilder b;
  const Inputs in = inputs_of(b, o);
  b.output(b.self_attention_grad(in.q, in.k, in.v, in.positions, in.sequences, in.sinks, in.dy, o.c.params), "y");
  return std::move(b).finish().value();
}

NamedBytes named_bytes(const Operands& o) {
  return {{"x", bytes_of(o.x)},
          {"positions", bytes_of(o.positions)},
          {"sequences", bytes_of(o.sequences)},
          {"sinks", bytes_of(o.sinks)},
          {"dy", bytes_of(o.dy)}};
}

/// The formula, in double precision.
class Reference {
 public:
  explicit Reference(const Operands& o) : o_(o), x_(o.x.begin(), o.x.end()), sinks_(o.sinks.begin(), o.sinks.end()) {}

  std::vector<double> outputs() const {
    std::vector<double> y;
    for (int64_t t = 0; t < o_.c.n_tokens; ++t)
      for (int64_t h = 0; h < o_.c.n_heads; ++h) {
        const std::vector<double> row = output(h, t);
        y.insert(y.end(), row.begin(), row.end());
      }
    return y;
  }

  double& q(int64_t h, int64_t t, int64_t i) { return at(t, h * o_.c.k_dim + i); }
  double& k(int64_t h, int64_t t, int64_t i) { return at(t, o_.n_q() + h * o_.c.k_dim + i); }
  double& v(int64_t h, int64_t t, int64_t i) { return at(t, o_.n_q() + o_.n_k() + h * o_.c.v_dim + i); }
  double& sink(int64_t h) { return sinks_[static_cast<size_t>(h)]; }

  /// The central difference of the sum of dy times the outputs of heads [first, end) with respect to x. `token` >= 0:
  /// only the outputs of this token.
  double slope(double& x, int64_t first, int64_t end, int64_t token = -1) {
    constexpr double kStep = 1e-4;
    const double middle = x;
    const auto loss_at = [&](double value) {
      x = value;
      double sum = 0;
      for (int64_t t = token < 0 ? 0 : token; t < (token < 0 ? o_.c.n_tokens : token + 1); ++t)
        for (int64_t h = first; h < end; ++h) sum += loss(h, t);
      return sum;
    };
    const double slope = (loss_at(middle + kStep) - loss_at(middle - kStep)) / (2 * kStep);
    x = middle;
    return slope;
  }

 private:
  double& at(int64_t t, int64_t i) { return x_[static_cast<size_t>(t * o_.n_row() + i)]; }
  const double* row(int64_t t, int64_t i) const { return x_.data() + t * o_.n_row() + i; }

  bool sees(int64_t query, int64_t key) const {
    const auto q = static_cast<size_t>(query), k = static_cast<size_t>(key);
    if (o_.sequences[q] != o_.sequences[k]) return false;
    const int64_t distance = o_.positions[q] - o_.positions[k];
    if (o_.c.params.causal && distance < 0) return false;
    const int64_t n = o_.c.params.window;
    if (o_.c.params.chunked) return o_.positions[q] / n == o_.positions[k] / n;
    return o_.c.params.window == 0 || std::abs(distance) < o_.c.params.window;
  }

  double score(int64_t h, int64_t query, int64_t key) const {
    const AttentionParams& p = o_.c.params;
    const int64_t head_kv = h / (o_.c.n_heads / o_.c.n_heads_kv);
    const double *q = row(query, h * o_.c.k_dim), *k = row(key, o_.n_q() + head_kv * o_.c.k_dim);
    double s = p.scale * std::inner_product(q, q + o_.c.k_dim, k, 0.0);
    if (p.soft_cap != 0) s = p.soft_cap * std::tanh(s / p.soft_cap);
    // The slopes of 6 heads are the slopes of 4 heads, then every other one of the slopes of 8 heads.
    const double exponent = h < 4 ? static_cast<double>(h + 1) / 4 : static_cast<double>(2 * (h - 4) + 1) / 8;
    const double slope = p.max_alibi == 0 ? 0 : std::exp2(-p.max_alibi * exponent);
    return s - slope * std::abs(o_.positions[static_cast<size_t>(query)] - o_.positions[static_cast<size_t>(key)]);
  }

  std::vector<double> output(int64_t h, int64_t t) const {
    const int64_t head_kv = h / (o_.c.n_heads / o_.c.n_heads_kv);
    std::vector<double> out(static_cast<size_t>(o_.c.v_dim));
    double sum = o_.c.has_sinks ? std::exp(sinks_[static_cast<size_t>(h)]) : 0;
    for (int64_t key = 0; key < o_.c.n_tokens; ++key) {
      if (!sees(t, key)) continue;
      const double weight = std::exp(score(h, t, key));
      const double* v = o_.has_v() ? row(key, o_.n_q() + o_.n_k() + head_kv * o_.c.v_dim)
                                   : row(key, o_.n_q() + (head_kv + 1) * o_.c.k_dim - o_.c.v_dim);
      sum += weight;
      for (size_t i = 0; i < out.size(); ++i) out[i] += weight * v[i];
    }
    for (double& value : out) value /= sum;
    return out;
  }

  double loss(int64_t h, int64_t t) const {
    const std::vector<double> out = output(h, t);
    const float* dy = o_.dy.data() + (t * o_.c.n_heads + h) * o_.c.v_dim;
    return std::inner_product(out.begin(), out.end(), dy, 0.0);
  }

  const Operands& o_;
  std::vector<double> x_, sinks_;
};

class SelfAttention : public ::testing::TestWithParam<AttentionCase> {};
INSTANTIATE_TEST_SUITE_P(Cases, SelfAttention, ::testing::ValuesIn(kCases),
                         [](const auto& param) { return param.param.name; });

TEST_P(SelfAttention, IsTheFormula) {
  const Operands o(GetParam());
  const std::vector<double> expected = Reference(o).outputs();
  run_everywhere([&](const Device&) { return forward_graph(o); }, named_bytes(o),
                 [&](const std::vector<float>& y) { expect_near(y, expected, 1e-5); });  // f32 sums of 256 terms
}

/// The expected gradients by place in the result: all for few tokens, otherwise one per `step`, because each takes a
/// whole pass. `step` is coprime to all dimensions.
std::map<int64_t, double> slopes_of(const Operands& o) {
  const AttentionCase& c = o.c;
  Reference reference(o);
  std::map<int64_t, double> slopes;
  int64_t count = 0;
  const int64_t sparser = testing::all_or_few(1, 11);
  const auto is_due = [&](int64_t step) { return c.n_tokens < 20 || ++count % (step * sparser) == 0; };
  for (int64_t t = 0; t < c.n_tokens; ++t)
    for (int64_t h = 0; h < c.n_heads; ++h)
      for (int64_t i = 0; i < c.k_dim; ++i)
        if (is_due(7)) slopes[(t * c.n_heads + h) * c.k_dim + i] = reference.slope(reference.q(h, t, i), h, h + 1, t);
  const int64_t dk = o.n_q() * c.n_tokens, dv = dk + o.n_k() * c.n_tokens, dsinks = dv + o.n_v() * c.n_tokens;
  const int64_t group = c.n_heads / c.n_heads_kv, step = dv - dk > 10000 ? 1009 : 101;
  for (int64_t t = 0; t < c.n_tokens; ++t)
    for (int64_t h = 0; h < c.n_heads_kv; ++h) {
      const int64_t row = t * c.n_heads_kv + h, first = h * group, end = first + group;
      for (int64_t i = 0; i < c.k_dim; ++i)
        if (is_due(step)) slopes[dk + row * c.k_dim + i] = reference.slope(reference.k(h, t, i), first, end);
      for (int64_t i = 0; o.has_v() && i < c.v_dim; ++i)
        if (is_due(step)) slopes[dv + row * c.v_dim + i] = reference.slope(reference.v(h, t, i), first, end);
    }
  for (int64_t h = 0; c.has_sinks && h < c.n_heads; ++h)
    slopes[dsinks + h] = reference.slope(reference.sink(h), h, h + 1);
  return slopes;
}

TEST_P(SelfAttention, HasTheGradientsOfTheFormula) {
  const Operands o(GetParam());
  const std::map<int64_t, double> slopes = slopes_of(o);
  run_everywhere([&](const Device&) { return backward_graph(o); }, named_bytes(o),
                 [&](const std::vector<float>& y) {
                   const int64_t n_sinks = o.c.has_sinks ? o.c.n_heads : 0;
                   ASSERT_EQ(static_cast<int64_t>(y.size()), o.n_row() * o.c.n_tokens + n_sinks);
                   float largest = 0;
                   for (const float d : y) largest = std::max(largest, std::abs(d));
                   for (const auto& [at, slope] : slopes)  // f32 sums over up to 256 tokens and 3 heads
                     EXPECT_NEAR(y[static_cast<size_t>(at)], slope, 5e-6 * double{largest}) << "at " << at;
                 });
}

/// Rows [n, t] of the tokens with sequence `id`, in their order.
std::vector<float> rows_of_sequence(const Operands& o, int32_t id, std::span<const float> rows, int64_t n) {
  std::vector<float> taken;
  for (int64_t t = 0; t < o.c.n_tokens; ++t)
    if (o.sequences[static_cast<size_t>(t)] == id)
      taken.insert(taken.end(), rows.begin() + t * n, rows.begin() + (t + 1) * n);
  return taken;
}

TEST(SelfAttentionBits, OfASequenceDoNotDependOnTheOthers) {
  const Operands both({.name = "",
                       .n_heads = 4,
                       .n_tokens = 300,
                       .params = {.scale = kScale, .window = 100},
                       .n_sequences = 2,
                       .order = Order::interleaved});
  for (Setting& setting : all_settings()) {
    ASSERT_OK_AND_ASSIGN(const auto y, setting.runner.run_y(forward_graph(both), named_bytes(both)));
    ASSERT_OK_AND_ASSIGN(const auto d, setting.runner.run_y(backward_graph(both), named_bytes(both)));
    for (const int32_t id : {0, 1}) {
      Operands one({.name = "", .n_heads = 4, .params = both.c.params});
      const int64_t n_out = one.c.v_dim * one.c.n_heads;
      one.x = rows_of_sequence(both, id, both.x, both.n_row());
      one.dy = rows_of_sequence(both, id, both.dy, n_out);
      ASSERT_OK_AND_ASSIGN(const auto y_one, setting.runner.run_y(forward_graph(one), named_bytes(one)));
      ASSERT_OK_AND_ASSIGN(const auto d_one, setting.runner.run_y(backward_graph(one), named_bytes(one)));
      EXPECT_TRUE(same_bytes(y_one, rows_of_sequence(both, id, y, n_out)));
      const std::span<const float> all(d);
      const auto n = static_cast<size_t>(both.c.n_tokens);
      std::vector<float> d_both = rows_of_sequence(both, id, all, both.n_q());
      for (const auto& [first, width] : {std::pair{both.n_q(), both.n_k()}, {both.n_q() + both.n_k(), both.n_v()}}) {
        const auto part = rows_of_sequence(both, id, all.subspan(static_cast<size_t>(first) * n), width);
        d_both.insert(d_both.end(), part.begin(), part.end());
      }
      EXPECT_TRUE(same_bytes(d_one, d_both));
    }
  }
}

TEST(SelfAttentionBits, DoNotDependOnWhatMemoryHeld) {
  const Operands o({.name = "", .n_tokens = 150, .params = {.scale = kScale, .soft_cap = 2.0f}, .has_sinks = true});
  const Shape q{o.c.k_dim, o.c.n_heads, o.c.n_tokens};
  const auto graph = [&](bool has_nan) {
    GraphBuilder b;
    const Inputs in = inputs_of(b, o);
    const auto gradients = [&](Value q_or_nan) {
      return b.self_attention_grad(q_or_nan, in.k, in.v, in.positions, in.sequences, in.sinks, in.dy, o.c.params);
    };
    // The gradients of the first are dead once they are summed, and the next ones reuse their memory.
    if (has_nan) b.output(b.row_sum(gradients(b.input("nan", DType::f32, q))), "sum");
    b.output(gradients(in.q), "y");
    return std::move(b).finish().value();
  };
  NamedBytes inputs = named_bytes(o);
  inputs["nan"] =
      bytes_of(std::vector<float>(static_cast<size_t>(q.n_elements()), std::numeric_limits<float>::quiet_NaN()));
  for (Setting& setting : all_settings()) {
    ASSERT_OK_AND_ASSIGN(const auto clean, setting.runner.run_y(graph(false), inputs));
    ASSERT_OK_AND_ASSIGN(const auto y, setting.runner.run_y(graph(true), inputs));
    EXPECT_TRUE(same_bytes(y, clean)) << setting.isa;
  }
}

TEST(SelfAttentionGradient, GoesToItsOperands) {
  const AttentionCase c{.name = "", .n_heads = 4, .n_tokens = 70, .params = {.scale = kScale}, .has_sinks = true};
  const Operands o(c);
  Rng rng(3);
  GraphRunner runner;
  const BufferType& memory = runner.device().buffer_type();
  const std::pair<const char*, Shape> shapes[] = {{"q", {c.k_dim, c.n_heads, c.n_tokens}},
                                                  {"k", {c.k_dim, c.n_heads_kv, c.n_tokens}},
                                                  {"v", {c.v_dim, c.n_heads_kv, c.n_tokens}},
                                                  {"s", {c.n_heads}}};
  std::deque<OwnedTensor> owned;
  std::vector<const Tensor*> parameters;
  for (const auto& [name, shape] : shapes) {
    owned.emplace_back(memory, name, DType::f32, shape, testing::bytes_of(random_values(rng, shape.n_elements())));
    parameters.push_back(&owned.back().tensor);
  }
  GraphBuilder b;
  std::vector<Value> leaves;
  for (const Tensor* parameter : parameters) leaves.push_back(b.tensor(*parameter));
  const Value positions = b.input("positions", DType::i32, {c.n_tokens}),
              sequences = b.input("sequences", DType::i32, {c.n_tokens}),
              dy = b.input("dy", DType::f32, {c.v_dim, c.n_heads, c.n_tokens});
  b.output(b.self_attention_grad(leaves[0], leaves[1], leaves[2], positions, sequences, leaves[3], dy, c.params),
           "all");
  const Value y = b.self_attention(leaves[0], leaves[1], leaves[2], positions, sequences, leaves[3], c.params);
  add_gradients(b, y, dy, parameters, [&](const Tensor& parameter, Value gradient) {
    b.output(b.scale(gradient, 1.0f), "d" + parameter.name);
  });
  ASSERT_OK_AND_ASSIGN(auto graph, std::move(b).finish());
  ASSERT_OK_AND_ASSIGN(auto outputs, runner.run(std::move(graph), named_bytes(o)));
  Bytes joined;
  for (const char* name : {"dq", "dk", "dv", "ds"})
    joined.insert(joined.end(), outputs.at(name).begin(), outputs.at(name).end());
  EXPECT_EQ(joined, outputs.at("all"));
}

TEST(SelfAttentionRun, OfNoTokensGivesNothing) {
  Operands o({.name = "", .n_tokens = 0, .params = {.scale = kScale}, .has_sinks = true});
  run_everywhere([&](const Device&) { return forward_graph(o); }, named_bytes(o),
                 [](const std::vector<float>& y) { EXPECT_TRUE(y.empty()); });
  run_everywhere([&](const Device&) { return backward_graph(o); }, named_bytes(o),
                 [](const std::vector<float>& y) {
                   EXPECT_EQ(y, (std::vector<float>{0, 0}));
                 });
}

TEST(SelfAttentionRun, RefusesPositionsOutOfRange) {
  for (const int32_t bad : {-1, 1 << 24}) {
    Operands o({.name = "", .n_tokens = 5, .params = {.scale = kScale}});
    o.positions[3] = bad;
    GraphRunner runner("", 2);
    const std::string why = "position " + std::to_string(bad) + ", want 0 to 16777215";
    EXPECT_ERROR(runner.run_y(forward_graph(o), named_bytes(o)), why);
    EXPECT_ERROR(runner.run_y(backward_graph(o), named_bytes(o)), why);
  }
}

}  // namespace
}  // namespace tessera
