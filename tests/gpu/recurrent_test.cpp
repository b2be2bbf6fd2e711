// Recurrent operations on the device compared with the CPU: outputs and final states.
#include "tests/gpu/gpu_support.h"

namespace tessera {
namespace {

using namespace testing;

using GpuRecurrent = GpuTest;

constexpr int64_t kRunTokens = 7, kSlots = 4;

// A segment of four tokens that reads and writes the same state, one of three tokens that starts from zeros, and an
// unused segment.
std::vector<int32_t> segments() { return {0, 4, 1, 1, 4, 3, -1, 2, 0, 0, 0, 0, /*order:*/ 2, 0, 5, 6, 1, 3, 4}; }

struct Layer {
  std::string name;
  int64_t n_state;
  std::map<std::string, Shape> inputs;
  std::function<Value(GraphBuilder&, std::map<std::string, Value>&, Value state, Value segments)> build;
};

const Layer kLayers[] = {
    {"causal_conv",
     10 * 3,
     {{"x", {10, kRunTokens}}, {"w", {4, 10}}, {"bias", {10}}},
     [](GraphBuilder& b, auto& v, Value s, Value r) { return b.causal_conv(v["x"], v["w"], v["bias"], s, r); }},
    {"token_shift",
     33,
     {{"x", {33, kRunTokens}}},
     [](GraphBuilder& b, auto& v, Value s, Value r) { return b.token_shift(v["x"], s, r); }},
    {"selective_scan",
     5 * 3 * 4,
     {{"x", {3, 4, kRunTokens}},
      {"dt", {4, kRunTokens}},
      {"a", {5, 4}},
      {"b", {5, 2, kRunTokens}},
      {"c", {5, 2, kRunTokens}},
      {"d", {4}}},
     [](GraphBuilder& b, auto& v, Value s, Value r) {
       return b.selective_scan(v["x"], v["dt"], v["a"], v["b"], v["c"], v["d"], s, r);
     }},
    {"selective_scan by head",
     5 * 3 * 4,
     {{"x", {3, 4, kRunTokens}},
      {"dt", {4, kRunTokens}},
      {"a", {1, 4}},
      {"b", {5, 2, kRunTokens}},
      {"c", {5, 2, kRunTokens}},
      {"d", {4}}},
     [](GraphBuilder& b, auto& v, Value s, Value r) {
       return b.selective_scan(v["x"], v["dt"], v["a"], v["b"], v["c"], v["d"], s, r);
     }},
    {"delta_net grouped",
     6 * 5 * 4,
     {{"q", {6, 2, kRunTokens}},
      {"k", {6, 2, kRunTokens}},
      {"v", {5, 4, kRunTokens}},
      {"g", {4, kRunTokens}},
      {"beta", {4, kRunTokens}}},
     [](GraphBuilder& b, auto& v, Value s, Value r) {
       return b.delta_net(v["q"], v["k"], v["v"], v["g"], v["beta"], s, r,
                          {.key_heads = KeyHeads::grouped, .scale = 0.4f});
     }},
    {"delta_net tiled",
     6 * 5 * 4,
     {{"q", {6, 2, kRunTokens}},
      {"k", {6, 2, kRunTokens}},
      {"v", {5, 4, kRunTokens}},
      {"g", {4, kRunTokens}},
      {"beta", {4, kRunTokens}}},
     [](GraphBuilder& b, auto& v, Value s, Value r) {
       return b.delta_net(v["q"], v["k"], v["v"], v["g"], v["beta"], s, r,
                          {.key_heads = KeyHeads::tiled, .scale = 0.4f});
     }},
    {"rwkv7",
     6 * 6 * 2,
     {{"r", {6, 2, kRunTokens}},
      {"decay", {6, 2, kRunTokens}},
      {"k", {6, 2, kRunTokens}},
      {"v", {6, 2, kRunTokens}},
      {"a", {6, 2, kRunTokens}},
      {"b", {6, 2, kRunTokens}}},
     [](GraphBuilder& b, auto& v, Value s, Value r) {
       return b.rwkv7(v["r"], v["decay"], v["k"], v["v"], v["a"], v["b"], s, r);
     }},
    {"rwkv7 with the state before",
     6 * 6 * 2,
     {{"r", {6, 2, kRunTokens}}, {"decay", {6, 2, kRunTokens}}, {"k", {6, 2, kRunTokens}}, {"v", {6, 2, kRunTokens}}},
     [](GraphBuilder& b, auto& v, Value s, Value r) {
       return b.rwkv7(v["r"], v["decay"], v["k"], v["v"], v["k"], v["v"], s, r, {StateRead::before});
     }},
};

TestGraph graph_of(const Layer& layer, const std::vector<int32_t>& fields) {
  Rng rng(3);
  TestGraph test;
  test.tensors = {{"state", DType::f32, {layer.n_state, kSlots}, bytes_of(random_values(rng, layer.n_state * kSlots))}};
  for (const auto& [name, shape] : layer.inputs)
    test.inputs[name] = bytes_of(random_values(rng, shape.n_elements(), 0.9f));
  test.inputs["segments"] = bytes_of(fields);
  const auto n_fields = static_cast<int64_t>(fields.size());
  test.build = [&layer, n_fields](GraphBuilder& b, const std::vector<Value>& tensors) {
    std::map<std::string, Value> values;
    for (const auto& [name, shape] : layer.inputs) values[name] = b.input(name, DType::f32, shape);
    b.output(layer.build(b, values, tensors[0], b.input("segments", DType::i32, {n_fields})), "y");
  };
  return test;
}

TEST_F(GpuRecurrent, OutputsAndStatesAreTheCpus) {
  const auto cpu = cpu::create_device("").value();
  for (const Layer& layer : kLayers) {
    const TestGraph test = graph_of(layer, segments());
    expect_as_on_cpu(test, 1e-11, layer.name);  // sums of a few products in another order
    ASSERT_OK_AND_ASSIGN(const TestOutputs expected, run_on(*cpu, test));
    ASSERT_OK_AND_ASSIGN(const TestOutputs got, run_on(*gpu_device(), test));
    EXPECT_LE(relative_error(values_of<float>(got.tensors[0]), values_of<float>(expected.tensors[0])), 1e-11)
        << layer.name;
  }
}

TEST_F(GpuRecurrent, WhatIsOutOfRangeFailsTheRun) {
  const auto with = [](size_t at, int32_t value) {
    std::vector<int32_t> fields = segments();
    fields[at] = value;
    return run_on(*gpu_device(), graph_of(kLayers[1], fields));
  };
  EXPECT_ERROR(with(2, 4), "state 4, want 0 to 3");
  EXPECT_ERROR(with(3, -1), "state -1, want 0 to 3");
  EXPECT_ERROR(with(1, 8), "token 8, want 0 to 7");
  EXPECT_ERROR(with(4, 5), "token 7, want 0 to 6");
  EXPECT_ERROR(with(13, 7), "token 7, want 0 to 6");
}

}  // namespace
}  // namespace tessera
