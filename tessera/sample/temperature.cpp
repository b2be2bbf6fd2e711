// temperature: divides the logits by T. With a range r > 0 (dynamic temperature, Zhu et al. 2023, arXiv 2309.02772), T
// = min + (max - min) * (H / ln n) ^ exponent, where H is the entropy of the n candidates, min = max(0, temp - r) and
// max = temp + r. Temperatures below kMinTemperature do not occur here, because the chain is then greedy.
#include <cmath>

#include "tessera/sample/sampler.h"

namespace tessera::sample {
namespace {

class Temperature : public CopyableSampler<Temperature> {
 public:
  explicit Temperature(const SamplerParams& params)
      : temp_(params.temp), range_(params.dynatemp_range), exponent_(params.dynatemp_exponent) {}

  void apply(Candidates& candidates, const History&, SeededRng&) override {
    const double temperature = range_ > 0 ? dynamic_temperature(candidates) : temp_;
    if (temperature != 1) candidates.divide_logits(std::max(temperature, static_cast<double>(kMinTemperature)));
  }

 private:
  double dynamic_temperature(Candidates& candidates) const {
    candidates.softmax();
    candidates.order_by_logit();
    const auto items = candidates.items();
    if (items.size() < 2) return 1;
    double entropy = 0;
    for (const Candidate& item : items) entropy -= item.prob > 0 ? item.prob * std::log(item.prob) : 0;
    const double share = std::clamp(entropy / std::log(static_cast<double>(items.size())), 0.0, 1.0);
    const double min = std::max(0.0, temp_ - range_), max = temp_ + range_;
    return min + (max - min) * std::pow(share, exponent_);
  }

  double temp_;
  double range_;
  double exponent_;
};

}  // namespace

std::unique_ptr<Sampler> make_temperature(const SamplerContext& context) {
  if (context.params.temp < kMinTemperature) return nullptr;
  return std::make_unique<Temperature>(context.params);
}

}  // namespace tessera::sample
