// The example backend of docs/add_backend.md compared with the CPU: each operation, unsupported nodes, runs and memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <thread>

#include "tessera/quant/formats.h"
#include "tests/backend/plugin_support.h"

namespace tessera {
namespace {

using namespace testing;

// example:0 works in the host's memory, example:1 has its own memory.
const std::vector<std::unique_ptr<Device>>& example_devices() {
  static const FoundDevices found = find_plugins({.folders = {example_plugins_dir()}, .paths = {}, .reserved = {}});
  return found.devices;
}

const Device& cpu_device() {
  static const std::unique_ptr<Device> cpu = cpu::create_device("scalar").value();
  return *cpu;
}

struct TestTensor {
  DType dtype;
  Shape shape;
  Bytes data;
};

/// A graph with output "y", built on tensors that are placed in each device's memory.
struct Case {
  std::string name;
  std::vector<TestTensor> tensors;
  std::function<Value(GraphBuilder&, const std::vector<Value>&)> build;
  NamedBytes inputs;
};

Result<std::vector<float>> run_case(const Device& device, const Case& c) {
  std::vector<std::unique_ptr<OwnedTensor>> tensors;
  GraphBuilder b;
  std::vector<Value> values;
  for (const TestTensor& t : c.tensors) {
    tensors.push_back(std::make_unique<OwnedTensor>(device.buffer_type(), fmt::format("t{}", tensors.size()), t.dtype,
                                                    t.shape, t.data));
    values.push_back(b.tensor(tensors.back()->tensor));
  }
  b.output(c.build(b, values), "y");
  TESSERA_ASSIGN(Graph graph, std::move(b).finish());
  return run_y_on({&device}, std::move(graph), c.inputs);
}

// Both sum in f32, in different orders, at most a few hundred terms of about 1.
constexpr double kBound = 2e-6;

void expect_as_on_cpu(const Case& c) {
  ASSERT_OK_AND_ASSIGN(const auto expected, run_case(cpu_device(), c));
  ASSERT_EQ(example_devices().size(), 2u);
  for (const auto& device : example_devices()) {
    const auto got = run_case(*device, c);
    ASSERT_TRUE(got.has_value()) << c.name << " on " << device->name() << ": " << got.error().message();
    ASSERT_EQ(got->size(), expected.size()) << c.name;
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR((*got)[i], expected[i], kBound * std::max(1.0f, std::abs(expected[i])))
          << c.name << " on " << device->name() << " at " << i;
  }
}

Bytes random_bytes(Rng& rng, int64_t n) { return bytes_of(random_values(rng, n)); }

TestTensor random_tensor(Rng& rng, DType dtype, const Shape& shape) {
  const std::vector<float> values = random_values(rng, shape.n_elements());
  if (dtype == DType::f32) return {dtype, shape, bytes_of(values)};
  Bytes data(nbytes(dtype, shape).value());
  quant::find_format(dtype)->quantize_row_compat(values.data(), nullptr, shape.n_elements(), data.data());
  return {dtype, shape, std::move(data)};
}

TEST(ExampleBackend, ElementwiseOperationsAreTheCpus) {
  Rng rng(1);
  for (const Shape& shape : {Shape{1}, Shape{67, 3}, Shape{130, 2, 3}, Shape{5, 0}}) {
    const NamedBytes inputs = {{"a", random_bytes(rng, shape.n_elements())},
                               {"b", random_bytes(rng, shape.n_elements())},
                               {"row", random_bytes(rng, shape[0])},
                               {"one", random_bytes(rng, shape.n_rows())}};
    const auto a = [shape](GraphBuilder& b) { return b.input("a", DType::f32, shape); };
    const auto second = [shape](GraphBuilder& b) { return b.input("b", DType::f32, shape); };
    const auto row = [shape](GraphBuilder& b) { return b.input("row", DType::f32, {shape[0]}); };
    expect_as_on_cpu({"add", {}, [&](GraphBuilder& b, auto&) { return b.add(a(b), second(b)); }, inputs});
    expect_as_on_cpu({"add a row", {}, [&](GraphBuilder& b, auto&) { return b.add(a(b), row(b)); }, inputs});
    expect_as_on_cpu({"mul", {}, [&](GraphBuilder& b, auto&) { return b.mul(a(b), second(b)); }, inputs});
    expect_as_on_cpu({"mul by a column",
                      {},
                      [&](GraphBuilder& b, auto&) {
                        return b.mul(a(b), b.input("one", DType::f32, {1, shape[1], shape[2]}));
                      },
                      inputs});
    expect_as_on_cpu({"swiglu", {}, [&](GraphBuilder& b, auto&) { return b.swiglu(a(b), second(b)); }, inputs});
    expect_as_on_cpu({"rms_norm", {}, [&](GraphBuilder& b, auto&) { return b.rms_norm(a(b), row(b), 1e-5f); }, inputs});
    expect_as_on_cpu({"rms_norm of half a row",
                      {},
                      [&](GraphBuilder& b, auto&) {
                        const Value x = a(b);
                        Layout layout = b.spec(x).layout;
                        layout.shape[0] = (shape[0] + 1) / 2;
                        return b.rms_norm(b.view(x, layout, 0), {}, 1e-5f);
                      },
                      inputs});
  }
}

TEST(ExampleBackend, ProductsAndRowsAreTheCpus) {
  Rng rng(2);
  for (const DType dtype : {DType::f32, DType::q8_0})
    for (const Shape& shape : {Shape{32, 1}, Shape{64, 33}, Shape{96, 7}})
      for (const int64_t n_tokens : {1, 2, 9})
        expect_as_on_cpu({fmt::format("{} {} times {} columns", info(dtype).name, to_string(shape), n_tokens),
                          {random_tensor(rng, dtype, shape)},
                          [&](GraphBuilder& b, const auto& t) {
                            return b.mul_mat(t[0], b.input("x", DType::f32, {shape[0], n_tokens}));
                          },
                          {{"x", random_bytes(rng, shape[0] * n_tokens)}}});
  for (const DType dtype : {DType::f32, DType::f16, DType::q8_0})
    expect_as_on_cpu({fmt::format("rows of {}", info(dtype).name),
                      {random_tensor(rng, dtype, {64, 20})},
                      [&](GraphBuilder& b, const auto& t) { return b.get_rows(t[0], b.input("ids", DType::i32, {5})); },
                      {{"ids", bytes_of(std::vector<int32_t>{0, 19, 7, 7, 3})}}});
}

TEST(ExampleBackend, ABatchHasTheBitsOfItsColumns) {
  Rng rng(3);
  const TestTensor weights = random_tensor(rng, DType::q8_0, {64, 40});
  const std::vector<float> x = random_values(rng, 64 * 5);
  const auto product = [&](std::span<const float> columns) {
    const auto n = static_cast<int64_t>(columns.size()) / 64;
    return run_case(*example_devices()[0], {"",
                                            {weights},
                                            [&](GraphBuilder& b, const auto& t) {
                                              return b.mul_mat(t[0], b.input("x", DType::f32, {64, n}));
                                            },
                                            {{"x", bytes_of(std::vector<float>(columns.begin(), columns.end()))}}});
  };
  ASSERT_OK_AND_ASSIGN(const auto all, product(x));
  for (size_t t = 0; t < 5; ++t) {
    ASSERT_OK_AND_ASSIGN(const auto one, product(std::span(x).subspan(t * 64, 64)));
    EXPECT_TRUE(
        same_bytes(one, {all.begin() + static_cast<int64_t>(t) * 40, all.begin() + static_cast<int64_t>(t + 1) * 40}));
  }
}

TEST(ExampleBackend, RotationsAreTheCpus) {
  Rng rng(4);
  const RopeTableParams params{.n_rot = 12, .freq_base = 5000.0f, .freq_scale = 0.5f, .magnitude = 1.25f};
  for (const RopePairs pairs : {RopePairs::adjacent, RopePairs::halves})
    expect_as_on_cpu(
        {"rope",
         {},
         [&](GraphBuilder& b, auto&) {
           const Value table = b.rope_table(b.input("positions", DType::i32, {3}), {}, params);
           const Value x = b.input("x", DType::f32, {16, 2, 3});
           return b.add(b.rope(x, table, pairs), x);  // x is used again, so rope is not in place
         },
         {{"positions", bytes_of(std::vector<int32_t>{0, 5, 1000})}, {"x", random_bytes(rng, 16 * 2 * 3)}}});
}

// Two sequences in unordered blocks with gaps. Tokens are stored and attend to stored tokens.
Case attention_case(const AttentionParams& params) {
  Rng rng(5);
  constexpr int64_t kDim = 8, kHeadsKv = 2, kHeads = 4, kTokens = 70, kBlocks = 4;
  std::vector<int32_t> positions, slots, cells;
  std::vector<int32_t> blocks = {2, 0, 3, -1};  // of slot 0: physical 2 and 0; of slot 1: 3
  std::vector<uint64_t> valid = {0, 0, 0, 0};   // bits of [block][slot]
  for (int32_t i = 0; i < kTokens; ++i) {
    const bool second = i % 10 == 9;
    const int32_t position = second ? i / 10 : i;
    const auto entry = static_cast<size_t>((second ? 2 : 0) + position / 64);
    positions.push_back(position);
    slots.push_back(second ? 1 : 0);
    cells.push_back(i % 11 == 5 ? -1 : blocks[entry] * 64 + position % 64);
    if (cells.back() >= 0) valid[entry] |= uint64_t{1} << position % 64;
  }
  const Bytes empty(sizeof(float) * static_cast<size_t>(kDim * 64 * kHeadsKv * kBlocks));
  const Shape cache{kDim, 64, kHeadsKv, kBlocks};
  return {"paged_attention",
          {{DType::f32, cache, empty}, {DType::f32, cache, empty}},
          [=](GraphBuilder& b, const std::vector<Value>& t) {
            const Value where = b.input("cells", DType::i32, {kTokens});
            const Value k = b.kv_store(t[0], b.input("k", DType::f32, {kDim, kHeadsKv, kTokens}), where, KvSide::k);
            const Value v = b.kv_store(t[1], b.input("v", DType::f32, {kDim, kHeadsKv, kTokens}), where, KvSide::v);
            return b.paged_attention(b.input("q", DType::f32, {kDim, kHeads, kTokens}), k, v,
                                     b.input("positions", DType::i32, {kTokens}),
                                     b.input("slots", DType::i32, {kTokens}), b.input("blocks", DType::i32, {2, 2}),
                                     b.input("valid", DType::i64, {2, 2}), {}, params);
          },
          {{"q", random_bytes(rng, kDim * kHeads * kTokens)},
           {"k", random_bytes(rng, kDim * kHeadsKv * kTokens)},
           {"v", random_bytes(rng, kDim * kHeadsKv * kTokens)},
           {"cells", bytes_of(cells)},
           {"positions", bytes_of(positions)},
           {"slots", bytes_of(slots)},
           {"blocks", bytes_of(blocks)},
           {"valid", bytes_of(valid)}}};
}

TEST(ExampleBackend, AttentionIsTheCpus) {
  expect_as_on_cpu(attention_case({.scale = 0.35f}));
  expect_as_on_cpu(attention_case({.scale = 0.35f, .window = 5}));
  expect_as_on_cpu(attention_case({.scale = 0.35f, .causal = false}));
  expect_as_on_cpu(attention_case({.scale = 0.35f, .causal = false, .window = 20}));
}

TEST(ExampleBackend, IndicesOutOfRangeFailTheRunWithTheCpusMessage) {
  const auto refused = [](const Case& c, const std::string& part) {
    EXPECT_ERROR(run_case(cpu_device(), c), part);
    for (const auto& device : example_devices()) {
      const auto got = run_case(*device, c);
      EXPECT_ERROR(got, part);
      EXPECT_TRUE(!got && got.error().code() == ErrorCode::invalid_argument);
    }
  };
  Rng rng(6);
  const TestTensor table = random_tensor(rng, DType::f32, {8, 4});
  for (const int32_t id : {4, -1})
    refused({"rows",
             {table},
             [&](GraphBuilder& b, const auto& t) { return b.get_rows(t[0], b.input("ids", DType::i32, {1})); },
             {{"ids", bytes_of(std::vector<int32_t>{id})}}},
            fmt::format("get_rows y: row {}, want 0 to 3", id));
  const auto with = [](const char* input, int32_t value) {
    Case c = attention_case({.scale = 1});
    std::memcpy(c.inputs[input].data(), &value, sizeof value);
    return c;
  };
  refused(with("cells", 256), "cell 256, want 0 to 255");
  refused(with("cells", -2), "cell -2, want 0 to 255");
  refused(with("positions", 128), "position 128, want 0 to 127");
  refused(with("positions", -1), "position -1, want 0 to 127");
  refused(with("slots", 2), "sequence 2, want 0 to 1");
  refused(with("slots", -1), "sequence -1, want 0 to 1");
  refused(with("blocks", 4), "block 4, want 0 to 3");
  refused(with("blocks", -2), "block -2, want 0 to 3");
}

// --- unsupported nodes

TEST(ExampleBackend, WhatItDoesNotRunIsNamed) {
  GraphBuilder b;
  b.output(b.gelu(b.input("x", DType::f32, {4, 2})), "y");
  const Graph graph = std::move(b).finish().value();
  EXPECT_FALSE(example_devices()[0]->supports(graph, 1));
  EXPECT_TRUE(example_devices()[0]->supports(graph, 0));
  ASSERT_OK_AND_ASSIGN(const auto backend, example_devices()[0]->create_backend({}));
  const auto bytes = backend->work_bytes(graph);
  EXPECT_ERROR(bytes, "example:0 cannot run gelu x f32 [4, 2]");
  EXPECT_EQ(bytes.error().code(), ErrorCode::unsupported);
}

TEST(ExampleBackend, OperandsAndParametersDecideToo) {
  const auto supports_last = [](const std::function<Value(GraphBuilder&)>& build) {
    GraphBuilder b;
    const Value y = build(b);
    const Graph graph = std::move(b).finish().value();
    return example_devices()[0]->supports(graph, y.id());
  };
  const auto product = [&](DType dtype) {
    return supports_last([&](GraphBuilder& b) {
      return b.mul_mat(b.input("w", dtype, {256, 2}), b.input("x", DType::f32, {256, 1}));
    });
  };
  EXPECT_TRUE(product(DType::q8_0));
  EXPECT_FALSE(product(DType::q4_k));
  const auto table = [&](float yarn) {
    return supports_last([&](GraphBuilder& b) {
      return b.rope_table(b.input("p", DType::i32, {1}), {}, {.n_rot = 4, .yarn_ext = yarn});
    });
  };
  EXPECT_TRUE(table(0));
  EXPECT_FALSE(table(1));
}

// The layout of tokens in a block is private to the device that stores them.
TEST(ExampleBackend, ACacheOfAnotherDeviceIsNotTouched) {
  const Device& device = *example_devices()[0];
  ASSERT_TRUE(device.can_use(cpu_device().buffer_type()));
  for (const Device* owner : {&device, &cpu_device()}) {
    const Tensor cache{
        {DType::f32, contiguous_layout(DType::f32, {4, kKvBlockTokens, 1, 1}).value()}, "cache", &owner->buffer_type()};
    GraphBuilder b;
    const Value k = b.tensor(cache);
    const Value store =
        b.kv_store(k, b.input("x", DType::f32, {4, 1, 1}), b.input("cells", DType::i32, {1}), KvSide::k);
    const Value tokens = b.input("t", DType::i32, {1});
    const Value y = b.paged_attention(b.input("q", DType::f32, {4, 1, 1}), k, k, tokens, tokens,
                                      b.input("blocks", DType::i32, {1, 1}), b.input("valid", DType::i64, {1, 1}), {},
                                      {.scale = 1});
    const Graph graph = std::move(b).finish().value();
    EXPECT_EQ(device.supports(graph, store.id()), owner == &device);
    EXPECT_EQ(device.supports(graph, y.id()), owner == &device);
  }
}

TEST(ExampleBackend, TheCpuRunsTheRest) {
  Rng rng(7);
  const NamedBytes inputs = {{"x", random_bytes(rng, 24)}, {"w", random_bytes(rng, 24)}};
  const auto build = [] {
    GraphBuilder b;
    const Value x = b.input("x", DType::f32, {8, 3}), w = b.input("w", DType::f32, {8, 3});
    b.output(b.mul(b.gelu(b.add(x, w)), w), "y");
    return std::move(b).finish().value();
  };
  ASSERT_OK_AND_ASSIGN(const auto expected, run_y_on({&cpu_device()}, build(), inputs));
  for (const auto& device : example_devices()) {
    ASSERT_OK_AND_ASSIGN(const auto y, run_y_on({device.get(), &cpu_device()}, build(), inputs));
    EXPECT_TRUE(same_bytes(y, expected))
        << device->name();  // sums and products of two numbers are exact or rounded once
  }
}

// --- runs, memory

TEST(ExampleBackend, ARunStopsWhenItIsAskedTo) {
  CancelToken cancel;
  cancel.cancel();
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {4});
  b.output(b.add(x, x), "y");
  const auto y = run_y_on({example_devices()[0].get()}, std::move(b).finish().value(),
                          {{"x", bytes_of(std::vector<float>(4))}}, &cancel);
  ASSERT_FALSE(y.has_value());
  EXPECT_EQ(y.error().code(), ErrorCode::cancelled);
}

TEST(ExampleBackend, TellsWhenEachNodeRan) {
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {64, 64});
  const Value sum = b.add(x, x);
  b.output(b.mul(sum, x), "y");
  ASSERT_OK_AND_ASSIGN(const auto backend, example_devices()[1]->create_backend({}));
  Executor executor(*backend);
  Graph graph = std::move(b).finish().value();
  ASSERT_OK(executor.reserve({&graph, 1}));
  ASSERT_OK_AND_ASSIGN(const auto prepared, executor.prepare(std::move(graph)));
  ASSERT_OK(set_input(*prepared, x, std::vector<float>(64 * 64)));
  RunLog log;
  ASSERT_OK(executor.run(*prepared, {.log = &log}));
  ASSERT_EQ(log.nodes.size(), 2u);
  EXPECT_EQ(log.nodes[0].node, 1);
  EXPECT_EQ(log.nodes[1].node, 2);
  EXPECT_GT(log.nodes[0].us, 0);
  EXPECT_GE(log.nodes[1].begin_us + 1e-3, log.nodes[0].begin_us + log.nodes[0].us);  // 1e-3: rounding of the sum
}

