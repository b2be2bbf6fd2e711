// A mixture of experts on the device compared with the CPU: identical routing, and products and sums within bounds.
#include <algorithm>
#include <limits>

#include "tests/gpu/gpu_support.h"

namespace tessera {
namespace {

using namespace testing;

using GpuExperts = GpuTest;

void expect_same_ids(const TestGraph& test, const std::string& name) {
  const auto cpu = cpu::create_device("").value();
  ASSERT_OK_AND_ASSIGN(const TestOutputs expected, run_on(*cpu, test));
  ASSERT_OK_AND_ASSIGN(const TestOutputs got, run_on(*gpu_device(), test));
  EXPECT_EQ(got.outputs.at(name), expected.outputs.at(name)) << name;
}

// With equal scores, NaN and infinities, the order is the same as on the CPU.
TEST_F(GpuExperts, TheBestAreTheCpus) {
  constexpr int64_t kExperts = 12, kTokens = 9;
  Rng rng(1);
  std::vector<float> scores = random_values(rng, kExperts * kTokens);
  for (size_t i = 0; i < scores.size(); i += 5) scores[i] = 0.25f;
  std::fill_n(scores.begin(), kExperts, 0.25f);  // a token with equal scores
  scores[30] = std::numeric_limits<float>::quiet_NaN();
  scores[50] = std::numeric_limits<float>::infinity();
  for (const int64_t k : {int64_t{1}, int64_t{4}, kExperts}) {
    const TestGraph test{.tensors = {},
                         .build =
                             [&](GraphBuilder& b, const auto&) {
                               const Value x = b.input("x", DType::f32, {kExperts, kTokens});
                               b.output(b.top_k(x, k), "ids");
                               b.output(b.top_k(x, k, 4), "divided");
                               b.output(b.top_groups(x, {.n_groups = 4, .n_used = 2}), "groups");
                             },
                         .inputs = {{"x", bytes_of(scores)}}};
    expect_same_ids(test, "ids");
    expect_same_ids(test, "divided");
    expect_same_ids(test, "groups");
  }
}

// More tokens than a workgroup has, more experts and groups than a warp has lanes, and more slots.
TEST_F(GpuExperts, ChoicesForManyTokensAreTheCpus) {
  constexpr int64_t kExperts = 160, kTokens = 183;
  Rng rng(5);
  std::vector<float> scores = random_values(rng, kExperts * kTokens);
  for (size_t i = 0; i < scores.size(); i += 3) scores[i] = 0.25f;
  for (const auto& [n_groups, n_used] : std::vector<std::pair<int64_t, int64_t>>{{8, 3}, {40, 5}, {160, 70}}) {
    const TestGraph test{.tensors = {},
                         .build =
                             [&, groups = n_groups, used = n_used](GraphBuilder& b, const auto&) {
                               const Value x = b.input("x", DType::f32, {kExperts, kTokens});
                               const Value ids = b.top_k(x, used);
                               b.output(ids, "ids");
                               b.output(b.top_groups(x, {.n_groups = groups, .n_used = used}), "groups");
                               b.output(b.expert_weights(x, ids, {.normalize = false, .scale = 1.5f}), "weights");
                             },
                         .inputs = {{"x", bytes_of(scores)}}};
    SCOPED_TRACE(fmt::format("{} of {} groups", n_used, n_groups));
    expect_same_ids(test, "ids");
    expect_same_ids(test, "groups");
    expect_same_ids(test, "weights");
  }
  const TestGraph normalized{.tensors = {},
                             .build =
                                 [&](GraphBuilder& b, const auto&) {
                                   const Value x = b.input("x", DType::f32, {kExperts, kTokens});
                                   b.output(b.expert_weights(x, b.top_k(x, 40), {.normalize = true}), "y");
                                 },
                             .inputs = {{"x", bytes_of(scores)}}};
  expect_as_on_cpu(normalized, 1e-11, "expert_weights");  // the CPU may round a quotient differently
}

// Routes, and the expert of each row.
TestGraph routes_of(const std::vector<int32_t>& ids, int64_t n_used, int64_t n_experts) {
  const auto n_tokens = static_cast<int64_t>(ids.size()) / n_used;
  std::vector<float> numbers(static_cast<size_t>(n_experts));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  return {.tensors = {{"numbers", DType::f32, {1, n_experts}, bytes_of(numbers)}},
          .build =
              [=](GraphBuilder& b, const std::vector<Value>& tensors) {
                const ExpertRoutes routes = b.expert_routes(b.input("ids", DType::i32, {n_used, n_tokens}), n_experts);
                b.output(routes.value(), "routes");
                b.output(b.expert_rows(tensors[0], routes), "experts");
              },
          .inputs = {{"ids", bytes_of(ids)}}};
}

// Any number of experts: one, fewer and more than a warp, and more than are counted at a time. Few pairs and many, with
// experts that have none and one that has many.
TEST_F(GpuExperts, RoutesAreTheCpus) {
  Rng rng(4);
  for (const int64_t n_experts : {1, 7, 64, 512, 1100})
    for (const int64_t n_tokens : {0, 1, 43, 183, 700}) {
      const int64_t n_used = n_tokens == 183 ? 8 : 3;
      std::vector<int32_t> ids;
      for (int64_t pair = 0; pair < n_used * n_tokens; ++pair) {
        const auto id = static_cast<int32_t>(rng.next_u32() % static_cast<uint32_t>(n_experts));
        ids.push_back(pair % 3 == 0 ? static_cast<int32_t>(n_experts - 1)
                                    : id / 2 * 2 % static_cast<int32_t>(n_experts));
      }
      SCOPED_TRACE(fmt::format("{} experts, {} tokens", n_experts, n_tokens));
      const TestGraph test = routes_of(ids, n_used, n_experts);
      expect_same_ids(test, "routes");
      expect_same_ids(test, "experts");
    }
}

// More groups than a warp has lanes.
TEST_F(GpuExperts, ManyGroupsAreTheCpus) {
  constexpr int64_t kExperts = 96, kTokens = 6;
  Rng rng(4);
  expect_same_ids({.tensors = {},
                   .build =
                       [&](GraphBuilder& b, const auto&) {
                         const Value x = b.input("x", DType::f32, {kExperts, kTokens});
                         b.output(b.top_groups(x, {.n_groups = 48, .n_used = 20}), "groups");
                       },
                   .inputs = {{"x", bytes_of(random_values(rng, kExperts * kTokens))}}},
                  "groups");
}

// Some experts have no tokens, and one has more rows than a workgroup computes at a time.
TEST_F(GpuExperts, ProductsAndSumsAreTheCpus) {
  constexpr int64_t kIn = 40, kOut = 22, kExperts = 7, kUsed = 3, kTokens = 21;
  Rng rng(2);
  std::vector<int32_t> ids;
  for (int32_t t = 0; t < kTokens; ++t) {
    ids.push_back(2);
    ids.push_back(t % 2 == 0 ? 0 : 6);
    ids.push_back(t < 3 ? 4 : 5);
  }
  const TestGraph test{
      .tensors = {{"up", DType::f32, {kIn, kOut, kExperts}, bytes_of(random_values(rng, kIn * kOut * kExperts))},
                  {"down", DType::f32, {kOut, kIn, kExperts}, bytes_of(random_values(rng, kIn * kOut * kExperts))},
                  {"bias", DType::f32, {kOut, kExperts}, bytes_of(random_values(rng, kOut * kExperts))}},
      .build =
          [&](GraphBuilder& b, const std::vector<Value>& tensors) {
            const Value chosen = b.input("ids", DType::i32, {kUsed, kTokens});
            const ExpertRoutes routes = b.expert_routes(chosen, kExperts);
            const Value weights = b.expert_weights(b.input("scores", DType::f32, {kExperts, kTokens}), chosen,
                                                   {.normalize = true, .scale = 1.5f});
            Value h =
                b.mul_mat_experts(tensors[0], b.input("x", DType::f32, {kIn, kTokens}), routes, ExpertInput::tokens);
            h = b.add(h, b.expert_rows(tensors[2], routes));
            h = b.add_scaled(h, h, b.input("scales", DType::f32, {1, kTokens}), 0.5f, routes);
            h = b.mul_mat_experts(tensors[1], h, routes, ExpertInput::routed);
            b.output(b.expert_sum(h, weights, routes), "y");
          },
      .inputs = {{"ids", bytes_of(ids)},
                 {"scores", bytes_of(random_values(rng, kExperts * kTokens))},
                 {"scales", bytes_of(random_values(rng, kTokens))},
                 {"x", bytes_of(random_values(rng, kIn * kTokens))}}};
  expect_as_on_cpu(test, 1e-11, "experts");  // sums in another order, the sum of weights may cancel
}

TEST_F(GpuExperts, WeightedRowsOfPairsAreTheCpus) {
  constexpr int64_t kIn = 300, kExperts = 5, kUsed = 2, kTokens = 9;
  Rng rng(3);
  std::vector<int32_t> ids;
  for (int32_t t = 0; t < kTokens; ++t) {
    ids.push_back(3);
    ids.push_back(t % 2);
  }
  const TestGraph test{.tensors = {},
                       .build =
                           [&](GraphBuilder& b, const std::vector<Value>&) {
                             const Value chosen = b.input("ids", DType::i32, {kUsed, kTokens});
                             const Value weights = b.input("weights", DType::f32, {kUsed, kTokens});
                             const Value x = b.input("x", DType::f32, {kIn, kTokens});
                             b.output(b.expert_spread(x, weights, b.expert_routes(chosen, kExperts)), "y");
                           },
                       .inputs = {{"ids", bytes_of(ids)},
                                  {"weights", bytes_of(random_values(rng, kUsed * kTokens))},
                                  {"x", bytes_of(random_values(rng, kIn * kTokens))}}};
  expect_as_on_cpu(test, 0, "expert_spread");
}

// Some experts with many rows and some with none.
TEST_F(GpuExperts, ProductsOnTilesAreTheCpus) {
  Rng rng(3);
  constexpr int64_t kTokens = 43;
  constexpr int64_t kExperts = 4, kUsed = 2, kIn = 1100, kOut = 37;
  std::vector<int32_t> ids;
  for (int32_t t = 0; t < kTokens; ++t) {
    ids.push_back(1);
    ids.push_back(t % 3 == 0 ? 0 : 3);
  }
  const TestGraph experts{
      .tensors = {{"up", DType::f32, {kIn, kOut, kExperts}, bytes_of(random_values(rng, kIn * kOut * kExperts))},
                  {"down", DType::f32, {kOut, kIn, kExperts}, bytes_of(random_values(rng, kIn * kOut * kExperts))}},
      .build =
          [&](GraphBuilder& b, const std::vector<Value>& tensors) {
            const ExpertRoutes routes = b.expert_routes(b.input("ids", DType::i32, {kUsed, kTokens}), kExperts);
            const Value h =
                b.mul_mat_experts(tensors[0], b.input("x", DType::f32, {kIn, kTokens}), routes, ExpertInput::tokens);
            b.output(b.mul_mat_experts(tensors[1], h, routes, ExpertInput::routed), "y");
          },
      .inputs = {{"ids", bytes_of(ids)}, {"x", bytes_of(random_values(rng, kIn * kTokens))}}};
  expect_as_on_cpu(experts, 1e-11, "mul_mat_experts", gpu_device_of_64_lanes());  // sums in another order
  ASSERT_OK_AND_ASSIGN(const TestOutputs tiles, run_on(*gpu_device_of_64_lanes(), experts));
  ASSERT_OK_AND_ASSIGN(const TestOutputs rows, run_on(*gpu_device(), experts));
  EXPECT_EQ(tiles.outputs.at("y"), rows.outputs.at("y"));
}

TEST_F(GpuExperts, AnExpertThatDoesNotExistFailsTheRun) {
  EXPECT_ERROR(
      run_on(*gpu_device(),
             {.tensors = {{"w", DType::f32, {8, 4, 3}, {}}},
              .build =
                  [](GraphBuilder& b, const std::vector<Value>& tensors) {
                    const ExpertRoutes routes = b.expert_routes(b.input("ids", DType::i32, {2, 2}), 3);
                    b.output(
                        b.mul_mat_experts(tensors[0], b.input("x", DType::f32, {8, 2}), routes, ExpertInput::tokens),
                        "y");
                  },
              .inputs = {{"ids", bytes_of<int32_t>({0, 1, 3, 2})}, {"x", bytes_of(std::vector<float>(16, 1.0f))}}}),
      "expert 3, want 0 to 2");
}

// The first of several is reported.
TEST_F(GpuExperts, AnInvalidExpertAmongManyPairsFailsTheRun) {
  for (const size_t at : {size_t{0}, size_t{700}, size_t{2099}}) {
    std::vector<int32_t> ids(2100, 2);
    ids[at] = -1 - static_cast<int32_t>(at);
    for (size_t i = at + 1; i < ids.size(); i += 77) ids[i] = 5;
    EXPECT_ERROR(run_on(*gpu_device(), routes_of(ids, 3, 5)),
                 fmt::format("expert {}, want 0 to 4", -1 - static_cast<int32_t>(at)));
  }
}

}  // namespace
}  // namespace tessera
