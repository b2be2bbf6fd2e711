// Products of experts in graphs: every type, packed or not, any number of threads and tokens, experts chosen by all
// tokens or by none, and products that run together.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <deque>

#include "tessera/isa/sets.h"
#include "tests/cpu/matmul_testing.h"

namespace tessera {
namespace {

using namespace testing;

/// n_experts consecutive matrices [k, n_rows].
struct ExpertTensor {
  ExpertTensor(DType dtype, int64_t k, int64_t n_rows, int64_t n_experts, uint64_t seed)
      : weights(dtype, k, n_rows * n_experts, seed), shape{k, n_rows, n_experts} {}
  OwnedTensor place(const Device& device, bool is_packed, const std::string& name = "w") const {
    const BufferType& type =
        is_packed ? device.weight_buffer_type(Op::mul_mat_experts, weights.dtype, shape) : device.buffer_type();
    return {type, name, weights.dtype, shape, weights.bytes};
  }
  Weights weights;
  Shape shape;
};

/// The choice of experts by n_pairs: random, all the same, or with some experts chosen by no pair and some by one.
enum class ExpertChoice { random, one, few };

std::vector<int32_t> choose(ExpertChoice choice, int64_t n_pairs, int64_t n_experts, uint64_t seed) {
  Rng rng(seed);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < n_pairs; ++i)
    ids.push_back(choice == ExpertChoice::one ? static_cast<int32_t>(n_experts - 1)
                  : choice == ExpertChoice::few
                      ? (i == n_pairs / 2 ? 0 : 2)
                      : static_cast<int32_t>(rng.next_u32() % static_cast<uint32_t>(n_experts)));
  return ids;
}

/// Pairs in routed order.
std::vector<int64_t> routed(const std::vector<int32_t>& ids) {
  std::vector<int64_t> pairs(ids.size());
  for (size_t i = 0; i < pairs.size(); ++i) pairs[i] = static_cast<int64_t>(i);
  std::ranges::stable_sort(pairs, {}, [&](int64_t pair) { return ids[static_cast<size_t>(pair)]; });
  return pairs;
}

Graph product(const Tensor& w, int64_t n_x, int64_t n_used, int64_t t, ExpertInput input) {
  GraphBuilder b;
  const ExpertRoutes routes = b.expert_routes(b.input("i", DType::i32, {n_used, t}), w.shape()[2]);
  b.output(b.mul_mat_experts(b.tensor(w), b.input("x", DType::f32, {w.shape()[0], n_x}), routes, input), "y");
  return std::move(b).finish().value();
}

struct ExpertsCase {
  int64_t k, n_rows, n_experts, n_used, t;
  ExpertChoice choice;
  ExpertInput input;
};

void expect_products(DType dtype, const ExpertsCase& c,
                     ActivationPrecision activations = ActivationPrecision::automatic) {
  if (c.k % info(dtype).block_elements != 0) return;
  const ExpertTensor w(dtype, c.k, c.n_rows, c.n_experts, 3);
  const std::vector<int32_t> ids = choose(c.choice, c.n_used * c.t, c.n_experts, 7);
  const std::vector<int64_t> pairs = routed(ids);
  const bool by_token = c.input == ExpertInput::tokens;
  const int64_t n_x = by_token ? c.t : c.n_used * c.t;
  Rng rng(5);
  const std::vector<float> x = random_values(rng, c.k * n_x);
  for (const std::string& isa : isa::usable_isas()) {
    std::vector<float> first;
    for (const bool is_packed : {true, false})
      for (const int n_threads : {1, 3}) {
        GraphRunner runner(isa, n_threads, activations);
        const OwnedTensor weights = w.place(runner.device(), is_packed);
        ASSERT_OK_AND_ASSIGN(const auto y, runner.run_y(product(weights.tensor, n_x, c.n_used, c.t, c.input),
                                                        {{"x", bytes_of(x)}, {"i", bytes_of(ids)}}));
        if (first.empty()) first = y;
        ASSERT_TRUE(same_bytes(y, first))
            << isa << " " << info(dtype).name << " packed " << is_packed << ", " << n_threads << " threads";
      }
    for (size_t i = 0; i < pairs.size(); ++i) {
      const int64_t expert = ids[static_cast<size_t>(pairs[i])];
      const int64_t x_row = by_token ? pairs[i] / c.n_used : static_cast<int64_t>(i);
      for (int64_t r = 0; r < c.n_rows; ++r) {
        double sum = 0, magnitude = 0;
        for (int64_t j = 0; j < c.k; ++j) {
          const double p = double{w.weights.values[static_cast<size_t>((expert * c.n_rows + r) * c.k + j)]} *
                           x[static_cast<size_t>(x_row * c.k + j)];
          sum += p;
          magnitude += std::abs(p);
        }
        ASSERT_NEAR(first[i * static_cast<size_t>(c.n_rows) + static_cast<size_t>(r)], sum,
                    product_tolerance(dtype) * magnitude)
            << isa << " " << info(dtype).name << " expert " << expert << " row " << r << " pair " << pairs[i];
      }
    }
  }
}

TEST(MulMatExperts, IsEachExpertsProductForEveryType) {
  const int64_t n_tokens = testing::all_or_few(20, 7);
  for (const DType dtype : weight_types())
    for (const ExpertsCase& c : {ExpertsCase{32, 16, 3, 2, 1, ExpertChoice::random, ExpertInput::tokens},
                                 {256, 48, 5, 2, n_tokens, ExpertChoice::random, ExpertInput::tokens},
                                 {256, 48, 5, 2, n_tokens, ExpertChoice::random, ExpertInput::routed}})
      expect_products(dtype, c);
}

TEST(MulMatExperts, ForAnyNumberOfTokensAndAnyChoice) {
  for (const DType dtype : {DType::f32, DType::f16, DType::q8_0, DType::q4_k})
    for (const ExpertInput input : {ExpertInput::tokens, ExpertInput::routed})
      for (const ExpertChoice choice : {ExpertChoice::random, ExpertChoice::one, ExpertChoice::few})
        for (const int64_t t : {0, 1, 2, 3, 6, 7, 13, 40}) {
          if (!testing::runs_all_cases() && t > 7) continue;
          expect_products(dtype, {256, 16, 4, 2, t, choice, input});
          if (dtype == DType::f16) {
            expect_products(dtype, {250, 16, 4, 2, t, choice, input});
            expect_products(dtype, {250, 16, 4, 2, t, choice, input}, ActivationPrecision::float32);
          }
        }
}

// Experts of 20 rows have no packed form; their last panel is partial.
TEST(MulMatExperts, ExpertsNeedNotBeWholePanels) {
  for (const DType dtype : {DType::f32, DType::q8_0})
    for (const int64_t t : {1, 9}) expect_products(dtype, {64, 20, 3, 2, t, ExpertChoice::random, ExpertInput::tokens});
}

TEST(MulMatExperts, ATokensResultDoesNotDependOnItsNeighbours) {
  const int64_t k = 256, n_rows = 32, n_experts = 4, n_used = 2, t = 30;
  const std::vector<int32_t> ids = choose(ExpertChoice::random, n_used * t, n_experts, 1);
  Rng rng(9);
  const std::vector<float> x = random_values(rng, k * t);
  for (const DType dtype : weight_types()) {
    const ExpertTensor w(dtype, k, n_rows, n_experts, 7);
    for (const std::string& isa : isa::usable_isas()) {
      GraphRunner runner(isa, 2);
      const OwnedTensor weights = w.place(runner.device(), true);
      // Rows by pair: weights with a 1 for one slot select the row of each pair from the routed order.
      const auto rows_of = [&](int64_t begin, int64_t n) {
        std::vector<float> part(x.begin() + begin * k, x.begin() + (begin + n) * k);
        const std::vector<int32_t> part_ids(ids.begin() + begin * n_used, ids.begin() + (begin + n) * n_used);
        const auto y = runner.run_y(product(weights.tensor, n, n_used, n, ExpertInput::tokens),
                                    {{"x", bytes_of(part)}, {"i", bytes_of(part_ids)}});
        std::vector<float> by_pair(y.value().size());
        const auto pairs = routed(part_ids);
        for (size_t i = 0; i < pairs.size(); ++i)
          std::copy_n(y.value().begin() + static_cast<int64_t>(i) * n_rows, n_rows,
                      by_pair.begin() + pairs[i] * n_rows);
        return by_pair;
      };
      const auto all = rows_of(0, t);
      for (const auto& [begin, n] : {std::pair<int64_t, int64_t>{0, 1}, {29, 1}, {3, 2}, {5, 13}}) {
        const auto part = rows_of(begin, n);
        ASSERT_EQ(0, std::memcmp(part.data(), &all[static_cast<size_t>(begin * n_used * n_rows)], part.size() * 4))
            << isa << " " << info(dtype).name << " tokens " << begin << " + " << n;
      }
    }
  }
}

TEST(MulMatExperts, ProductsOfOneXGiveWhatEachGivesAlone) {
  const DType types[] = {DType::q8_0, DType::q4_0, DType::f16, DType::q8_0};
  const int64_t k = 64, n_experts = 3;
  Rng rng(3);
  for (const int64_t t : {1, 20}) {
    const std::vector<float> x = random_values(rng, k * t);
    const NamedBytes inputs{{"x", bytes_of(x)}, {"i", bytes_of(choose(ExpertChoice::random, 2 * t, n_experts, 4))}};
    for (const int n_threads : {1, 3}) {
      GraphRunner runner("", n_threads);
      std::deque<OwnedTensor> tensors;
      GraphBuilder together;
      const Value shared = together.input("x", DType::f32, {k, t});
      const ExpertRoutes routes = together.expert_routes(together.input("i", DType::i32, {2, t}), n_experts);
      for (size_t i = 0; i < 4; ++i) {
        const ExpertTensor w(types[i], k, 16 * static_cast<int64_t>(i + 1), n_experts, i);
        tensors.push_back(w.place(runner.device(), i % 2 == 0, "w" + std::to_string(i)));
        together.output(
            together.mul_mat_experts(together.tensor(tensors.back().tensor), shared, routes, ExpertInput::tokens),
            "y" + std::to_string(i));
      }
      ASSERT_OK_AND_ASSIGN(const auto all, runner.run(std::move(together).finish().value(), inputs));
      for (size_t i = 0; i < 4; ++i) {
        ASSERT_OK_AND_ASSIGN(const auto y,
                             runner.run_y(product(tensors[i].tensor, t, 2, t, ExpertInput::tokens), inputs));
        ASSERT_EQ(all.at("y" + std::to_string(i)), bytes_of(y)) << i;
      }
    }
  }
}

// One product reads rows of tokens, the other rows in routed order. With one expert per token, both fit the same x.
TEST(MulMatExperts, ProductsThatReadXInAnotherOrderDoNotJoin) {
  const int64_t k = 64, t = 10;
  const ExpertTensor w(DType::f32, k, 16, 3, 1);
  Rng rng(2);
  const NamedBytes inputs{{"x", bytes_of(random_values(rng, k * t))},
                          {"i", bytes_of(choose(ExpertChoice::random, t, 3, 4))}};
  GraphRunner runner;
  const OwnedTensor weights = w.place(runner.device(), true);
  GraphBuilder b;
  const Value x = b.input("x", DType::f32, {k, t});
  const ExpertRoutes routes = b.expert_routes(b.input("i", DType::i32, {1, t}), 3);
  b.output(b.mul_mat_experts(b.tensor(weights.tensor), x, routes, ExpertInput::tokens), "a");
  b.output(b.mul_mat_experts(b.tensor(weights.tensor), x, routes, ExpertInput::routed), "b");
  ASSERT_OK_AND_ASSIGN(const auto both, runner.run(std::move(b).finish().value(), inputs));
  for (const auto& [name, input] : {std::pair{"a", ExpertInput::tokens}, {"b", ExpertInput::routed}}) {
    ASSERT_OK_AND_ASSIGN(const auto y, runner.run_y(product(weights.tensor, t, 1, t, input), inputs));
    EXPECT_EQ(both.at(name), bytes_of(y)) << name;
  }
}

TEST(MulMatExperts, ActivationsMayStayFloats) {
  const int64_t k = 256, n_rows = 16, n_experts = 3, t = 9;
  const ExpertTensor w(DType::q4_k, k, n_rows, n_experts, 1);
  Rng rng(2);
  const NamedBytes inputs{{"x", bytes_of(random_values(rng, k * t))},
                          {"i", bytes_of(choose(ExpertChoice::random, t, 3, 4))}};
  const ExpertTensor exact = [&] {
    ExpertTensor f32(DType::f32, k, n_rows, n_experts, 1);
    f32.weights.bytes = bytes_of(w.weights.values);
    return f32;
  }();
  const auto device = cpu::create_device("").value();
  const auto run = [&](const ExpertTensor& tensor, bool is_packed) {
    const OwnedTensor weights = tensor.place(*device, is_packed);
    const auto backend =
        device->create_backend({.threads = {.n_threads = 2}, .activations = ActivationPrecision::float32}).value();
    Executor executor(*backend);
    Graph graph = product(weights.tensor, t, 1, t, ExpertInput::tokens);
    EXPECT_OK(executor.reserve({&graph, 1}));
    const auto prepared = executor.prepare(std::move(graph)).value();
    const Graph& g = prepared->graph();
    for (NodeId id = 0; id < g.size(); ++id)
      if (g[id].op == Op::input)
        EXPECT_OK(prepared->tensor(id).buffer->set(prepared->tensor(id), 0, inputs.at(g[id].name)));
    EXPECT_OK(executor.run(*prepared));
    const Tensor& y = prepared->tensor(g.size() - 1);
    Bytes bytes(span_bytes(y.dtype, y.layout));
    EXPECT_OK(y.buffer->get(y, 0, bytes));
    return bytes;
  };
  const Bytes want = run(exact, true);
  EXPECT_EQ(run(w, true), want);
  EXPECT_EQ(run(w, false), want);
}

TEST(MulMatExperts, ScratchNeverShrinksForMoreTokens) {
  for (const std::string& isa : isa::usable_isas())
    for (const DType dtype : {DType::f32, DType::q8_0, DType::q4_k})
      for (const ExpertInput input : {ExpertInput::tokens, ExpertInput::routed}) {
        GraphRunner runner(isa, 4);
        size_t before = 0;
        for (int64_t t = 1; t <= 40; ++t) {
          GraphBuilder b;
          const ExpertRoutes routes = b.expert_routes(b.input("i", DType::i32, {3, t}), 5);
          const Value x = b.input("x", DType::f32, {256, input == ExpertInput::tokens ? t : 3 * t});
          b.output(b.mul_mat_experts(b.input("w", dtype, {256, 32, 5}), x, routes, input), "y");
          ASSERT_OK_AND_ASSIGN(const size_t bytes, runner.backend().work_bytes(std::move(b).finish().value()));
          ASSERT_GE(bytes, before) << isa << " " << info(dtype).name << " at " << t << " tokens";
          before = bytes;
        }
      }
}

}  // namespace
}  // namespace tessera