TEST(ExampleBackend, SeveralBackendsOfADeviceRunAtOnce) {
  const Case c = attention_case({.scale = 0.35f});
  for (const auto& device : example_devices()) {
    ASSERT_OK_AND_ASSIGN(const auto expected, run_case(*device, c));
    std::vector<std::vector<float>> got(4);
    {
      std::vector<std::jthread> threads;
      for (auto& y : got)
        threads.emplace_back([&] {
          for (int i = 0; i < 20; ++i) y = run_case(*device, c).value_or(std::vector<float>());
        });
    }
    for (const auto& y : got) EXPECT_TRUE(same_bytes(y, expected)) << device->name();
  }
}

TEST(ExampleBackend, MemoryThatItDoesNotHaveIsAnError) {
  ::setenv("EXAMPLE_MEMORY", "1000", 1);
  const FoundDevices found = find_plugins_at({example_path("plain")});
  ::unsetenv("EXAMPLE_MEMORY");
  ASSERT_EQ(found.devices.size(), 2u);
  for (const auto& device : found.devices) {
    EXPECT_EQ(device->memory().free_bytes, 1000u);
    ASSERT_OK_AND_ASSIGN(auto first, device->buffer_type().allocate(600, BufferUsage::any));
    const auto second = device->buffer_type().allocate(600, BufferUsage::any);
    EXPECT_ERROR(second, std::string(device->name()) + ": no memory for 600 bytes");
    EXPECT_EQ(second.error().code(), ErrorCode::out_of_memory);
    EXPECT_EQ(device->memory().free_bytes, 400u);
    first.reset();
    EXPECT_EQ(device->memory().free_bytes, 1000u);
    EXPECT_OK(device->buffer_type().allocate(600, BufferUsage::any));
  }
}

TEST(ExampleBackend, OnlyTheFirstSharesTheHostsMemory) {
  std::vector<std::byte> memory(64);
  const Device &shared = *example_devices()[0], &own = *example_devices()[1];
  ASSERT_OK_AND_ASSIGN(const auto wrapped, shared.wrap_host(memory));
  EXPECT_EQ(wrapped->base(), memory.data());
  EXPECT_ERROR(own.wrap_host(memory), "example:1 has no use for the host's memory");
  ASSERT_OK_AND_ASSIGN(const auto buffer, own.buffer_type().allocate(64, BufferUsage::any));
  EXPECT_EQ(buffer->base(), nullptr);
  EXPECT_FALSE(own.can_use(shared.buffer_type()));
  EXPECT_FALSE(shared.can_use(own.buffer_type()));
}

}  // namespace
}  // namespace tessera
