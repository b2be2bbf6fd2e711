// The kernels of norms, rope, rows, caches and elementwise operations, which read 16 bytes at a time where they can:
// rows of any length and alignment, and blocks of several rows that are not all there.
#include "tests/gpu/ops_testing.h"

namespace tessera {
namespace {

using namespace testing;

using CudaSmall = GpuTest;

// The first n columns of wider rows, so that few rows are aligned. Input "wide" has the rows of x, with `gap` more
// elements each.
Value columns(GraphBuilder& b, Value wide, int64_t n) {
  Layout layout = b.spec(wide).layout;
  layout.shape[0] = n;
  return b.view(wide, layout, 0);
}
std::vector<float> with_gaps(const std::vector<float>& x, int64_t n, int64_t gap) {
  std::vector<float> wide;
  for (auto row = x.begin(); row != x.end(); row += n) {
    wide.insert(wide.end(), row, row + n);
    wide.insert(wide.end(), static_cast<size_t>(gap), -3.0f);
  }
  return wide;
}

// Runs an operation on x of a shape, once on aligned rows and once on others, against the CPU. The bits of both are the
// same.
void expect_any_alignment(const std::string& what, const Shape& shape,
                          const std::function<Value(GraphBuilder&, Value)>& op, const NamedBytes& others = {}) {
  Rng rng(7);
  const int64_t n = shape[0];
  const std::vector<float> x = random_values(rng, shape.n_elements(), 3.0f);
  Bytes first;
  for (const int64_t gap : {0, 1, 4}) {
    Shape wide = shape;
    wide[0] = n + gap;
    TestGraph test{.tensors = {},
                   .build = [&](GraphBuilder& b,
                                const auto&) { b.output(op(b, columns(b, b.input("x", DType::f32, wide), n)), "y"); },
                   .inputs = others};
    test.inputs["x"] = bytes_of(with_gaps(x, n, gap));
    if (gap == 0) expect_as_on_cpu(test, kRowBound, what + " " + to_string(shape));
    ASSERT_OK_AND_ASSIGN(const TestOutputs got, run_on(*gpu_device(), test));
    if (gap == 0) first = got.outputs.at("y");
    EXPECT_EQ(got.outputs.at("y"), first) << what << " " << to_string(shape) << ", gap " << gap;
  }
}

// Short rows, of which blocks have several; rows in registers; rows that are read more than once.
TEST_F(CudaSmall, NormsOfRowsOfAnyLength) {
  Rng rng(1);
  for (const auto& [n, n_rows] : std::vector<std::pair<int64_t, int64_t>>{{1, 3},
                                                                          {64, 17},
                                                                          {255, 9},
                                                                          {256, 8},
                                                                          {257, 3},
                                                                          {2048, 2},
                                                                          {2051, 2},
                                                                          {4096, 1},
                                                                          {4100, 2},
                                                                          {8192, 1},
                                                                          {8203, 2},
                                                                          {17000, 2}}) {
    const Shape shape{n, n_rows};
    const NamedBytes weights = {{"w", bytes_of(random_values(rng, n))}, {"c", bytes_of(random_values(rng, n))}};
    const auto vector = [n](GraphBuilder& b, const char* name) { return b.input(name, DType::f32, {n}); };
    expect_any_alignment("rms_norm", shape, [](GraphBuilder& b, Value x) { return b.rms_norm(x, {}, 1e-5f); });
    expect_any_alignment(
        "rms_norm with weights", shape, [&](GraphBuilder& b, Value x) { return b.rms_norm(x, vector(b, "w"), 1e-5f); },
        weights);
    expect_any_alignment(
        "layer_norm", shape,
        [&](GraphBuilder& b, Value x) { return b.layer_norm(x, vector(b, "w"), vector(b, "c"), 1e-2f); }, weights);
    expect_any_alignment("l2_norm", shape, [](GraphBuilder& b, Value x) { return b.l2_norm(x, 1e-6f); });
    expect_any_alignment("soft_max", shape, [](GraphBuilder& b, Value x) { return b.soft_max(x); });
    expect_any_alignment("row_sum", shape, [](GraphBuilder& b, Value x) { return b.row_sum(x); });
  }
}

TEST_F(CudaSmall, ElementwiseOnRowsOfAnyLength) {
  Rng rng(2);
  for (const auto& [n, n_rows] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 5}, {3, 2}, {4, 3}, {127, 2}, {1024, 2}, {1027, 3}, {2052, 2}, {4099, 1}}) {
    const Shape shape{n, n_rows};
    expect_any_alignment("scale", shape, [](GraphBuilder& b, Value x) { return b.scale(x, 0.7f); });
    expect_any_alignment("silu", shape, [](GraphBuilder& b, Value x) { return b.silu(x); });
    expect_any_alignment("sum with itself", shape, [](GraphBuilder& b, Value x) { return b.add(x, x); });
    // Operands that are repeated along any extent.
    for (const Shape& other : {shape, Shape{n}, Shape{1, n_rows}, Shape{1}})
      expect_any_alignment("mul by " + to_string(other), shape,
                           [&](GraphBuilder& b, Value x) { return b.mul(x, b.input("b", DType::f32, other)); },
                           {{"b", bytes_of(random_values(rng, other.n_elements()))}});
    expect_any_alignment("swiglu", shape,
                         [&](GraphBuilder& b, Value x) { return b.swiglu(x, b.input("b", DType::f32, shape)); },
                         {{"b", bytes_of(random_values(rng, shape.n_elements()))}});
  }
}

