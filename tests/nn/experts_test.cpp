// The router and the gated experts, against plain formulas in double.
#include "tessera/nn/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>

#include "tests/support/graph_runner.h"

namespace tessera {
namespace {

using namespace testing;

constexpr int64_t kWidth = 12, kExperts = 6, kUsed = 3, kTokens = 9;

/// Owns the memory of float tensors.
struct Tensors {
  const Tensor* add(const std::string& name, const Shape& shape, float limit = 1.0f) {
    values[name] = random_values(rng, shape.n_elements(), limit);
    owned.emplace_back(runner.device().buffer_type(), name, DType::f32, shape, bytes_of(values[name]));
    return &owned.back().tensor;
  }
  float at(const std::string& name, int64_t i) { return values[name][static_cast<size_t>(i)]; }

  GraphRunner runner{"", 2};
  Rng rng{5};
  std::deque<OwnedTensor> owned;
  std::map<std::string, std::vector<float>> values;
};

struct Choice {
  std::vector<int64_t> ids;
  std::vector<double> weights;
};

/// The router's computation for the logits of one token, in double.
Choice choose(std::vector<double> logits, const std::vector<float>& selection_bias, const nn::Router& router) {
  std::vector<double> scores = logits;
  const auto soft_max = [](std::vector<double>& x) {
    double sum = 0;
    for (double& v : x) sum += v = std::exp(v);
    for (double& v : x) v /= sum;
  };
  if (router.gating == nn::Gating::softmax) soft_max(scores);
  if (router.gating == nn::Gating::sigmoid)
    for (double& s : scores) s = 1 / (1 + std::exp(-s));
  if (router.gating == nn::Gating::sqrt_softplus)
    for (double& s : scores) s = std::sqrt(std::log1p(std::exp(s)));
  Choice choice;
  choice.ids.resize(scores.size());
  std::iota(choice.ids.begin(), choice.ids.end(), 0);
  std::ranges::stable_sort(choice.ids, std::greater{}, [&](int64_t id) {
    const auto i = static_cast<size_t>(id);
    return scores[i] + (selection_bias.empty() ? 0.0 : double{selection_bias[i]});
  });
  choice.ids.resize(static_cast<size_t>(router.n_used));
  for (const int64_t id : choice.ids) choice.weights.push_back(scores[static_cast<size_t>(id)]);
  if (router.gating == nn::Gating::softmax_of_chosen) soft_max(choice.weights);
  const double sum = std::accumulate(choice.weights.begin(), choice.weights.end(), 0.0);
  for (double& w : choice.weights) w = w / (router.normalize ? sum : 1.0) * double{router.scale};
  return choice;
}

struct RouterCase {
  nn::Gating gating;
  bool normalize;
  float scale;
  bool has_bias, has_selection_bias;
  float limit = 0.0f;
  bool limits_gate_input = false;
};

class Experts : public ::testing::TestWithParam<RouterCase> {};

INSTANTIATE_TEST_SUITE_P(Routers, Experts,
                         ::testing::Values(RouterCase{nn::Gating::softmax, true, 1.0f, false, false},
                                           RouterCase{nn::Gating::softmax, false, 1.0f, true, false},
                                           RouterCase{nn::Gating::softmax, true, 2.5f, false, true},
                                           RouterCase{nn::Gating::sigmoid, true, 2.5f, false, true},
                                           RouterCase{nn::Gating::sigmoid, false, 1.0f, false, true},
                                           RouterCase{nn::Gating::softmax_of_chosen, false, 1.0f, true, false},
                                           RouterCase{nn::Gating::softmax_of_chosen, false, 0.5f, true, false},
                                           RouterCase{nn::Gating::sqrt_softplus, true, 1.5f, true, true},
                                           RouterCase{nn::Gating::softmax, true, 1.0f, false, false, 0.5f, false},
                                           RouterCase{nn::Gating::softmax, true, 1.0f, false, false, 0.5f, true}));

TEST_P(Experts, AreTheWeightedSumOfTheChosen) {
  const RouterCase& c = GetParam();
  constexpr int64_t kHidden = 10;
  Tensors tensors;
  const auto layer = [&](const std::string& name, int64_t n_in, int64_t n_out) {
    return nn::ExpertLinear{.weight = tensors.add(name, {n_in, n_out, kExperts}),
                            .bias = tensors.add(name + ".b", {n_out, kExperts}),
                            .scale = tensors.add(name + ".s", {kExperts})};
  };
  const nn::Experts experts{
      .router = {.weight = tensors.add("router", {kWidth, kExperts}),
                 .bias = c.has_bias ? tensors.add("router.b", {kExperts}) : nullptr,
                 .selection_bias = c.has_selection_bias ? tensors.add("selection", {kExperts}) : nullptr,
                 .n_experts = kExperts,
                 .n_used = kUsed,
                 .gating = c.gating,
                 .normalize = c.normalize,
                 .scale = c.scale},
      .gate = layer("gate", kWidth, kHidden),
      .up = layer("up", kWidth, kHidden),
      .down = layer("down", kHidden, kWidth),
      .limit = c.limit,
      .limits_gate_input = c.limits_gate_input};
  const std::vector<float> x = random_values(tensors.rng, kWidth * kTokens, 2.0f);
  GraphBuilder b;
  b.output(nn::experts(b, b.input("x", DType::f32, {kWidth, kTokens}), experts), "y");
  ASSERT_OK_AND_ASSIGN(const auto y, tensors.runner.run_y(std::move(b).finish().value(), {{"x", bytes_of(x)}}));

  const auto linear = [&](const std::string& name, int64_t expert, const std::vector<double>& in, int64_t n_out) {
    std::vector<double> out;
    const auto n_in = static_cast<int64_t>(in.size());
    for (int64_t r = 0; r < n_out; ++r) {
      double sum = 0;
      for (int64_t i = 0; i < n_in; ++i)
        sum += double{tensors.at(name, (expert * n_out + r) * n_in + i)} * in[static_cast<size_t>(i)];
      out.push_back(sum * double{tensors.at(name + ".s", expert)} +
                    double{tensors.at(name + ".b", expert * n_out + r)});
    }
    return out;
  };
  std::vector<double> want;
  for (int64_t t = 0; t < kTokens; ++t) {
    const std::vector<double> in(x.begin() + t * kWidth, x.begin() + (t + 1) * kWidth);
    std::vector<double> logits;
    for (int64_t e = 0; e < kExperts; ++e) {
      double sum = c.has_bias ? double{tensors.at("router.b", e)} : 0.0;
      for (int64_t i = 0; i < kWidth; ++i)
        sum += double{tensors.at("router", e * kWidth + i)} * in[static_cast<size_t>(i)];
      logits.push_back(sum);
    }
    const Choice choice = choose(logits, tensors.values["selection"], experts.router);
    std::vector<double> sum(kWidth);
    for (size_t slot = 0; slot < choice.ids.size(); ++slot) {
      std::vector<double> h = linear("gate", choice.ids[slot], in, kHidden);
      const std::vector<double> up = linear("up", choice.ids[slot], in, kHidden);
      const double limit = c.limit > 0 ? double{c.limit} : 1e300;
      for (size_t i = 0; i < h.size(); ++i) {
        const double gate = c.limits_gate_input ? std::min(h[i], limit) : h[i];
        h[i] = std::min(gate / (1 + std::exp(-gate)), limit) * std::clamp(up[i], -limit, limit);
      }
      const std::vector<double> out = linear("down", choice.ids[slot], h, kWidth);
      for (size_t i = 0; i < out.size(); ++i) sum[i] += choice.weights[slot] * out[i];
    }
    want.insert(want.end(), sum.begin(), sum.end());
  }
  expect_near(y, want, 2e-5);  // f32 sums of about ten products of magnitude ten, three layers deep
}

}  // namespace
}  // namespace tessera
