#include "tessera/engine/speculative/speculator.h"

#include <algorithm>

namespace tessera {

namespace {

constexpr double kLeastGain = 1.03;     // in tokens per time: estimates have errors
constexpr int64_t kLeastPatience = 16;  // tokens until a drafter that did not pay gets another try
constexpr int64_t kMostPatience = 1024;

// The numbers of guesses that a step may verify. Each number has a graph, which takes time to prepare, and with these
// most steps fill the tiles of the kernels.
constexpr size_t kLengths[] = {1, 2, 3, 5, 7, 11, 15, 23, 31, 47, 63};

}  // namespace

Speculator::Speculator(std::vector<std::unique_ptr<Drafter>> drafters, bool adapts) : adapts_(adapts) {
  for (auto& drafter : drafters) {
    Acceptance acceptance(*drafter);
    parties_.push_back({.drafter = std::move(drafter), .acceptance = acceptance});
  }
}

void Speculator::begin(std::span<const int32_t> text) {
  for (Party& party : parties_) party.drafter->begin(text);
  guesses_.clear();
  tokens_.clear();
  next_ = n_chosen_ = 0;
}

void Speculator::append(int32_t token) {
  for (Party& party : parties_) {
    party.drafter->append(token);
    ++party.n_idle;
  }
  if (next_ >= guesses_.size()) return;
  const bool is_right = guesses_[next_].token == token;
  of_guesses_->acceptance.learn(guesses_[next_].confidence, is_right);
  if (is_right && next_ < n_chosen_) ++counts_.n_accepted;
  next_ = is_right ? next_ + 1 : guesses_.size();
}

// The number of guesses with the most tokens per time. Tokens of other texts count too: a wider step delays them.
Speculator::Choice Speculator::choose(const Party& party, std::span<const DraftToken> guesses, const Step& step) {
  const double alone_ms = step.ms_with(0);
  const auto n_others = static_cast<double>(step.n_others);
  Choice best;
  double chance = 1, n_expected = 1;
  for (size_t n = 1; n <= guesses.size(); ++n) {
    chance *= party.acceptance.of(guesses[n - 1].confidence);
    n_expected += chance;
    const double ms = step.ms_with(static_cast<int64_t>(n)) + party.drafter->ms_per_token() * static_cast<double>(n);
    const double more = (n_expected + n_others) / (1 + n_others);
    const double gain = ms > 0 ? more * alone_ms / ms : more;
    if (std::ranges::find(kLengths, n) == std::end(kLengths)) continue;
    if (gain >= std::max(kLeastGain, best.gain)) best = {.n = n, .gain = gain};
  }
  return best;
}

// A drafter without a cost makes all guesses, since also those that no step verifies are measured. One with a cost is
// asked for the next guess while its chance is worth the time.
Result<> Speculator::ask(Party& party, const Step& step, const CancelToken* cancel) {
  asked_.clear();
  const double token_ms = party.drafter->ms_per_token(), alone_ms = step.ms_with(0);
  double chance = 1;
  const auto is_worth = [&](int64_t n) {
    if (token_ms == 0 || alone_ms == 0 || !adapts_) return true;
    const double more_ms = token_ms + step.ms_with(n + 1) - step.ms_with(n);
    return chance * party.acceptance.of_all() * alone_ms > more_ms * static_cast<double>(1 + step.n_others);
  };
  const bool is_trial = !is_worth(0);
  if (is_trial && party.n_idle < party.n_patience) return {};
  party.n_idle = 0;
  party.n_patience = is_trial ? std::clamp(2 * party.n_patience, kLeastPatience, kMostPatience) : 0;
  const auto add = [&](const DraftToken& guess) {
    asked_.push_back(guess);
    chance *= party.acceptance.of(guess.confidence);
    return is_worth(std::ssize(asked_));
  };
  return party.drafter->draft({.n_most = is_trial ? 1 : step.n_most, .position = step.position}, add, cancel);
}

Result<std::span<const int32_t>> Speculator::draft(const Step& step, const CancelToken* cancel) {
  guesses_.clear();
  tokens_.clear();
  next_ = n_chosen_ = 0;
  Choice best;
  for (Party& party : parties_) {
    // A model is not asked where a copy promises to be right.
    if (best.n > 0 && (party.drafter->ms_per_token() > 0 || !adapts_)) continue;
    TESSERA_TRY(ask(party, step, cancel));
    const Choice choice = adapts_ ? choose(party, asked_, step) : Choice{.n = asked_.size()};
    if (!guesses_.empty() && choice.gain <= best.gain) continue;
    best = choice;
    of_guesses_ = &party;
    guesses_ = asked_;
  }
  for (const DraftToken& guess : guesses_) tokens_.push_back(guess.token);
  n_chosen_ = best.n;
  counts_.n_drafts += n_chosen_ > 0 ? 1 : 0;
  counts_.n_drafted += static_cast<int64_t>(n_chosen_);
  return std::span(tokens_).first(n_chosen_);
}

}  // namespace tessera