// Heads of several sizes; 5 heads of 7 tokens do not fill the last block.
TEST_F(CudaSmall, RopeOnHeadsOfAnySize) {
  const std::vector<int32_t> positions = {0, 1, 5, 77, 1000, 4095, 3};
  const auto n_tokens = static_cast<int64_t>(positions.size());
  for (const auto& [dim, n_rot] : std::vector<std::pair<int64_t, int64_t>>{
           {8, 8}, {64, 64}, {128, 128}, {256, 256}, {192, 64}, {13, 12}, {80, 20}, {66, 64}})
    for (const RopePairs pairs : {RopePairs::adjacent, RopePairs::halves})
      for (const bool is_inverse : {false, true})
        expect_any_alignment("rope " + std::to_string(n_rot), {dim, 5, n_tokens},
                             [&, n = n_rot](GraphBuilder& b, Value x) {
                               const Value table = b.rope_table(b.input("p", DType::i32, {n_tokens}), {}, {.n_rot = n});
                               return b.rope(x, table, pairs, is_inverse);
                             },
                             {{"p", bytes_of(positions)}});
}

// q and k, and k and v, share a launch: each has blocks that are not full.
TEST_F(CudaSmall, StepsOfALaunchHaveBlocksOfTheirOwn) {
  Rng rng(3);
  const std::vector<int32_t> positions = {4, 9, 2}, cells = {64, 3, 5};
  const Bytes cache(nbytes(DType::f16, {64, 64, 3, 2}).value());
  const TestGraph test{
      .tensors = {{"k_cache", DType::f16, {64, 64, 3, 2}, cache}, {"v_cache", DType::f16, {64, 64, 3, 2}, cache}},
      .build =
          [](GraphBuilder& b, const std::vector<Value>& tensors) {
            const Value table = b.rope_table(b.input("p", DType::i32, {3}), {}, {.n_rot = 64});
            const Value cells = b.input("cells", DType::i32, {3});
            const Value q = b.input("q", DType::f32, {64, 7, 3}), k = b.input("k", DType::f32, {64, 3, 3});
            const Value q_norm = b.rms_norm(q, {}, 1e-5f), k_norm = b.rms_norm(k, {}, 1e-5f);
            const Value q_turned = b.rope(q_norm, table, RopePairs::halves);
            const Value k_turned = b.rope(k_norm, table, RopePairs::halves);
            const Value k_cache = b.kv_store(tensors[0], k, cells, KvSide::v);
            const Value v_cache = b.kv_store(tensors[1], b.input("v", DType::f32, {64, 3, 3}), cells, KvSide::v);
            b.output(q_turned, "q_turned");
            b.output(k_turned, "k_turned");
            b.output(b.kv_load(k_cache, cells, KvSide::v), "k_rows");
            b.output(b.kv_load(v_cache, cells, KvSide::v), "v_rows");
          },
      .inputs = {{"p", bytes_of(positions)},
                 {"cells", bytes_of(cells)},
                 {"q", bytes_of(random_values(rng, 64 * 7 * 3))},
                 {"k", bytes_of(random_values(rng, 64 * 3 * 3))},
                 {"v", bytes_of(random_values(rng, 64 * 3 * 3))}}};
  const auto cpu = cpu::create_device("").value();
  ASSERT_OK_AND_ASSIGN(const TestOutputs expected, run_on(*cpu, test));
  ASSERT_OK_AND_ASSIGN(const TestOutputs got, run_on(*gpu_device(), test));
  for (const char* name : {"q_turned", "k_turned"})
    EXPECT_LE(relative_error(values_of<float>(got.outputs.at(name)), values_of<float>(expected.outputs.at(name))),
              kRowBound);
  EXPECT_EQ(got.outputs.at("k_rows"), expected.outputs.at("k_rows"));
  EXPECT_EQ(got.outputs.at("v_rows"), expected.outputs.at("v_rows"));
  EXPECT_EQ(got.tensors, expected.tensors);
}

