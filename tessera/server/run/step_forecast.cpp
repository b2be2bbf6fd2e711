#include "tessera/server/run/step_forecast.h"

#include <algorithm>

namespace tessera::server {

namespace {

constexpr double kForgetting = 0.98;
constexpr double kFirstVariance = 1e3;    // of the rates, in units of the terms below
constexpr double kLargestVariance = 1e6;  // forgetting makes variances grow while the work of the steps is the same
constexpr double kLargestSurprise = 4;
constexpr int64_t kFirstSteps = 8;      // learnt whatever they take
constexpr double kLeastTokenMs = 1e-4;  // of a prompt: less than any model takes

}  // namespace

void StepWork::add_prefill(int64_t position, int64_t n_tokens, double token_score_work) {
  const auto n = static_cast<double>(n_tokens);
  n_prefill += n_tokens;
  n_pairs += n * (static_cast<double>(position) + n / 2);
  score_work += n * token_score_work;
}

void StepWork::add_encoded(int64_t n_tokens) {
  n_prefill += n_tokens;
  n_pairs += static_cast<double>(n_tokens) * static_cast<double>(n_tokens);
}

StepForecast::StepForecast(double token_ms) : rates_{token_ms, 64 * token_ms, token_ms, token_ms}, covariance_{} {
  for (size_t i = 0; i < kNTerms; ++i) covariance_[i][i] = kFirstVariance;
}

// In units in which typical values are near 1, so that the fit is well conditioned.
StepForecast::Vector StepForecast::terms(const StepWork& work) {
  return {1.0, (static_cast<double>(work.n_prefill) + work.score_work) / 64, work.n_pairs / 65536,
          static_cast<double>(work.n_decoding)};
}

// After disturbed steps single rates can be negative. No part of a step takes negative time, and no prompt is free.
double StepForecast::ms(const StepWork& work) const {
  const Vector x = terms(work);
  const double fixed_and_decoding = rates_[0] * x[0] + rates_[3] * x[3];
  const double prompts_and_pairs = rates_[1] * x[1] + rates_[2] * x[2];
  return std::max(fixed_and_decoding, 0.0) +
         std::max(prompts_and_pairs, kLeastTokenMs * static_cast<double>(work.n_prefill));
}

void StepForecast::learn(const StepWork& work, double step_ms) {
  const double expected = ms(work);
  if (++n_learnt_ > kFirstSteps) step_ms = std::min(step_ms, kLargestSurprise * std::max(expected, 0.01));
  const Vector x = terms(work);
  Vector px{};
  double xpx = 0;
  for (size_t i = 0; i < kNTerms; ++i) {
    for (size_t j = 0; j < kNTerms; ++j) px[i] += covariance_[i][j] * x[j];
    xpx += x[i] * px[i];
  }
  double fitted = 0;  // without the bounds of ms()
  for (size_t i = 0; i < kNTerms; ++i) fitted += rates_[i] * x[i];
  const double error = step_ms - fitted;
  const double scale = 1 / (kForgetting + xpx);
  double trace = 0;
  for (size_t i = 0; i < kNTerms; ++i) {
    rates_[i] += px[i] * scale * error;
    for (size_t j = 0; j < kNTerms; ++j) covariance_[i][j] = (covariance_[i][j] - px[i] * px[j] * scale) / kForgetting;
    trace += covariance_[i][i];
  }
  if (trace <= kLargestVariance) return;
  for (Vector& row : covariance_)
    for (double& value : row) value *= kLargestVariance / trace;
}

int64_t StepForecast::prefill_budget(const StepWork& decoding, int64_t position, int64_t n_most, double target_ms,
                                     double score_work) const {
  const auto fits = [&](int64_t n) {
    StepWork work = decoding;
    work.add_prefill(position, n, score_work);
    return ms(work) <= target_ms;
  };
  int64_t least = std::min(n_most, kLeastPrefill), most = n_most;
  while (least < most) {  // the largest n that fits, by halves
    const int64_t middle = least + (most - least + 1) / 2;
    if (fits(middle)) {
      least = middle;
    } else {
      most = middle - 1;
    }
  }
  return least;
}

}  // namespace tessera::server
