// Every operation on the device against the CPU: random shapes, strided operands, odd lengths.
#include <functional>
#include <limits>

#include "tests/vulkan/vulkan_support.h"

namespace tessera {
namespace {

using namespace testing;

using VulkanOps = VulkanTest;

// Both sum in f32, in different orders, and the device's exp may be a few units off: 1e-13 and thereabouts.
constexpr double kBound = 1e-11;
constexpr float kInf = std::numeric_limits<float>::infinity();

struct UnaryCase {
  const char* name;
  std::function<Value(GraphBuilder&, Value)> build;
};

const UnaryCase kUnary[] = {
    {"scale", [](GraphBuilder& b, Value x) { return b.scale(x, -1.7f); }},
    {"silu", [](GraphBuilder& b, Value x) { return b.silu(x); }},
    {"sigmoid", [](GraphBuilder& b, Value x) { return b.sigmoid(x); }},
    {"gelu", [](GraphBuilder& b, Value x) { return b.gelu(x); }},
    {"relu_squared", [](GraphBuilder& b, Value x) { return b.relu_squared(x); }},
    {"soft_cap", [](GraphBuilder& b, Value x) { return b.soft_cap(x, 3.0f); }},
    {"clamp", [](GraphBuilder& b, Value x) { return b.clamp(x, -0.5f, 2.0f); }},
    {"sqrt", [](GraphBuilder& b, Value x) { return b.sqrt(x); }},  // of negative values: NaN on both
    {"softplus", [](GraphBuilder& b, Value x) { return b.softplus(x); }},
    {"exp", [](GraphBuilder& b, Value x) { return b.exp(x); }},
    {"soft_max", [](GraphBuilder& b, Value x) { return b.soft_max(x); }},
    {"rms_norm", [](GraphBuilder& b, Value x) { return b.rms_norm(x, {}, 1e-5f); }},
    {"layer_norm", [](GraphBuilder& b, Value x) { return b.layer_norm(x, {}, {}, 1e-5f); }},
    {"l2_norm", [](GraphBuilder& b, Value x) { return b.l2_norm(x, 1e-6f); }},
    {"row_sum", [](GraphBuilder& b, Value x) { return b.row_sum(x); }},
    {"sum_squares", [](GraphBuilder& b, Value x) { return b.sum_squares(x); }},
    {"cast", [](GraphBuilder& b, Value x) { return b.cast(x, DType::f32); }},
    {"through f16", [](GraphBuilder& b, Value x) { return b.cast(b.cast(x, DType::f16), DType::f32); }},
    {"through bf16", [](GraphBuilder& b, Value x) { return b.cast(b.cast(x, DType::bf16), DType::f32); }},
};

TEST_F(VulkanOps, UnaryOpsAreTheCpus) {
  Rng rng(1);
  for (const UnaryCase& op : kUnary)
    for (const Shape& shape : {Shape{1}, Shape{67, 3}, Shape{130, 2, 3}, Shape{5, 0}}) {
      const NamedBytes inputs = {{"x", bytes_of(random_values(rng, shape.n_elements(), 8.0f))}};
      expect_as_on_cpu(
          {.tensors = {},
           .build = [&](GraphBuilder& b, const auto&) { b.output(op.build(b, b.input("x", DType::f32, shape)), "y"); },
           .inputs = inputs},
          kBound, std::string(op.name) + " " + to_string(shape));
      if (shape.empty()) continue;
      // Rows of every other element group: the first columns of wider ones.
      expect_as_on_cpu({.tensors = {},
                        .build =
                            [&](GraphBuilder& b, const auto&) {
                              const Value x = b.input("x", DType::f32, shape);
                              Layout layout = b.spec(x).layout;
                              layout.shape[0] = (shape[0] + 1) / 2;
                              b.output(op.build(b, b.view(x, layout, 0)), "y");
                            },
                        .inputs = inputs},
                       kBound, std::string(op.name) + " of a view of " + to_string(shape));
    }
}

TEST_F(VulkanOps, LargeAndStrangeValuesAreTheCpus) {
  const std::vector<float> values = {0.0f,
                                     -0.0f,
                                     1e-20f,
                                     -1e-20f,
                                     1e-3f,
                                     88.0f,
                                     -88.0f,
                                     200.0f,
                                     -200.0f,
                                     1e20f,
                                     -1e20f,
                                     kInf,
                                     std::numeric_limits<float>::quiet_NaN()};
  const auto n = static_cast<int64_t>(values.size());
  for (const UnaryCase& op : kUnary) {
    if (std::string(op.name).find("norm") != std::string::npos ||
        std::string(op.name).find("sum") != std::string::npos || std::string(op.name) == "soft_max")
      continue;                                   // of the whole row, which is no number
    if (std::string(op.name) == "exp") continue;  // e^88 is half of the sum of all
    expect_as_on_cpu({.tensors = {},
                      .build =
                          [&](GraphBuilder& b, const auto&) {
                            b.output(op.build(b, b.input("x", DType::f32, {1, n})), "y");
                          },
                      .inputs = {{"x", bytes_of(values)}}},
                     1e-9, std::string(op.name));
  }
}

struct BinaryCase {
  const char* name;
  std::function<Value(GraphBuilder&, Value, Value)> build;
  bool repeats;        // the second operand may be repeated
  bool repeats_inner;  // along rows too
};

const BinaryCase kBinary[] = {
    {"add", [](GraphBuilder& b, Value x, Value z) { return b.add(x, z); }, true, false},
    {"mul", [](GraphBuilder& b, Value x, Value z) { return b.mul(x, z); }, true, true},
    {"div", [](GraphBuilder& b, Value x, Value z) { return b.div(x, z); }, true, false},
    {"swiglu", [](GraphBuilder& b, Value x, Value z) { return b.swiglu(x, z); }, false, false},
    {"geglu", [](GraphBuilder& b, Value x, Value z) { return b.geglu(x, z); }, false, false},
    {"swiglu_oai", [](GraphBuilder& b, Value x, Value z) { return b.swiglu_oai(x, z); }, false, false},
};

TEST_F(VulkanOps, BinaryOpsAreTheCpus) {
  Rng rng(2);
  const Shape x{70, 3, 4};
  for (const BinaryCase& op : kBinary)
    for (const Shape& z : {x, Shape{70}, Shape{70, 1, 4}, Shape{70, 3}, Shape{1, 3, 4}, Shape{1}}) {
      if (z != x && !op.repeats) continue;
      if (z[0] == 1 && !op.repeats_inner) continue;
      expect_as_on_cpu({.tensors = {},
                        .build =
                            [&](GraphBuilder& b, const auto&) {
                              b.output(op.build(b, b.input("x", DType::f32, x), b.input("z", DType::f32, z)), "y");
                            },
                        .inputs = {{"x", bytes_of(random_values(rng, x.n_elements(), 9.0f))},
                                   {"z", bytes_of(random_values(rng, z.n_elements(), 9.0f))}}},
                       kBound, std::string(op.name) + " " + to_string(z));
    }
}

TEST_F(VulkanOps, NormsWithWeights) {
  Rng rng(3);
  const NamedBytes inputs = {{"x", bytes_of(random_values(rng, 77 * 5))},
                             {"w", bytes_of(random_values(rng, 77))},
                             {"c", bytes_of(random_values(rng, 77))}};
  for (const bool is_rms : {true, false})
    expect_as_on_cpu(
        {.tensors = {},
         .build =
             [&](GraphBuilder& b, const auto&) {
               const Value x = b.input("x", DType::f32, {77, 5}), w = b.input("w", DType::f32, {77});
               b.output(is_rms ? b.rms_norm(x, w, 1e-6f) : b.layer_norm(x, w, b.input("c", DType::f32, {77}), 1e-6f),
                        "y");
             },
         .inputs = inputs},
        kBound, is_rms ? "rms_norm" : "layer_norm");
}

TEST_F(VulkanOps, ConcatAddScaledTemperature) {
  Rng rng(4);
  expect_as_on_cpu(
      {.tensors = {},
       .build =
           [](GraphBuilder& b, const auto&) {
             b.output(b.concat(b.input("a", DType::f32, {3, 2, 4}), b.input("c", DType::f32, {5, 2, 4})), "y");
           },
       .inputs = {{"a", bytes_of(random_values(rng, 24))}, {"c", bytes_of(random_values(rng, 40))}}},
      0, "concat");
  for (const int64_t d_rows : {1, 3})
    expect_as_on_cpu({.tensors = {},
                      .build =
                          [&](GraphBuilder& b, const auto&) {
                            b.output(
                                b.add_scaled(b.input("a", DType::f32, {40, 3}), b.input("d", DType::f32, {40, d_rows}),
                                             b.input("s", DType::f32, {1, 3}), 0.7f),
                                "y");
                          },
                      .inputs = {{"a", bytes_of(random_values(rng, 120))},
                                 {"d", bytes_of(random_values(rng, 40 * d_rows))},
                                 {"s", bytes_of<float>({0.5f, 0.0f, -2.0f})}}},
                     kBound, "add_scaled");
  expect_as_on_cpu({.tensors = {},
                    .build =
                        [](GraphBuilder& b, const auto&) {
                          b.output(b.temperature(b.input("p", DType::i32, {6}), {.beta = 0.5f, .length = 100}), "y");
                        },
                    .inputs = {{"p", bytes_of<int32_t>({0, 99, 100, 199, 250, 100000})}}},
                   kBound, "temperature");
}

// Angles of thousands of turns, YaRN, factors; both kinds of pairs, rows longer than what is rotated.
TEST_F(VulkanOps, RopeIsTheCpusAtAnyPosition) {
  Rng rng(5);
  const std::vector<int32_t> positions = {0, 1, 2, 1000, 131071, 1 << 24, -5};
  const auto n = static_cast<int64_t>(positions.size());
  const std::vector<float> factors = {1, 1, 1.5f, 2, 3, 0.01f, 8, 16};
  for (const bool has_yarn : {false, true})
    for (const RopePairs pairs : {RopePairs::adjacent, RopePairs::halves}) {
      RopeTableParams params{.n_rot = 16, .freq_base = 10000.0f, .freq_scale = 0.25f, .magnitude = 1.25f};
      if (has_yarn) params.yarn_ext = 1.0f, params.yarn_low = 2.0f, params.yarn_high = 6.0f;
      expect_as_on_cpu({.tensors = {{"factors", DType::f32, {8}, bytes_of(factors)}},
                        .build =
                            [&](GraphBuilder& b, const std::vector<Value>& tensors) {
                              const Value table = b.rope_table(b.input("p", DType::i32, {n}), tensors[0], params);
                              b.output(b.rope(b.input("x", DType::f32, {20, 3, n}), table, pairs), "y");
                            },
                        .inputs = {{"p", bytes_of(positions)}, {"x", bytes_of(random_values(rng, 20 * 3 * n))}}},
                       kBound, "rope");
    }
}

TEST_F(VulkanOps, IdsOutOfRangeFailTheRun) {
  for (const int32_t id : {-1, 4})
    EXPECT_ERROR(run_on(*vulkan_device(), {.tensors = {{"table", DType::f32, {8, 4}, {}}},
                                           .build =
                                               [](GraphBuilder& b, const std::vector<Value>& tensors) {
                                                 b.output(b.get_rows(tensors[0], b.input("ids", DType::i32, {2})), "y");
                                               },
                                           .inputs = {{"ids", bytes_of<int32_t>({1, id})}}}),
                 "get_rows y: row " + std::to_string(id) + ", want 0 to 3");
}

TEST_F(VulkanOps, AnUnsupportedNodeIsNamed) {
  EXPECT_ERROR(run_on(*vulkan_device(), {.tensors = {{"cache", DType::q4_k, {256, 64, 1, 1}, {}}},
                                         .build =
                                             [](GraphBuilder& b, const std::vector<Value>& tensors) {
                                               b.output(b.kv_load(tensors[0], b.input("c", DType::i32, {1}), KvSide::k),
                                                        "y");
                                             },
                                         .inputs = {}}),
               "vulkan:0 cannot run kv_load cache q4_K [256, 64]");
}

}  // namespace
}  // namespace tessera
