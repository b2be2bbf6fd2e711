// Steps that one kernel computes: sums with their norms, gated products, rope with stores in the cache. They have the
// bits of the steps alone.
#include <map>
#include <set>

#include "tests/cuda/timed_run.h"
#include "tests/gpu/formats_testing.h"

namespace tessera {
namespace {

using namespace testing;

using CudaJobs = GpuTest;

// ---- Sums and norms

// A scaling between the sum and the norm separates them in the second graph.
TEST_F(CudaJobs, SumsWithTheirNormsHaveTheBitsOfBoth) {
  Rng rng(8);
  for (const auto& [n, n_rows] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 2}, {64, 21}, {130, 9}, {515, 3}, {2048, 3}, {4099, 2}, {8192, 2}, {9001, 2}})
    for (const BufferUsage usage : {BufferUsage::weights, BufferUsage::any})
      for (const bool is_rms : {true, false}) {
        const Shape shape{n, n_rows};
        const NamedBytes inputs = {{"a", bytes_of(random_values(rng, n * n_rows))},
                                   {"b", bytes_of(random_values(rng, n * n_rows))}};
        const std::vector<TestTensor> weights = {{"w", DType::f32, {n}, bytes_of(random_values(rng, n))},
                                                 {"c", DType::f32, {n}, bytes_of(random_values(rng, n))}};
        const auto graph_of = [&](bool is_split) {
          return [&, is_split](GraphBuilder& b, const std::vector<Value>& tensors) {
            const Value w = tensors[0], c = tensors[1];
            const Value sum = b.add(b.input("a", DType::f32, shape), b.input("b", DType::f32, shape));
            if (is_split) b.output(b.scale(sum, 2.0f), "twice");
            b.output(is_rms ? b.rms_norm(sum, w, 1e-5f) : b.layer_norm(sum, w, c, 1e-5f), "y");
            b.output(sum, "sum");
          };
        };
        ASSERT_OK_AND_ASSIGN(const TimedRun whole, run_timed(usage, weights, graph_of(false), inputs));
        ASSERT_OK_AND_ASSIGN(const TimedRun split, run_timed(usage, weights, graph_of(true), inputs));
        EXPECT_EQ(whole.outputs.at("y"), split.outputs.at("y")) << n;
        EXPECT_EQ(whole.outputs.at("sum"), split.outputs.at("sum")) << n;
        EXPECT_EQ(whole.launches, (std::multiset<Op>{Op::add})) << n;
        EXPECT_EQ(split.launches, (std::multiset<Op>{Op::add, Op::scale, is_rms ? Op::rms_norm : Op::layer_norm})) << n;
      }
}

// The result of a norm may take the memory of an operand of the sum, which is not needed any more.
TEST_F(CudaJobs, ResidualsThatShareMemory) {
  Rng rng(9);
  for (const auto& [n, n_rows] : std::vector<std::pair<int64_t, int64_t>>{{64, 19}, {2048, 5}, {9000, 3}})
    expect_as_on_cpu({.tensors = {},
                      .build =
                          [&](GraphBuilder& b, const auto&) {
                            Value h = b.scale(b.input("x", DType::f32, {n, n_rows}), 1.5f), d = b.scale(h, 0.3f);
                            for (int layer = 0; layer < 4; ++layer) {
                              h = b.add(h, d);
                              d = b.scale(b.rms_norm(h, {}, 1e-5f), 0.5f);
                              h = b.add(d, h);
                              d = b.rms_norm(h, {}, 1e-5f);
                            }
                            b.output(b.add(h, d), "y");
                          },
                      .inputs = {{"x", bytes_of(random_values(rng, n * n_rows))}}},
                     kRowBound, "residuals");
}