// Rows of floats with and without gaps, of sizes with and without whole pieces.
TEST_F(CudaSmall, CachesOfRowsOfAnyAlignment) {
  const auto cpu = cpu::create_device("").value();
  Rng rng(4);
  const std::vector<int32_t> cells = {0, 63, 64, 1, -1, 127, 3};
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_1})
    for (const int64_t dim : {8, 20, 64, 256})
      for (const int64_t gap : {0, 1, 2}) {
        if (info(type).is_blocked() && dim % 32 != 0) continue;
        std::vector<float> rows = random_values(rng, (dim + gap) * 3 * 7);
        if (type == DType::f16) rows[3] = kNaN, rows[4] = -kInf, rows[5] = 1e9f, rows[6] = 1e-7f;
        const TestGraph test{
            .tensors = {{"cache", type, {dim, 64, 3, 2}, Bytes(nbytes(type, {dim, 64, 3, 2}).value())}},
            .build =
                [&](GraphBuilder& b, const std::vector<Value>& tensors) {
                  const Value x = columns(b, b.input("x", DType::f32, {dim + gap, 3, 7}), dim);
                  const Value at = b.input("cells", DType::i32, {7});
                  const Value cache = b.kv_store(tensors[0], x, at, KvSide::v);
                  b.output(b.kv_load(cache, b.input("load", DType::i32, {3}), KvSide::v), "y");
                },
            .inputs = {{"x", bytes_of(rows)}, {"cells", bytes_of(cells)}, {"load", bytes_of<int32_t>({63, 0, 127})}}};
        ASSERT_OK_AND_ASSIGN(const TestOutputs expected, run_on(*cpu, test));
        ASSERT_OK_AND_ASSIGN(const TestOutputs got, run_on(*gpu_device(), test));
        EXPECT_EQ(got.tensors, expected.tensors) << info(type).name << " " << dim << ", gap " << gap;
        EXPECT_EQ(got.outputs, expected.outputs) << info(type).name << " " << dim << ", gap " << gap;
      }
}

TEST_F(CudaSmall, RowsOfATableOfAnyLength) {
  Rng rng(5);
  for (const DType type : {DType::f32, DType::f16})
    for (const int64_t n : {5, 8, 12, 1024, 1030}) {
      std::vector<uint16_t> halves;
      for (int64_t i = 0; i < n * 4; ++i) halves.push_back(static_cast<uint16_t>(0x3000 + i * 37 % 0x1800));
      const Bytes table = type == DType::f32 ? bytes_of(random_values(rng, n * 4)) : bytes_of(halves);
      expect_as_on_cpu({.tensors = {{"t", type, {n, 4}, table}},
                        .build =
                            [](GraphBuilder& b, const std::vector<Value>& tensors) {
                              b.output(b.get_rows(tensors[0], b.input("ids", DType::i32, {3})), "y");
                            },
                        .inputs = {{"ids", bytes_of<int32_t>({3, 0, 1})}}},
                       0, "get_rows " + std::to_string(n));
    }
  for (const int64_t n : {5, 8, 515, 1024})
    expect_any_alignment(
        "add_scaled", {n, 3},
        [&](GraphBuilder& b, Value x) {
          return b.add_scaled(x, b.input("d", DType::f32, {n, 3}), b.input("s", DType::f32, {1, 3}), 0.5f);
        },
        {{"d", bytes_of(random_values(rng, n * 3))}, {"s", bytes_of<float>({1.5f, 0.0f, -2.0f})}});
}

// Rows with and without whole pieces, fewer and more than the threads of a block read at a time.
TEST_F(CudaSmall, SumsOfExpertsOfAnyLength) {
  Rng rng(6);
  const std::vector<int32_t> ids = {2, 0, 1, 1, 2, 0, 0, 1, 2, 2, 1, 0, 1, 2, 0};  // five slots of three tokens
  for (const int64_t n : {5, 64, 1028, 1030})
    expect_any_alignment("expert_sum", {n, 15},
                         [&](GraphBuilder& b, Value x) {
                           const ExpertRoutes routes = b.expert_routes(b.input("ids", DType::i32, {5, 3}), 3);
                           return b.expert_sum(x, b.input("w", DType::f32, {5, 3}), routes);
                         },
                         {{"ids", bytes_of(ids)}, {"w", bytes_of(random_values(rng, 15))}});
}

}  // namespace
}  // namespace tessera
