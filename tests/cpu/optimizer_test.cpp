// Optimizer steps in graphs, against their formulas.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>

#include "tessera/base/half.h"
#include "tessera/graph/ops/optimizer.h"
#include "tests/support/graph_runner.h"

namespace tessera {
namespace {

using namespace testing;

using Doubles = std::vector<double>;

// A matrix of several pieces of 1024 elements and a remainder.
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

/// Runs three steps and checks the tensors. Every number of threads gives the same bits.
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
        // Some roundings per step, of values up to 1.
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

}  // namespace
}  // namespace tessera