// Memory in which each row of the norm takes the place of the next row of an operand: the sum comes first.
TEST_F(CudaJobs, NormsInOtherRowsOfTheOperandsComeAfterTheSum) {
  constexpr int64_t kLength = 64, kRows = 40;
  constexpr size_t kBytes = kLength * kRows * 4, kRow = kLength * 4;
  Rng rng(11);
  ASSERT_OK_AND_ASSIGN(const auto backend, gpu_device()->create_backend({}));
  GraphBuilder builder;
  const Value a = builder.input("a", DType::f32, {kLength, kRows}),
              b = builder.input("b", DType::f32, {kLength, kRows});
  const Value sum = builder.add(a, b), norm = builder.output(builder.rms_norm(sum, {}, 1e-5f), "y");
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(builder).finish());
  ASSERT_OK_AND_ASSIGN(const size_t work, backend->work_bytes(graph));
  ASSERT_OK_AND_ASSIGN(const auto buffer,
                       gpu_device()->buffer_type().allocate(5 * kBytes + work, BufferUsage::compute));
  const std::vector<float> x = random_values(rng, kLength * kRows), d = random_values(rng, kLength * kRows);
  const auto norm_at = [&](size_t offset) -> Result<Bytes> {
    std::vector<Tensor> tensors(static_cast<size_t>(graph.size()));
    for (const auto& [value, at] : {std::pair{a, size_t{0}}, {norm, offset}, {b, 2 * kBytes}, {sum, 3 * kBytes}})
      tensors[static_cast<size_t>(value.id())] = {
          {DType::f32, graph[value.id()].spec.layout}, "", &buffer->type(), buffer.get(), at};
    TESSERA_ASSIGN(const auto plan, backend->compile(graph, tensors, {buffer.get(), 4 * kBytes, work}));
    TESSERA_TRY(buffer->set(tensors[static_cast<size_t>(a.id())], 0, bytes_of(x)));
    TESSERA_TRY(buffer->set(tensors[static_cast<size_t>(b.id())], 0, bytes_of(d)));
    TESSERA_TRY(backend->run(*plan, nullptr));
    Bytes y(kBytes);
    TESSERA_TRY(buffer->get(tensors[static_cast<size_t>(norm.id())], 0, y));
    return y;
  };
  ASSERT_OK_AND_ASSIGN(const Bytes apart, norm_at(kBytes));
  for (const size_t offset : {size_t{0}, kRow}) EXPECT_EQ(norm_at(offset).value(), apart) << offset;
}

// Launches of several norms: only those whose rows have as many threads.
TEST_F(CudaJobs, IndependentNormsShareALaunch) {
  Rng rng(12);
  const NamedBytes inputs = {{"short", bytes_of(random_values(rng, 100 * 11))},
                             {"middle", bytes_of(random_values(rng, 2000 * 3))},
                             {"long", bytes_of(random_values(rng, 4100 * 2))}};
  const std::map<std::string, Shape> shapes = {{"short", {100, 11}}, {"middle", {2000, 3}}, {"long", {4100, 2}}};
  const auto norms_of = [&](const std::vector<std::string>& names) {
    return run_timed(
        BufferUsage::weights, {},
        [&](GraphBuilder& b, const auto&) {
          for (const auto& name : names)
            b.output(b.rms_norm(b.input(name, DType::f32, shapes.at(name)), {}, 1e-5f), "y " + name);
        },
        inputs);
  };
  for (const auto& [names, n_launches] : std::vector<std::pair<std::vector<std::string>, size_t>>{
           {{"short", "middle"}, 1}, {{"middle", "short"}, 1}, {{"middle", "long"}, 2}, {{"long", "short"}, 2}}) {
    ASSERT_OK_AND_ASSIGN(const TimedRun both, norms_of(names));
    EXPECT_EQ(both.launches.size(), n_launches) << names[0];
    for (const std::string& name : names) {
      ASSERT_OK_AND_ASSIGN(const TimedRun alone, norms_of({name}));
      EXPECT_EQ(both.outputs.at("y " + name), alone.outputs.at("y " + name)) << name;
    }
  }
}

// A repeated operand, another norm and a norm of an operand are launches of their own.
TEST_F(CudaJobs, OtherSumsKeepTheirLaunches) {
  Rng rng(10);
  const NamedBytes inputs = {{"a", bytes_of(random_values(rng, 300))}, {"b", bytes_of(random_values(rng, 100))}};
  const std::function<Value(GraphBuilder&, Value, Value, Value)> cases[] = {
      [](GraphBuilder& b, Value a, Value row, Value) { return b.rms_norm(b.add(a, row), {}, 1e-5f); },
      [](GraphBuilder& b, Value a, Value, Value) { return b.l2_norm(b.add(a, a), 1e-5f); },
      [](GraphBuilder& b, Value a, Value, Value w) {
        b.output(b.add(a, a), "sum");
        return b.rms_norm(a, w, 1e-5f);
      }};
  for (const auto& op : cases) {
    const auto build = [&](GraphBuilder& b, const std::vector<Value>& tensors) {
      b.output(op(b, b.input("a", DType::f32, {100, 3}), b.input("b", DType::f32, {100}), tensors[0]), "y");
    };
    const std::vector<TestTensor> weights = {{"w", DType::f32, {100}, bytes_of(random_values(rng, 100))}};
    ASSERT_OK_AND_ASSIGN(const TimedRun run, run_timed(BufferUsage::weights, weights, build, inputs));
    EXPECT_EQ(run.launches.size(), 2u);
  }
}

