// The operations of training beyond their gradients: steps of an optimizer, the loss, transposition of every type,
// results in memory that held something else, and what fails a run.
#include <array>
#include <cmath>

#include "tessera/base/half.h"
#include "tessera/graph/ops/optimizer.h"
#include "tessera/quant/formats.h"
#include "tests/support/graph_runner.h"

namespace tessera {
namespace {

using testing::all_settings;
using testing::bytes_of;
using testing::expect_near;
using testing::GraphRunner;
using testing::NamedBytes;
using testing::OwnedTensor;
using testing::random_values;
using testing::run_everywhere;
using testing::Setting;
using testing::values_of;

using Doubles = std::vector<double>;

// --- optimizer

// Several pieces of 1024 and a rest, as a matrix.
const Shape kWeights{250, 10};
constexpr size_t kCount = 2500;

using Numbers = std::array<float, kHyperEntries>;
Numbers numbers_of_step(int step) {
  Numbers n{};
  const auto set = [&](Hyper which, double value) { n[static_cast<size_t>(which)] = static_cast<float>(value); };
  set(Hyper::gradient_scale, 0.25);
  set(Hyper::learning_rate, 0.01);
  set(Hyper::weight_decay, 0.1);
  set(Hyper::beta1, 0.9);
  set(Hyper::beta2, 0.99);
  set(Hyper::epsilon, 1e-6);
  set(Hyper::correction1, 1 - std::pow(0.9, step));
  set(Hyper::correction2, 1 - std::pow(0.99, step));
  return n;
}
double number(const Numbers& n, Hyper which) { return n[static_cast<size_t>(which)]; }

/// Tensors of kWeights that steps change.
struct Tensors {
  OwnedTensor w, m, v, rounded;

