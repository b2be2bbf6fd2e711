// xtc, "exclude top choices" (p-e-w 2024, text-generation-webui pull request 6335): with a given probability, it
// considers the tokens with at least the threshold's probability and removes all of them but the least probable.
#include "tessera/base/index.h"
#include "tessera/sample/sampler.h"

namespace tessera::sample {
namespace {

class Xtc : public CopyableSampler<Xtc> {
 public:
  Xtc(double probability, double threshold, size_t min_keep)
      : probability_(probability), threshold_(threshold), min_keep_(min_keep) {}

  void apply(Candidates& candidates, const History&, Rng& rng) override {
    // One random number per token, whatever the candidates, so that two runs can be compared step by step.
    if (rng.next_double() >= probability_) return;
    candidates.softmax();
    const auto items = candidates.items();
    const auto n_probable =
        to_size(std::ranges::count_if(items, [&](const Candidate& item) { return item.prob >= threshold_; }));
    if (n_probable < 2 || items.size() - (n_probable - 1) < min_keep_) return;
    candidates.sort_first(n_probable);
    candidates.drop_first(n_probable - 1);
  }

 private:
  double probability_;
  double threshold_;
  size_t min_keep_;
};

}  // namespace

std::unique_ptr<Sampler> make_xtc(const SamplerContext& context) {
  if (context.params.xtc_probability <= 0 || context.params.xtc_threshold > 0.5f) return nullptr;
  return std::make_unique<Xtc>(context.params.xtc_probability, context.params.xtc_threshold, context.min_keep());
}

}  // namespace tessera::sample
