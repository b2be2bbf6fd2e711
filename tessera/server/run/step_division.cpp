#include "tessera/server/run/step_division.h"

#include <algorithm>

namespace tessera::server {

namespace {

constexpr double kSpareTime = 0.1;  // of the target, for prompts beside one that takes it all

StepWork with_prompt(StepWork work, const StepPrompt& prompt, int64_t n_tokens) {
  work.add_prefill(prompt.position, n_tokens, prompt.score_work);
  return work;
}

// The most tokens of the first prompt before the others have theirs.
int64_t first_tokens(int64_t n_most) { return std::min(n_most, std::max(n_most / 2, kChunkTokens)); }

}  // namespace

std::vector<int64_t> divide_tokens(std::span<const StepPrompt> prompts, int64_t n_most) {
  const int64_t n_wanted = prompts.front().n_wanted;
  std::vector<int64_t> planned = {std::min(n_wanted, first_tokens(n_most))};
  int64_t n_left = n_most - planned[0];
  for (const StepPrompt& prompt : prompts.subspan(1)) {
    planned.push_back(std::min(prompt.n_wanted, n_left));
    n_left -= planned.back();
  }
  planned[0] = std::min(n_wanted, planned[0] + n_left);
  return planned;
}

std::vector<int64_t> divide_time(const StepForecast& forecast, const StepWork& decoding,
                                 std::span<const StepPrompt> prompts, int64_t n_most, double target_ms) {
  const auto affordable = [&](const StepPrompt& prompt, const StepWork& beside, int64_t n_free, double until_ms) {
    const int64_t n = std::min(prompt.n_wanted, n_free);
    return forecast.prefill_budget(beside, prompt.position, n, until_ms, prompt.score_work);
  };
  const StepPrompt& first = prompts.front();
  const double begin_ms = forecast.ms(decoding);
  const double half_ms = begin_ms + (target_ms - begin_ms) / 2;
  std::vector<int64_t> planned = {affordable(first, decoding, first_tokens(n_most), half_ms)};
  StepWork others = decoding, all = with_prompt(decoding, first, planned[0]);
  const double others_ms = std::max(target_ms, forecast.ms(all) + kSpareTime * target_ms);
  int64_t n_free = n_most - planned[0];
  for (const StepPrompt& prompt : prompts.subspan(1)) {
    int64_t n = affordable(prompt, all, n_free, others_ms);
    if (forecast.ms(with_prompt(all, prompt, n)) > others_ms) n = 0;  // the forecast's least number may not fit
    planned.push_back(n);
    all = with_prompt(all, prompt, n);
    others = with_prompt(others, prompt, n);
    n_free -= n;
  }
  planned[0] = std::max(planned[0], affordable(first, others, planned[0] + n_free, target_ms));
  return planned;
}

}  // namespace tessera::server