  Tensors(const Device& device, const std::vector<float>& values)
      : w(device.buffer_type(), "w", DType::f32, kWeights, bytes_of(values)),
        m(device.buffer_type(), "m", DType::f32, kWeights, bytes_of(std::vector<float>(kCount))),
        v(device.buffer_type(), "v", DType::f32, kWeights, bytes_of(std::vector<float>(kCount))),
        rounded(device.buffer_type(), "rounded", DType::bf16, kWeights, bytes_of(std::vector<uint16_t>(kCount))) {}
};

using Step = Value (*)(GraphBuilder&, const Tensors&, Value gradient, Value hyper);

/// Three steps; what the tensors hold then. The same bits for every number of threads.
void run_steps(Step step, const std::function<void(const Tensors&, const std::vector<std::vector<float>>&)>& check,
               const std::vector<float>& weights) {
  Rng rng(4);
  std::vector<std::vector<float>> gradients;
  for (int i = 0; i < 3; ++i) gradients.push_back(random_values(rng, static_cast<int64_t>(kCount)));
  NamedBytes first;
  for (const Setting& setting : all_settings()) {
    const Tensors tensors(setting.runner.device(), weights);
    for (int i = 0; i < 3; ++i) {
      GraphBuilder b;
      step(b, tensors, b.input("g", DType::f32, kWeights), b.input("hyper", DType::f32, {kHyperEntries}));
      const Numbers n = numbers_of_step(i + 1);
      ASSERT_OK(setting.runner.run(std::move(b).finish().value(),
                                   {{"g", bytes_of(gradients[static_cast<size_t>(i)])},
                                    {"hyper", bytes_of(std::vector<float>(n.begin(), n.end()))}}));
    }
    const NamedBytes bytes{
        {"w", tensors.w.read()}, {"m", tensors.m.read()}, {"v", tensors.v.read()}, {"rounded", tensors.rounded.read()}};
    if (setting.n_threads == 1) {
      first = bytes;
      check(tensors, gradients);
    }
    ASSERT_EQ(bytes, first) << setting.isa << ", " << setting.n_threads << " threads";
  }
}

TEST(Adam, FollowsItsFormulas) {
  Rng rng(5);
  const std::vector<float> weights = random_values(rng, static_cast<int64_t>(kCount));
  const Step step = [](GraphBuilder& b, const Tensors& t, Value gradient, Value hyper) {
    const Value direction = b.adam(b.tensor(t.m.tensor), b.tensor(t.v.tensor), gradient, hyper);
    return b.descend(b.tensor(t.w.tensor), direction, hyper, b.tensor(t.rounded.tensor), {.decays = true});
  };
  run_steps(
      step,
      [&](const Tensors& t, const std::vector<std::vector<float>>& gradients) {
        Doubles w(weights.begin(), weights.end()), m(kCount), v(kCount);
        for (int i = 0; i < 3; ++i) {
          const Numbers n = numbers_of_step(i + 1);
          const double beta1 = number(n, Hyper::beta1), beta2 = number(n, Hyper::beta2);
          for (size_t j = 0; j < kCount; ++j) {
            const double g = 0.25 * gradients[static_cast<size_t>(i)][j];
            m[j] = beta1 * m[j] + (1 - beta1) * g;
            v[j] = beta2 * v[j] + (1 - beta2) * g * g;
            const double size = std::sqrt(v[j] / number(n, Hyper::correction2)) + number(n, Hyper::epsilon);
            const double direction = m[j] / number(n, Hyper::correction1) / size;
            w[j] -= number(n, Hyper::learning_rate) * (direction + number(n, Hyper::weight_decay) * w[j]);
          }
        }
        // Some roundings a step, of values up to 1.
        expect_near(values_of<float>(t.m.read()), m, 1e-6);
        expect_near(values_of<float>(t.v.read()), v, 1e-6);
        expect_near(values_of<float>(t.w.read()), w, 1e-6);
        const auto got = values_of<float>(t.w.read());
        const auto rounded = values_of<uint16_t>(t.rounded.read());
        for (size_t j = 0; j < kCount; ++j) ASSERT_EQ(rounded[j], f32_to_bf16(got[j])) << "at " << j;
      },
      weights);
}

TEST(Momentum, DescendsWithoutDecayWhereToldSo) {
  Rng rng(6);
  const std::vector<float> weights = random_values(rng, static_cast<int64_t>(kCount));
  const Step step = [](GraphBuilder& b, const Tensors& t, Value gradient, Value hyper) {
    const Value direction = b.momentum(b.tensor(t.m.tensor), gradient, hyper);
    return b.descend(b.tensor(t.w.tensor), direction, hyper, {}, {.decays = false});
  };
  run_steps(
      step,
      [&](const Tensors& t, const std::vector<std::vector<float>>& gradients) {
        Doubles w(weights.begin(), weights.end()), m(kCount);
        for (const std::vector<float>& g : gradients)
          for (size_t j = 0; j < kCount; ++j) {
            m[j] = double{0.9f} * m[j] + 0.25 * g[j];
            w[j] -= double{0.01f} * m[j];
          }
        expect_near(values_of<float>(t.m.read()), m, 1e-6);
        expect_near(values_of<float>(t.w.read()), w, 1e-6);
      },
      weights);
}

TEST(Accumulate, AddsToATensor) {
  const Step step = [](GraphBuilder& b, const Tensors& t, Value gradient, Value) {
    return b.accumulate(b.tensor(t.w.tensor), gradient);
  };
  run_steps(
      step,
      [&](const Tensors& t, const std::vector<std::vector<float>>& gradients) {
        const auto sums = values_of<float>(t.w.read());
        for (size_t j = 0; j < kCount; ++j)
          ASSERT_EQ(sums[j], ((1.0f + gradients[0][j]) + gradients[1][j]) + gradients[2][j]) << "at " << j;
      },
      std::vector<float>(kCount, 1.0f));
}

// --- loss

Graph loss_graph(int64_t n_vocab, int64_t n_tokens, bool is_gradient) {
  GraphBuilder b;
  const Value logits = b.input("logits", DType::f32, {n_vocab, n_tokens});
  const Value targets = b.input("targets", DType::i32, {n_tokens});
  const Value loss = b.cross_entropy(logits, targets);
  const Value d_loss = b.input("d_loss", DType::f32, {1, n_tokens});
  b.output(is_gradient ? b.cross_entropy_grad(logits, targets, d_loss) : loss, "y");
  return std::move(b).finish().value();
}

NamedBytes loss_inputs(const std::vector<float>& logits, const std::vector<int32_t>& targets) {
  return {{"logits", bytes_of(logits)},
          {"targets", bytes_of(targets)},
          {"d_loss", bytes_of(std::vector<float>(targets.size(), 0.5f))}};
}

double exact_loss(const float* x, int64_t n, int64_t target) {
  double others = 0;
  for (int64_t i = 0; i < n; ++i)
    if (i != target) others += std::exp(double{x[i]} - x[target]);
  return std::log1p(others);
}

TEST(CrossEntropy, KeepsItsDigitsOverALargeVocabulary) {
  constexpr int64_t kVocab = 150'001;
  Rng rng(7);
  const std::vector<float> logits = random_values(rng, 2 * kVocab, 12.0f);
  const std::vector<int32_t> targets{150'000, 77};
  run_everywhere([](const Device&) { return loss_graph(kVocab, 2, false); }, loss_inputs(logits, targets),
                 [&](const std::vector<float>& y) {
                   for (size_t t = 0; t < 2; ++t) {
                     const double want = exact_loss(logits.data() + t * kVocab, kVocab, targets[t]);
                     EXPECT_NEAR(y[t], want, 1e-6 * want);
                   }
                 });
}

// Losses far below what 1 - softmax can tell in f32, and far beyond where exp() underflows.
TEST(CrossEntropy, OfTheNearlyCertainAndOfTheImpossible) {
  const std::vector<float> logits{30, 3, 1, 30, 3, 1, 0, 0, 0, 1000, 0, -1000};
  const std::vector<int32_t> targets{0, 2, 1, 2};
  run_everywhere([](const Device&) { return loss_graph(3, 4, false); }, loss_inputs(logits, targets),
                 [&](const std::vector<float>& y) {
                   for (size_t t = 0; t < 4; ++t) {
                     const double want = t == 3 ? 2000 : exact_loss(logits.data() + 3 * t, 3, targets[t]);
                     EXPECT_NEAR(y[t], want, 1e-6 * want) << "row " << t;
                   }
                 });
  run_everywhere([](const Device&) { return loss_graph(3, 4, true); }, loss_inputs(logits, targets),
                 [&](const std::vector<float>& y) {
                   const double share = std::exp(-27.0) + std::exp(-29.0);
                   EXPECT_NEAR(y[0], -0.5 * share / (1 + share), 1e-6 * share);
                   EXPECT_EQ(std::vector<float>(y.begin() + 9, y.end()), (std::vector<float>{0.5f, 0, -0.5f}));
                 });
}

TEST(CrossEntropy, ATargetOfMinusOneCountsForNothing) {
  const std::vector<float> logits(3 * 5, 2.0f);
  run_everywhere([](const Device&) { return loss_graph(5, 3, false); }, loss_inputs(logits, {1, -1, 4}),
                 [](const std::vector<float>& y) {
                   EXPECT_FLOAT_EQ(y[0], std::log(5.0f));
                   EXPECT_EQ(y[1], 0.0f);
                   EXPECT_FLOAT_EQ(y[2], std::log(5.0f));
                 });
  run_everywhere([](const Device&) { return loss_graph(5, 3, true); }, loss_inputs(logits, {1, -1, 4}),
                 [](const std::vector<float>& y) {
                   for (size_t i = 5; i < 10; ++i) EXPECT_EQ(y[i], 0.0f);
                   EXPECT_FLOAT_EQ(y[0], 0.1f);
                   EXPECT_FLOAT_EQ(y[1], -0.4f);
                 });
}

TEST(CrossEntropy, ATargetOutOfRangeFailsTheRun) {
  const GraphRunner runner;
  for (const bool is_gradient : {false, true})
    for (const int32_t bad : {-2, 5}) {
      const auto y = runner.run_y(loss_graph(5, 2, is_gradient), loss_inputs(std::vector<float>(10), {0, bad}));
      EXPECT_ERROR(y, "target " + std::to_string(bad) + ", want 0 to 4");
    }
}

// --- data

TEST(ScatterRows, AnIdOutOfRangeFailsTheRun) {
  const GraphRunner runner;
  for (const int32_t bad : {-1, 6}) {
    GraphBuilder b;
    b.output(b.scatter_rows(b.input("x", DType::f32, {40, 2}), b.input("ids", DType::i32, {2}), 6), "y");
    EXPECT_ERROR(runner.run_y(std::move(b).finish().value(), {{"x", bytes_of(std::vector<float>(80))},
                                                              {"ids", bytes_of(std::vector<int32_t>{0, bad})}}),
                 "row " + std::to_string(bad) + ", want 0 to 5");
  }
}

// What is written into is memory that an earlier value had: nothing of it may be left.
TEST(Reshaping, ResultsDoNotKeepWhatTheirMemoryHeld) {
  using Build = Value (*)(GraphBuilder&, Value row, Value ids);
  const Build builds[] = {
      [](GraphBuilder& b, Value row, Value) {
        return b.place(row, {.shape = {64, 60}, .at = b.spec(row).layout, .offset = 256});
      },
      [](GraphBuilder& b, Value row, Value ids) { return b.scatter_rows(row, ids, 60); },
      [](GraphBuilder& b, Value row, Value) {
        return b.sum_to(b.repeat(row, {64, 60, 2}), {64, 60});
      },
  };
  Rng rng(9);
  const std::vector<float> x = random_values(rng, 64 * 64);
  for (const Build& build : builds) {
    const auto graph = [&](const Device&) {
      GraphBuilder b;
      // All of x but its first row is dead when the result is made.
      const Value large = b.scale(b.input("x", DType::f32, {64, 64}), 1.0f);
      const Value row = b.cast(b.view(large, {.shape = {64, 1}, .nb = {4, 256, 256, 256}}, 0), DType::f32);
      b.output(build(b, row, b.input("ids", DType::i32, {1})), "y");
      return std::move(b).finish().value();
    };
    run_everywhere(graph, {{"x", bytes_of(x)}, {"ids", bytes_of(std::vector<int32_t>{1})}},
                   [&](const std::vector<float>& y) {
                     for (size_t i = 0; i < y.size(); ++i) {
                       const bool is_repeated = &build == &builds[2];
                       const float want = is_repeated ? 2 * x[i % 64] : i / 64 == 1 ? x[i % 64] : 0.0f;
                       ASSERT_EQ(y[i], want) << "at " << i;
                     }
                   });
  }
}

// Around the tiles of threads and vectors, with rows further apart than they are long.
TEST(Transpose, OfRowsWithGaps) {
  Rng rng(10);
  for (const auto& [n, n_rows] : {std::pair<int64_t, int64_t>{1, 1}, {300, 70}, {257, 16}, {16, 129}, {5, 3}}) {
    const std::vector<float> x = random_values(rng, (n + 4) * n_rows * 2);
    run_everywhere(
        [n = n, n_rows = n_rows](const Device&) {
          GraphBuilder b;
          const Value whole = b.input("x", DType::f32, {n + 4, n_rows, 2});
          b.output(b.transpose(b.view(whole, {.shape = {n, n_rows, 2}, .nb = b.spec(whole).layout.nb}, 12)), "y");
          return std::move(b).finish().value();
        },
        {{"x", bytes_of(x)}},
        [&, n = n, n_rows = n_rows](const std::vector<float>& y) {
          for (int64_t i = 0; i < std::ssize(y); ++i) {
            const int64_t row = i % n_rows, column = i / n_rows % n, matrix = i / n_rows / n;
            ASSERT_EQ(y[static_cast<size_t>(i)], x[static_cast<size_t>((matrix * n_rows + row) * (n + 4) + column + 3)])
                << "at " << i;
          }
        });
  }
}

TEST(Transpose, DecodesEveryType) {
  constexpr int64_t kColumns = 512, kRows = 37;
  Rng rng(11);
  const std::vector<float> values = random_values(rng, kColumns * kRows);
  int n_types = 0;
  for (int id = 0; id < quant::kMaxFormats; ++id) {
    const auto dtype = static_cast<DType>(id);
    const quant::Format* format = quant::find_format(dtype);
    if (format == nullptr) continue;
    ++n_types;
    testing::Bytes bytes(nbytes(dtype, {kColumns, kRows}).value());
    std::vector<float> decoded(values.size());
    for (int64_t row = 0; row < kRows; ++row) {
      std::byte* at = bytes.data() + static_cast<size_t>(row) * row_bytes(dtype, kColumns).value();
      format->quantize_row_compat(values.data() + row * kColumns, nullptr, kColumns, at);
      format->dequantize_row(at, kColumns, decoded.data() + row * kColumns);
    }
    for (const Setting& setting : all_settings()) {
      if (setting.n_threads == 2) continue;
      const OwnedTensor x(setting.runner.device().buffer_type(), "x", dtype, {kColumns, kRows}, bytes);
      GraphBuilder b;
      b.output(b.transpose(b.tensor(x.tensor)), "y");
      const auto y = setting.runner.run_y(std::move(b).finish().value(), {});
      ASSERT_OK(y);
      for (int64_t i = 0; i < kColumns * kRows; ++i)
        ASSERT_EQ((*y)[static_cast<size_t>(i)], decoded[static_cast<size_t>(i % kRows * kColumns + i / kRows)])
            << info(dtype).name << " on " << setting.isa << " at " << i;
    }
  }
  EXPECT_GT(n_types, 20);
}

}  // namespace
}  // namespace tessera
