// Matrix multiplication in graphs: every type, packed or not, any number of threads, products that run together, and
// cancellation. matmul_kernels_test.cpp checks the accuracy of the kernels.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <deque>
#include <thread>

#include "tessera/isa/sets.h"
#include "tests/cpu/matmul_testing.h"

namespace tessera {
namespace {

using namespace testing;

TEST(MulMat, IsTheProductForEveryTypePackedOrNot) {
  for (const DType dtype : weight_types())
    for (const auto& [k, n_rows, t] :
         {std::array<int64_t, 3>{32, 1, 1}, {64, 17, 3}, {96, 50, 40}, {256, 100, 9}, {512, 16, 0}}) {
      if (k % info(dtype).block_elements != 0) continue;
      const Weights w(dtype, k, n_rows, 3);
      Rng rng(5);
      const std::vector<float> x = random_values(rng, k * t);
      for (const std::string& isa : isa::usable_isas()) {
        std::vector<float> first;
        for (const bool is_packed : {true, false})
          for (const int n_threads : {1, 2, 3}) {
            GraphRunner runner(isa, n_threads);
            const OwnedTensor weights(type_for(runner.device(), is_packed, dtype, w.shape), "w", dtype, w.shape,
                                      w.bytes);
            GraphBuilder b;
            b.output(b.mul_mat(b.tensor(weights.tensor), b.input("x", DType::f32, {k, t})), "y");
            ASSERT_OK_AND_ASSIGN(const auto y, runner.run_y(std::move(b).finish().value(), {{"x", bytes_of(x)}}));
            if (first.empty()) first = y;
            ASSERT_TRUE(same_bytes(y, first))
                << isa << " " << info(dtype).name << " packed " << is_packed << ", " << n_threads;
          }
        for (int64_t j = 0; j < t; ++j)
          for (int64_t r = 0; r < n_rows; ++r) {
            double sum = 0, magnitude = 0;
            for (int64_t i = 0; i < k; ++i) {
              const double p = double{w.values[static_cast<size_t>(r * k + i)]} * x[static_cast<size_t>(j * k + i)];
              sum += p;
              magnitude += std::abs(p);
            }
            ASSERT_NEAR(first[static_cast<size_t>(j * n_rows + r)], sum, product_tolerance(dtype) * magnitude)
                << isa << " " << info(dtype).name << " row " << r << " token " << j;
          }
      }
    }
}

TEST(MulMat, ATokensResultDoesNotDependOnItsNeighbours) {
  const int64_t n_rows = 50, t = 37;
  for (const DType dtype : weight_types()) {
    const int64_t k = info(dtype).block_elements > 32 ? 256 : 96;
    const Weights w(dtype, k, n_rows, 7);
    Rng rng(9);
    const std::vector<float> x = random_values(rng, k * t);
    for (const std::string& isa : isa::usable_isas()) {
      GraphRunner runner(isa, 2);
      const OwnedTensor weights(type_for(runner.device(), true, dtype, w.shape), "w", dtype, w.shape, w.bytes);
      const auto product = [&](int64_t begin, int64_t n) {
        GraphBuilder b;
        b.output(b.mul_mat(b.tensor(weights.tensor), b.input("x", DType::f32, {k, n})), "y");
        return runner.run_y(std::move(b).finish().value(),
                            {{"x", bytes_of(std::vector<float>(x.begin() + begin * k, x.begin() + (begin + n) * k))}});
      };
      ASSERT_OK_AND_ASSIGN(const auto all, product(0, t));
      for (const auto& [begin, n] : {std::pair<int64_t, int64_t>{0, 1}, {5, 1}, {36, 1}, {3, 4}, {8, 16}, {20, 17}}) {
        ASSERT_OK_AND_ASSIGN(const auto part, product(begin, n));
        ASSERT_EQ(0, std::memcmp(part.data(), &all[static_cast<size_t>(begin * n_rows)], part.size() * 4))
            << isa << " " << info(dtype).name << " tokens " << begin << " + " << n;
      }
    }
  }
}

TEST(MulMat, XMayBeAViewOfRows) {
  const Weights w(DType::f32, 64, 20, 1);
  Rng rng(2);
  const std::vector<float> x = random_values(rng, 64 * 6);
  std::vector<float> picked;
  for (const int row : {1, 3, 5}) picked.insert(picked.end(), x.begin() + row * 64, x.begin() + (row + 1) * 64);
  GraphRunner runner;
  const OwnedTensor weights(type_for(runner.device(), true, DType::f32, w.shape), "w", DType::f32, w.shape, w.bytes);
  const auto run = [&](bool is_view, const std::vector<float>& values) {
    GraphBuilder b;
    Value in = b.input("x", DType::f32, {64, is_view ? 6 : 3});
    if (is_view) in = b.view(in, {.shape = {64, 3}, .nb = {4, 512, 1536, 1536}}, 256);
    b.output(b.mul_mat(b.tensor(weights.tensor), in), "y");
    return runner.run_y(std::move(b).finish().value(), {{"x", bytes_of(values)}});
  };
  ASSERT_OK_AND_ASSIGN(const auto strided, run(true, x));
  ASSERT_OK_AND_ASSIGN(const auto contiguous, run(false, picked));
  EXPECT_TRUE(same_bytes(strided, contiguous));
}

// --- products of the same x run at the same time

TEST(MulMat, ProductsOfOneXGiveWhatEachGivesAlone) {
  const DType types[] = {DType::q8_0, DType::q4_0, DType::f16, DType::q8_0};
  Rng rng(3);
  for (const int64_t t : {1, 20}) {
    const std::vector<float> x = random_values(rng, 64 * t);
    for (const int n_threads : {1, 3}) {
      GraphRunner runner("", n_threads);
      std::deque<OwnedTensor> tensors;
      GraphBuilder together;
      const Value shared = together.input("x", DType::f32, {64, t});
      for (size_t i = 0; i < 4; ++i) {
        const Weights w(types[i], 64, 30 + 7 * static_cast<int64_t>(i), i);
        const BufferType& type = type_for(runner.device(), i % 2 == 0, types[i], w.shape);
        tensors.emplace_back(type, "w" + std::to_string(i), types[i], w.shape, w.bytes);
        together.output(together.mul_mat(together.tensor(tensors.back().tensor), shared), "y" + std::to_string(i));
      }
      ASSERT_OK_AND_ASSIGN(const auto all, runner.run(std::move(together).finish().value(), {{"x", bytes_of(x)}}));
      for (size_t i = 0; i < 4; ++i) {
        GraphBuilder alone;
        alone.output(alone.mul_mat(alone.tensor(tensors[i].tensor), alone.input("x", DType::f32, {64, t})), "y");
        ASSERT_OK_AND_ASSIGN(const auto y, runner.run_y(std::move(alone).finish().value(), {{"x", bytes_of(x)}}));
        ASSERT_EQ(all.at("y" + std::to_string(i)), bytes_of(y)) << i;
      }
    }
  }
}

// The two tests below are for data races. The first race has a narrow window, and only the thread sanitizer detects it.
// The sizes in the second test make the race visible without it.
constexpr int kRounds = 8;

// Weights that are values die after their product, so the next product with the same x may reuse their bytes.
TEST(MulMat, WeightsThatAreValuesAreNotOverwrittenByTheNextProduct) {
  const int64_t k = 64, n = 256, t = 64;  // a product is as large as the weights
  Rng rng(4);
  const std::vector<float> x = random_values(rng, k * t), w1 = random_values(rng, k * n),
                           w2 = random_values(rng, k * n);
  const NamedBytes inputs{{"x", bytes_of(x)}, {"w1", bytes_of(w1)}, {"w2", bytes_of(w2)}};
  const auto build = [&](bool are_outputs) {
    GraphBuilder b;
    const Value in = b.input("x", DType::f32, {k, t});
    Value a = b.scale(b.input("w1", DType::f32, {k, n}), 1.0f), c = b.scale(b.input("w2", DType::f32, {k, n}), 1.0f);
    if (are_outputs) a = b.output(a, "a"), c = b.output(c, "c");
    const Value first = b.mul_mat(a, in);
    const Value second = b.mul_mat(c, in);
    b.output(b.add(first, second), "y");
    return std::move(b).finish().value();
  };
  for (const int n_threads : {1, 2, 3}) {
    GraphRunner runner("", n_threads);
    ASSERT_OK_AND_ASSIGN(const auto apart, runner.run_y(build(true), inputs));
    for (int round = 0; round < kRounds; ++round) {
      ASSERT_OK_AND_ASSIGN(const auto shared, runner.run_y(build(false), inputs));
      ASSERT_TRUE(same_bytes(shared, apart)) << n_threads;
    }
  }
}

// A product that only a dead view reads frees its bytes for the next one.
TEST(MulMat, AProductThatIsDeadBeforeTheNextDoesNotJoinIt) {
  const int64_t k = 4096, n = 64, t = 64;  // one long unit of work each
  const Weights w(DType::f32, k, n, 1), w2(DType::f32, k, n, 2);
  GraphRunner runner("scalar", 2);
  const OwnedTensor a(type_for(runner.device(), true, DType::f32, w.shape), "a", DType::f32, w.shape, w.bytes);
  const OwnedTensor c(type_for(runner.device(), true, DType::f32, w.shape), "c", DType::f32, w.shape, w2.bytes);
  Rng rng(5);
  const NamedBytes inputs{{"x", bytes_of(random_values(rng, k * t))}};
  const auto build = [&](bool with_dead) {
    GraphBuilder b;
    const Value x = b.input("x", DType::f32, {k, t});
    if (with_dead) b.reshape(b.mul_mat(b.tensor(a.tensor), x), {n * t});
    b.output(b.mul_mat(b.tensor(c.tensor), x), "y");
    return std::move(b).finish().value();
  };
  ASSERT_OK_AND_ASSIGN(const auto alone, runner.run_y(build(false), inputs));
  for (int round = 0; round < kRounds; ++round) {
    ASSERT_OK_AND_ASSIGN(const auto with_dead, runner.run_y(build(true), inputs));
    ASSERT_TRUE(same_bytes(with_dead, alone));
  }
}

TEST(MulMat, ScratchNeverShrinksForMoreTokens) {
  for (const std::string& isa : isa::usable_isas())
    for (const DType dtype : weight_types()) {
      GraphRunner runner(isa, 4);
      size_t before = 0;
      for (int64_t t = 1; t <= 70; ++t) {
        GraphBuilder b;
        b.output(b.mul_mat(b.input("w", dtype, {256, 32}), b.input("x", DType::f32, {256, t})), "y");
        ASSERT_OK_AND_ASSIGN(const size_t bytes, runner.backend().work_bytes(std::move(b).finish().value()));
        ASSERT_GE(bytes, before) << isa << " " << info(dtype).name << " at " << t << " tokens";
        before = bytes;
      }
    }
}

// --- a matrix per head

// Packed weights and plain ones, with x as rows of a wider matrix. Each token alone gives the same bits.
TEST(MulMatHeads, GivesEachHeadItsMatrix) {
  constexpr int64_t kIn = 40, kOut = 21, kHeads = 3, kWide = 50;
  Rng rng(3);
  const Shape shape{kIn, kOut, kHeads};
  const std::vector<float> w = random_values(rng, shape.n_elements());
  for (const int64_t n_tokens : {0, 1, 2, 37}) {
    const std::vector<float> x = random_values(rng, kWide * kHeads * n_tokens);
    std::vector<double> expected;
    for (int64_t t = 0; t < n_tokens; ++t)
      for (int64_t h = 0; h < kHeads; ++h)
        for (int64_t o = 0; o < kOut; ++o) {
          double sum = 0;
          for (int64_t i = 0; i < kIn; ++i)
            sum += double{w[static_cast<size_t>((h * kOut + o) * kIn + i)]} *
                   double{x[static_cast<size_t>((t * kHeads + h) * kWide + 5 + i)]};
          expected.push_back(sum);
        }
    std::vector<float> first;
    for (const bool is_packed : {false, true})
      for (const int n_threads : {1, 3}) {
        GraphRunner runner("", n_threads);
        const BufferType& type = is_packed ? runner.device().weight_buffer_type(Op::mul_mat_heads, DType::f32, shape)
                                           : runner.device().buffer_type();
        const OwnedTensor weights(type, "w", DType::f32, shape, bytes_of(w));
        GraphBuilder b;
        const Value wide = b.input("x", DType::f32, {kWide, kHeads, n_tokens});
        Layout layout = b.spec(wide).layout;
        layout.shape[0] = kIn;
        b.output(b.mul_mat_heads(b.tensor(weights.tensor), b.view(wide, layout, 20)), "y");
        ASSERT_OK_AND_ASSIGN(const auto y, runner.run_y(std::move(b).finish().value(), {{"x", bytes_of(x)}}));
        expect_near(y, expected, 1e-5);  // f32 sums of 40 products
        if (first.empty()) first = y;
        EXPECT_TRUE(same_bytes(y, first)) << is_packed << " " << n_threads;
      }
  }
}

TEST(MulMatHeads, OfATokenDoesNotDependOnOthers) {
  const Shape shape{32, 16, 2};
  Rng rng(4);
  const std::vector<float> w = random_values(rng, shape.n_elements()), x = random_values(rng, 32 * 2 * 20);
  const auto run = [&](const std::vector<float>& rows) {
    GraphRunner runner("", 2);
    const OwnedTensor weights(runner.device().weight_buffer_type(Op::mul_mat_heads, DType::f32, shape), "w", DType::f32,
                              shape, bytes_of(w));
    GraphBuilder b;
    const auto n = static_cast<int64_t>(rows.size()) / 64;
    b.output(b.mul_mat_heads(b.tensor(weights.tensor), b.input("x", DType::f32, {32, 2, n})), "y");
    return runner.run_y(std::move(b).finish().value(), {{"x", bytes_of(rows)}}).value();
  };
  const std::vector<float> together = run(x);
  for (int64_t t = 0; t < 20; ++t) {
    const std::vector<float> alone = run({x.begin() + t * 64, x.begin() + (t + 1) * 64});
    EXPECT_TRUE(same_bytes(alone, {together.begin() + t * 32, together.begin() + (t + 1) * 32})) << t;
  }
}

// --- cancellation

TEST(MulMat, IsCancelledInTheMiddle) {
  // About 10^10 multiply-adds: seconds of work without cancellation.
  const int64_t k = 4096, n = 8192, t = 512;
  constexpr std::byte kUntouched{0xaa};
  GraphRunner runner("scalar", 2);
  const OwnedTensor w(runner.device().weight_buffer_type(Op::mul_mat, DType::f32, {k, n}), "w", DType::f32, {k, n}, {});
  GraphBuilder b;
  b.output(b.mul_mat(b.tensor(w.tensor), b.input("x", DType::f32, {k, t})), "y");
  const Graph graph = std::move(b).finish().value();
  Executor executor(runner.backend());
  ASSERT_OK(executor.reserve({&graph, 1}));
  ASSERT_OK_AND_ASSIGN(const auto prepared, executor.prepare(graph));
  CancelToken cancel;
  std::jthread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cancel.cancel();
  });
  const Tensor& y = prepared->tensor(graph.size() - 1);
  ASSERT_OK(y.buffer->clear(kUntouched));
  const auto done = executor.run(*prepared, {.cancel = &cancel});
  EXPECT_ERROR(done, "cancelled");
  EXPECT_EQ(done.error().code(), ErrorCode::cancelled);
  // The last rows are computed last, and the run was cancelled before.
  std::vector<std::byte> last(sizeof(float));
  ASSERT_OK(y.buffer->get(y, static_cast<size_t>(n * t) * sizeof(float) - last.size(), last));
  EXPECT_EQ(last, std::vector<std::byte>(last.size(), kUntouched));
}

TEST(Run, ACancelledTokenStopsItBeforeItsResults) {
  GraphRunner runner;
  GraphBuilder b;
  b.output(b.silu(b.input("x", DType::f32, {16})), "y");
  CancelToken cancel;
  cancel.cancel();
  const auto done = runner.run(std::move(b).finish().value(), {{"x", Bytes(64)}}, &cancel);
  EXPECT_ERROR(done, "cancelled");
}

}  // namespace
}  // namespace tessera