// ---- Gated products

enum class Gate { swiglu, geglu };

struct GatedCase {
  DType gate = DType::q8_0, up = DType::q8_0;
  int64_t k = 256, n_rows = 40, n_tokens = 1;
  Gate op = Gate::swiglu;
};

// change(b, gate, up): may use the products before they are combined.
Result<TimedRun> run_gated(const GatedCase& c,
                           const std::function<void(GraphBuilder&, Value& gate, Value& up)>& change = {}) {
  Rng rng(13);
  const std::vector<TestTensor> weights = {
      {"gate", c.gate, {c.k, c.n_rows}, random_matrix(c.gate, c.k, c.n_rows, rng).bytes},
      {"up", c.up, {c.k, c.n_rows}, random_matrix(c.up, c.k, c.n_rows, rng).bytes}};
  return run_timed(BufferUsage::weights, weights,
                   [&](GraphBuilder& b, const std::vector<Value>& tensors) {
                     const Value x = b.input("x", DType::f32, {c.k, c.n_tokens});
                     Value gate = b.mul_mat(tensors[0], x), up = b.mul_mat(tensors[1], x);
                     if (change) change(b, gate, up);
                     b.output(c.op == Gate::swiglu ? b.swiglu(gate, up) : b.geglu(gate, up), "y");
                   },
                   {{"x", bytes_of(random_values(rng, c.k * c.n_tokens, 3.0f))}});
}
void keep_both(GraphBuilder& b, Value& gate, Value& up) {
  b.output(gate, "gate");
  b.output(up, "up");
}

// Formats that are read from global and from shared memory; rows that are no whole groups; more groups than blocks;
// more segments than warps.
TEST_F(CudaJobs, GatedProductsHaveTheBitsOfTheirParts) {
  const auto all = [](DType type, int64_t k, int64_t n_rows, int64_t n_tokens, Gate op = Gate::swiglu) {
    return GatedCase{type, type, k, n_rows, n_tokens, op};
  };
  for (const GatedCase& c :
       {all(DType::f16, 512, 40, 1), all(DType::f16, 256, 33, 8), all(DType::q8_0, 256, 37, 3),
        all(DType::q8_0, 256, 2 * 8 * 264 + 5, 1), all(DType::q4_k, 512, 24, 1, Gate::geglu),
        all(DType::q6_k, 256, 19, 5, Gate::geglu), all(DType::q5_k, 256 * 18, 21, 2), all(DType::q4_0, 2304, 8, 1)}) {
    const std::string what = fmt::format("{} {} {} {}", info(c.gate).name, c.k, c.n_rows, c.n_tokens);
    ASSERT_OK_AND_ASSIGN(const TimedRun whole, run_gated(c));
    ASSERT_OK_AND_ASSIGN(const TimedRun parts, run_gated(c, keep_both));
    EXPECT_EQ(whole.outputs.at("y"), parts.outputs.at("y")) << what;
    const Op op = c.op == Gate::swiglu ? Op::swiglu : Op::geglu;
    EXPECT_EQ(whole.launches, (std::multiset<Op>{Op::mul_mat})) << what;
    EXPECT_EQ(parts.launches, (std::multiset<Op>{Op::mul_mat, op})) << what;
  }
}

// Two formats, products that are not plain, one that is used again, and a combination in the other order.
TEST_F(CudaJobs, OtherProductsAreNotGated) {
  const auto exchange = [](GraphBuilder&, Value& gate, Value& up) { std::swap(gate, up); };
  const auto keep_gate = [](GraphBuilder& b, Value& gate, Value&) { b.output(gate, "gate"); };
  const auto keep_up = [](GraphBuilder& b, Value&, Value& up) { b.output(up, "up"); };
  const auto twice = [](GraphBuilder&, Value& gate, Value& up) { up = gate; };
  const std::pair<GatedCase, std::function<void(GraphBuilder&, Value&, Value&)>> cases[] = {
      {{.gate = DType::q8_0, .up = DType::f16}, {}},
      {{.k = 288}, {}},
      {{.n_tokens = 9}, {}},
      {{.gate = DType::q4_1, .up = DType::q4_1}, {}},
      {{}, exchange},
      {{}, keep_gate},
      {{}, keep_up},
      {{}, twice}};
  for (const auto& [c, change] : cases) {
    ASSERT_OK_AND_ASSIGN(const TimedRun run, run_gated(c, change));
    EXPECT_EQ(run.launches.count(Op::swiglu), 1u);
  }
  // The exchanged products against those whose weights are exchanged.
  ASSERT_OK_AND_ASSIGN(const TimedRun parts, run_gated({}, keep_both));
  const auto gate = values_of<float>(parts.outputs.at("gate")), up = values_of<float>(parts.outputs.at("up"));
  ASSERT_OK_AND_ASSIGN(const TimedRun run, run_gated({}, exchange));
  const auto y = values_of<float>(run.outputs.at("y"));
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], up[i] / (1 + std::exp(-up[i])) * gate[i], 1e-4) << i;
}

