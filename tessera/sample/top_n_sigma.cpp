// top_n_sigma: keeps logits within n standard deviations of the greatest (Tang et al. 2024, "Top-n-sigma: Not All
// Logits Are You Need"). The deviation is the population standard deviation of the finite logits.
#include <cmath>

#include "tessera/sample/sampler.h"

namespace tessera::sample {
namespace {

class TopNSigma : public CopyableSampler<TopNSigma> {
 public:
  explicit TopNSigma(double n) : n_(n) {}

  void apply(Candidates& candidates, const History&, SeededRng&) override {
    candidates.keep_logits_from(static_cast<double>(candidates.max_logit()) - n_ * deviation(candidates), 0);
  }

 private:
  /// 0 if no logit is finite.
  static double deviation(const Candidates& candidates) {
    double sum = 0, n_finite = 0;
    candidates.for_each_logit([&](float logit) {
      if (!std::isfinite(logit)) return;
      sum += static_cast<double>(logit);
      n_finite += 1;
    });
    if (n_finite == 0) return 0;
    const double mean = sum / n_finite;
    double squares = 0;
    candidates.for_each_logit([&](float logit) {
      if (!std::isfinite(logit)) return;
      const double difference = static_cast<double>(logit) - mean;
      squares += difference * difference;
    });
    return std::sqrt(squares / n_finite);
  }

  double n_;
};

}  // namespace

std::unique_ptr<Sampler> make_top_n_sigma(const SamplerContext& context) {
  if (context.params.top_n_sigma <= 0) return nullptr;
  return std::make_unique<TopNSigma>(context.params.top_n_sigma);
}

}  // namespace tessera::sample
