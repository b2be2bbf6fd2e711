// Shared by the tests of samplers: a small vocabulary, random logits, a run of a single sampler, and a plain
// double-precision softmax for comparison.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tessera/base/rng.h"
#include "tessera/sample/chain.h"
#include "tests/support/testing.h"

namespace tessera::sample {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Probabilities result from a few double operations, each within 2^-52 of exact, on values up to 1.
inline constexpr double kProbTolerance = 1e-12;

class TestVocab : public VocabView {
 public:
  explicit TestVocab(size_t n_tokens) : pieces_(n_tokens, "x") {}
  explicit TestVocab(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}
  int32_t n_tokens() const override { return static_cast<int32_t>(pieces_.size()); }
  void append_piece(int32_t id, std::string& out) const override { out += pieces_[static_cast<size_t>(id)]; }

 private:
  std::vector<std::string> pieces_;
};

using Make = std::unique_ptr<Sampler> (*)(const SamplerContext&);

/// The sampler of these parameters; null if they turn it off.
inline std::unique_ptr<Sampler> make_with(Make make, const SamplerParams& params, size_t n_tokens = 8) {
  return make({params, std::make_shared<TestVocab>(n_tokens), 1024});
}

/// Probabilities by token after one sampler has run on these logits; absent tokens were removed.
inline std::map<int32_t, double> apply(Make make, const SamplerParams& params, const std::vector<float>& logits,
                                       uint64_t seed = 1) {
  Candidates candidates;
  candidates.assign(logits);
  SeededRng rng(seed);
  if (const auto sampler = make_with(make, params, logits.size())) sampler->apply(candidates, History(0), rng);
  candidates.softmax();
  std::map<int32_t, double> probs;
  for (const Candidate& item : candidates.items()) probs[item.id] = item.prob;
  return probs;
}

inline std::vector<int32_t> ids_of(const std::map<int32_t, double>& probs) {
  std::vector<int32_t> ids;
  for (const auto& entry : probs) ids.push_back(entry.first);
  return ids;
}

/// Logits whose softmax equals these probabilities, except for rounding to float.
inline std::vector<float> logits_of(const std::vector<double>& probs) {
  std::vector<float> logits;
  for (const double p : probs) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

inline std::vector<float> random_logits(size_t n, Rng& rng, float range = 8) {
  std::vector<float> logits(n);
  for (float& logit : logits) logit = rng.next_float(-range, range);
  return logits;
}

inline std::vector<double> softmax_of(const std::vector<double>& logits) {
  const double max = *std::ranges::max_element(logits);
  std::vector<double> probs;
  for (const double logit : logits) probs.push_back(std::exp(logit - max));
  const double sum = std::accumulate(probs.begin(), probs.end(), 0.0);
  for (double& p : probs) p /= sum;
  return probs;
}

inline void expect_same_probs(const std::map<int32_t, double>& got, const std::map<int32_t, double>& want,
                              double tolerance = kProbTolerance) {
  ASSERT_EQ(ids_of(got), ids_of(want));
  for (const auto& [id, p] : want) EXPECT_NEAR(got.at(id), p, tolerance) << "token " << id;
}

/// A truncation must depend only on the logits: moving token i to perm(i) must move the result accordingly.
inline void expect_permutable(Make make, const SamplerParams& params) {
  Rng rng(11);
  const auto logits = random_logits(97, rng);
  std::vector<float> moved(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) moved[i * 31 % 97] = logits[i];
  std::map<int32_t, double> want;
  for (const auto& [id, p] : apply(make, params, logits)) want[id * 31 % 97] = p;
  expect_same_probs(apply(make, params, moved), want);
}

/// A default chain's parameters with a seed.
inline SamplerParams seeded(int64_t seed = 7) {
  SamplerParams params;
  params.seed = seed;
  return params;
}

}  // namespace tessera::sample
