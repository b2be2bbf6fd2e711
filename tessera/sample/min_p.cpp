// min_p: keeps tokens at least min_p times as probable as the most probable one (Nguyen et al. 2024, "Turning Up the
// Heat: Min-p Sampling"). A ratio of probabilities is a difference of logits, so no normalisation is needed.
#include <cmath>

#include "tessera/sample/sampler.h"

namespace tessera::sample {
namespace {

class MinP : public CopyableSampler<MinP> {
 public:
  MinP(double min_p, size_t min_keep) : log_min_p_(std::log(min_p)), min_keep_(min_keep) {}

  void apply(Candidates& candidates, const History&, SeededRng&) override {
    candidates.keep_logits_from(static_cast<double>(candidates.max_logit()) + log_min_p_, min_keep_);
  }

 private:
  double log_min_p_;
  size_t min_keep_;
};

}  // namespace

std::unique_ptr<Sampler> make_min_p(const SamplerContext& context) {
  if (context.params.min_p <= 0) return nullptr;
  return std::make_unique<MinP>(context.params.min_p, context.min_keep());
}

}  // namespace tessera::sample
