// Residual streams on the device compared with the CPU.
#include "tests/gpu/ops_testing.h"

namespace tessera {
namespace {

using namespace testing;

using GpuStreams = GpuTest;

struct StreamCase {
  int64_t n_streams, n_iterations;
  bool is_input = false;  // only the weights of an input
  int64_t n_more = 0;     // columns of the products that are not used
  float limit = 3.0f;     // of products
  int64_t n_tokens = 7;
};

std::string to_string(const StreamCase& c) {
  return fmt::format("{} streams, {} iterations, {}, {} more columns, up to {}", c.n_streams, c.n_iterations,
                     c.is_input ? "input" : "all", c.n_more, c.limit);
}

TestGraph weights_graph(const StreamCase& c) {
  Rng rng(1);
  const int64_t n = c.is_input ? c.n_streams : c.n_streams * (c.n_streams + 2), n_scales = c.is_input ? 1 : 3;
  TestGraph test;
  test.build = [=](GraphBuilder& b, const auto&) {
    const Value all = b.input("m", DType::f32, {n + c.n_more, c.n_tokens});
    Layout layout = b.spec(all).layout;
    layout.shape[0] = n;
    const StreamParams params{.n_streams = c.n_streams, .n_iterations = c.n_iterations, .eps = 1e-3f};
    b.output(b.stream_weights(b.view(all, layout, 0), b.input("bias", DType::f32, {n}),
                              b.input("scale", DType::f32, {n_scales}), params),
             "y");
  };
  test.inputs = {{"m", bytes_of(random_values(rng, (n + c.n_more) * c.n_tokens, c.limit))},
                 {"bias", bytes_of(random_values(rng, n))},
                 {"scale", bytes_of(random_values(rng, n_scales, 2.0f))}};
  return test;
}

// A device with another number of invocations in a workgroup computes the same.
void expect_as_on_cpu_by_all(const TestGraph& test, const std::string& what) {
  expect_as_on_cpu(test, kRowBound, what);
  expect_as_on_cpu(test, kRowBound, what + ", 64 lanes", gpu_device_of_64_lanes());
}

TEST_F(GpuStreams, WeightsAreTheCpus) {
  for (const StreamCase& c : std::vector<StreamCase>{{1, 1},
                                                     {2, 1},
                                                     {3, 2},
                                                     {4, 20},
                                                     {5, 3},
                                                     {16, 4},
                                                     {4, 1, true},
                                                     {16, 1, true},
                                                     {4, 20, false, 3},
                                                     {4, 1, true, 5},
                                                     {4, 3, false, 0, 80.0f},
                                                     {4, 2, false, 0, 3.0f, 1},
                                                     {4, 2, false, 0, 3.0f, 0}})
    expect_as_on_cpu_by_all(weights_graph(c), to_string(c));
}

struct SumCase {
  int64_t n_elements, n_streams, n_tokens = 3;
  bool updates = false;
  bool has_all_weights = true;
};

std::vector<SumCase> sum_cases() {
  std::vector<SumCase> cases;
  for (const int64_t n_elements : {1, 67, 1030})
    for (const int64_t n_streams : {1, 3, 4, 5, 16})
      for (const bool updates : {false, true}) cases.push_back({n_elements, n_streams, 3, updates});
  cases.push_back({67, 4, 3, false, false});
  cases.push_back({67, 4, 0, false});
  cases.push_back({67, 4, 0, true});
  return cases;
}

std::string to_string(const SumCase& c) {
  return fmt::format("{} of {} streams of {}, {} tokens", c.updates ? "update" : "join", c.n_streams, c.n_elements,
                     c.n_tokens);
}

// Weights are the first columns of wider rows.
TestGraph sum_graph(const SumCase& c) {
  Rng rng(2);
  const int64_t n = c.n_streams, n_weights = c.has_all_weights ? n * (n + 2) : n;
  TestGraph test;
  test.build = [=](GraphBuilder& b, const auto&) {
    const Value x = b.input("x", DType::f32, {c.n_elements, n, c.n_tokens});
    const Value all = b.input("weights", DType::f32, {n_weights + 3, c.n_tokens});
    Layout layout = b.spec(all).layout;
    layout.shape[0] = n_weights;
    const Value weights = b.view(all, layout, 0);
    const Value block = b.input("block", DType::f32, {c.n_elements, c.n_tokens});
    b.output(c.updates ? b.update_streams(x, block, weights) : b.join_streams(x, weights), "y");
  };
  test.inputs = {{"x", bytes_of(random_values(rng, c.n_elements * n * c.n_tokens))},
                 {"weights", bytes_of(random_values(rng, (n_weights + 3) * c.n_tokens))},
                 {"block", bytes_of(random_values(rng, c.n_elements * c.n_tokens))}};
  return test;
}

TEST_F(GpuStreams, SumsAreTheCpus) {
  for (const SumCase& c : sum_cases()) expect_as_on_cpu_by_all(sum_graph(c), to_string(c));
}

std::vector<float> floats_on(const Device& device, const TestGraph& test) {
  const auto got = run_on(device, test);
  EXPECT_OK(got);
  return got ? values_of<float>(got->outputs.at("y")) : std::vector<float>();
}

// 2^24 + 1 is 2^24 in f32, so that a sum shows its order: 0 as (2^24 + 1) - 2^24, and 1 in the reverse order.
TEST_F(GpuStreams, SumsFollowTheOrderOfStreams) {
  constexpr float kLarge = 16777216.0f;
  TestGraph join = sum_graph({1, 3, 1, false});
  join.inputs["x"] = bytes_of<float>({kLarge, 1.0f, -kLarge});
  join.inputs["weights"] = bytes_of(std::vector<float>(18, 1.0f));
  TestGraph update = sum_graph({1, 2, 1, true});
  update.inputs["x"] = bytes_of<float>({1.0f, -kLarge});
  update.inputs["block"] = bytes_of<float>({kLarge});
  update.inputs["weights"] = bytes_of(std::vector<float>(11, 1.0f));
  for (const Device* device : {gpu_device(), gpu_device_of_64_lanes()}) {
    EXPECT_EQ(floats_on(*device, join), std::vector<float>{0.0f});
    EXPECT_EQ(floats_on(*device, update), (std::vector<float>{0.0f, 0.0f}));
  }
}

// The first tokens of a batch.
void expect_bits_of_few(const TestGraph& many, const TestGraph& few, const std::string& what) {
  TestGraph first = few;
  for (auto& [name, bytes] : first.inputs) {
    const Bytes& from = many.inputs.at(name);
    ASSERT_LE(bytes.size(), from.size()) << what;
    bytes.assign(from.begin(), from.begin() + std::ssize(bytes));
  }
  const std::vector<float> expected = floats_on(*gpu_device(), many), got = floats_on(*gpu_device(), first);
  ASSERT_LT(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(expected[i])) << what << ", " << i;
}

TEST_F(GpuStreams, ATokenHasTheSameBitsInAnyBatch) {
  StreamCase weights{4, 20};
  const TestGraph many = weights_graph(weights);
  weights.n_tokens = 1;
  expect_bits_of_few(many, weights_graph(weights), "weights");
  for (const bool updates : {false, true})
    expect_bits_of_few(sum_graph({1030, 4, 5, updates}), sum_graph({1030, 4, 2, updates}), "sums");
}

}  // namespace
}  // namespace tessera
