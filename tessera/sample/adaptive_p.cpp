// adaptive_p: draws a token whose probability is near a target (MrJackSpade and ddh0 2025, llama.cpp pull request
// 17927).
//
// p is the probability before this step, and m the moving average of p over the drawn tokens. The average steers the
// target, and the logits become a function of the distance to it:
//   t = clamp(2 target - m, 0, 1)     d = |p - t| / 0.3     logit = 5 - 10 d^2 / (1 + d)
//   m = sum_i decay^i p_i / sum_i decay^i, i tokens ago, as if every p before the first token had been the target
#include <cmath>

#include "tessera/base/index.h"
#include "tessera/sample/sampler.h"

namespace tessera::sample {
namespace {

constexpr double kWidth = 0.3, kPeak = 5, kSharpness = 10;

class AdaptiveP : public CopyableSampler<AdaptiveP> {
 public:
  explicit AdaptiveP(const SamplerParams& params) : target_(params.adaptive_target), decay_(params.adaptive_decay) {
    start();
  }

  void apply(Candidates& candidates, const History&, SeededRng& rng) override {
    candidates.softmax();
    if (target_ >= 0) move_towards(std::clamp(2 * target_ - weighted_ / weight_, 0.0, 1.0), candidates);
    // llama.cpp uses no random number here if only one candidate is left.
    if (candidates.items().size() > 1)
      candidates.draw(rng);
    else
      candidates.select_best();
    remember(candidates);
  }

  void accept(int32_t token, const History&) override {
    // Other tokens, as those of a prompt, were not drawn and have no probability.
    if (target_ >= 0 && token == drawn_) {
      weighted_ = drawn_p_ + decay_ * weighted_;
      weight_ = 1 + decay_ * weight_;
    }
    drawn_ = -1;
  }

  void reset() override { start(); }

 private:
  void start() {
    weight_ = 1 / (1 - decay_);
    weighted_ = target_ * weight_;
    drawn_ = -1;
  }

  void move_towards(double target, Candidates& candidates) {
    probs_.clear();
    candidates.transform([&](const Candidate& item) {
      probs_.push_back(item.prob);
      const double distance = std::abs(item.prob - target) / kWidth;
      return static_cast<float>(kPeak - kSharpness * distance * distance / (1 + distance));
    });
  }

  void remember(Candidates& candidates) {
    drawn_ = -1;
    if (target_ < 0 || !candidates.selected()) return;
    drawn_ = candidates.selected()->id;
    const auto items = candidates.items();
    drawn_p_ = probs_[to_size(std::ranges::find(items, drawn_, &Candidate::id) - items.begin())];
  }

  double target_;
  double decay_;
  double weighted_ = 0;        // sum of decay^i p_i
  double weight_ = 0;          // sum of decay^i
  int32_t drawn_ = -1;         // until it is accepted
  double drawn_p_ = 0;         // its p
  std::vector<double> probs_;  // p of the candidates; a member so that its memory is reused for every token
};

}  // namespace

/// Without a target it draws as dist does, so it is never null.
std::unique_ptr<Sampler> make_adaptive_p(const SamplerContext& context) {
  return std::make_unique<AdaptiveP>(context.params);
}

}  // namespace tessera::sample