// A result in the memory of the activations: all blocks must have read those.
TEST_F(CudaJobs, GatedResultsInTheMemoryOfActivationsComeAfterTheProducts) {
  constexpr int64_t kLength = 256;
  constexpr size_t kBytes = kLength * 4;
  Rng rng(14);
  ASSERT_OK_AND_ASSIGN(const auto backend, gpu_device()->create_backend({}));
  const FormatMatrix matrix = random_matrix(DType::q8_0, kLength, kLength, rng);
  ASSERT_OK_AND_ASSIGN(const auto weights,
                       gpu_device()->buffer_type().allocate(matrix.bytes.size() + 256, BufferUsage::weights));
  ASSERT_OK_AND_ASSIGN(const Layout layout, contiguous_layout(DType::q8_0, {kLength, kLength}));
  const Tensor weight{{DType::q8_0, layout}, "w", &weights->type(), weights.get(), 0};
  ASSERT_OK(weights->set(weight, 0, matrix.bytes));
  GraphBuilder builder;
  const Value w = builder.tensor(weight), x = builder.input("x", DType::f32, {kLength});
  const Value gate = builder.mul_mat(w, x), up = builder.mul_mat(w, x);
  const Value y = builder.output(builder.swiglu(gate, up), "y");
  ASSERT_OK_AND_ASSIGN(const Graph graph, std::move(builder).finish());
  ASSERT_OK_AND_ASSIGN(const size_t work, backend->work_bytes(graph));
  ASSERT_OK_AND_ASSIGN(const auto buffer,
                       gpu_device()->buffer_type().allocate(4 * kBytes + work, BufferUsage::compute));
  const std::vector<float> values = random_values(rng, kLength);
  const auto run_at = [&](size_t offset) -> Result<Bytes> {
    std::vector<Tensor> tensors(static_cast<size_t>(graph.size()));
    tensors[static_cast<size_t>(w.id())] = weight;
    for (const auto& [value, at] : {std::pair{x, size_t{0}}, {gate, kBytes}, {up, 2 * kBytes}, {y, offset}})
      tensors[static_cast<size_t>(value.id())] = {
          {DType::f32, graph[value.id()].spec.layout}, "", &buffer->type(), buffer.get(), at};
    TESSERA_ASSIGN(const auto plan, backend->compile(graph, tensors, {buffer.get(), 4 * kBytes, work}));
    TESSERA_TRY(buffer->set(tensors[static_cast<size_t>(x.id())], 0, bytes_of(values)));
    TESSERA_TRY(backend->run(*plan, nullptr));
    Bytes bytes(kBytes);
    TESSERA_TRY(buffer->get(tensors[static_cast<size_t>(y.id())], 0, bytes));
    return bytes;
  };
  ASSERT_OK_AND_ASSIGN(const Bytes apart, run_at(3 * kBytes));
  for (const size_t offset : {size_t{0}, kBytes, 2 * kBytes}) EXPECT_EQ(run_at(offset).value(), apart) << offset;
}

// Products request weights of later ones for the cache; the emulated device reads the ends of each request.
TEST_F(CudaJobs, ProductsThatRequestLaterWeights) {
  Rng rng(16);
  std::vector<TestTensor> weights;
  for (const int64_t n : {512, 40, 512, 256})
    weights.push_back({"w", DType::f16, {512, n}, random_matrix(DType::f16, 512, n, rng).bytes});
  const NamedBytes inputs = {{"x", bytes_of(random_values(rng, 512))}};
  const auto build = [](GraphBuilder& b, const std::vector<Value>& w) {
    Value x = b.input("x", DType::f32, {512});
    for (const Value& weight : w) b.output(b.mul_mat(weight, x), fmt::format("y{}", weight.id()));
    b.output(b.mul_mat(w[1], b.scale(b.mul_mat(w[2], b.mul_mat(w[0], x)), 0.5f)), "last");
  };
  ASSERT_OK_AND_ASSIGN(const TimedRun run, run_timed(BufferUsage::weights, weights, build, inputs));
  ASSERT_OK_AND_ASSIGN(const TimedRun without, run_timed(BufferUsage::any, weights, build, inputs));
  EXPECT_EQ(run.outputs, without.outputs);
}

// ---- Rope and stores

struct StoreCase {
  DType type = DType::f16;  // of the cache
  int64_t dim = 64, n_heads = 3;
  RopePairs pairs = RopePairs::halves;
  std::vector<int32_t> cells{64, -1, 5, 63};
};

// separates: a scaling by 1 between rope and the store keeps them apart.
Result<TimedRun> run_stores(const StoreCase& c, bool separates) {
  Rng rng(15);
  const auto n_tokens = std::ssize(c.cells);
  const Shape cache_shape{c.dim, 64, c.n_heads, 2};
  const Bytes cache(nbytes(c.type, cache_shape).value(), std::byte{0x3c});
  std::vector<int32_t> positions, load;
  for (int32_t i = 0; i < n_tokens; ++i) positions.push_back(3 + 100 * i);
  for (int32_t cell = 0; cell < 128; ++cell) load.push_back(cell);
  const Shape shape{c.dim, c.n_heads, n_tokens};
  const auto rows = [&] { return bytes_of(random_values(rng, shape.n_elements())); };
  return run_timed(BufferUsage::any, {{"k_cache", c.type, cache_shape, cache}, {"v_cache", c.type, cache_shape, cache}},
                   [&](GraphBuilder& b, const std::vector<Value>& tensors) {
                     const Value table = b.rope_table(b.input("p", DType::i32, {n_tokens}), {}, {.n_rot = c.dim});
                     const Value cells = b.input("cells", DType::i32, {n_tokens}),
                                 all = b.input("load", DType::i32, {128});
                     Value k = b.rope(b.input("k", DType::f32, shape), table, c.pairs);
                     b.output(k, "k_turned");
                     if (separates) k = b.scale(k, 1.0f);
                     const Value k_cache = b.kv_store(tensors[0], k, cells, KvSide::v);
                     const Value v_cache = b.kv_store(tensors[1], b.input("v", DType::f32, shape), cells, KvSide::v);
                     b.output(b.kv_load(k_cache, all, KvSide::v), "k_rows");
                     b.output(b.kv_load(v_cache, all, KvSide::v), "v_rows");
                   },
                   {{"p", bytes_of(positions)},
                    {"cells", bytes_of(c.cells)},
                    {"load", bytes_of(load)},
                    {"k", rows()},
                    {"v", rows()}});
}

// Rows that are copied, narrowed and encoded; with and without whole pieces.
TEST_F(CudaJobs, RopeThatStoresHasTheBitsOfBoth) {
  for (const StoreCase& c :
       {StoreCase{}, StoreCase{.type = DType::f32, .dim = 20}, StoreCase{.type = DType::bf16, .dim = 10},
        StoreCase{.type = DType::q8_0, .n_heads = 5, .pairs = RopePairs::adjacent},
        StoreCase{.type = DType::q4_0, .dim = 128, .n_heads = 1, .cells = {127}}}) {
    ASSERT_OK_AND_ASSIGN(const TimedRun whole, run_stores(c, false));
    ASSERT_OK_AND_ASSIGN(const TimedRun parts, run_stores(c, true));
    EXPECT_EQ(whole.outputs, parts.outputs) << info(c.type).name;
    EXPECT_EQ(whole.launches, (std::multiset<Op>{Op::rope_table, Op::rope, Op::kv_load})) << info(c.type).name;
    EXPECT_EQ(parts.launches, (std::multiset<Op>{Op::rope_table, Op::rope, Op::scale, Op::kv_store, Op::kv_load}));
  }
}

TEST_F(CudaJobs, FaultsOfStoresNameTheStore) {
  for (const int32_t cell : {128, -2})
    EXPECT_ERROR(run_stores({.cells = {0, cell}}, false), fmt::format("kv_store : cell {}, want 0 to 127", cell));
}

}  // namespace
}  // namespace tessera
