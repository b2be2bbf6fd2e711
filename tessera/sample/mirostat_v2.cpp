// mirostat 2: keeps the tokens whose surprise -log2 p is at most mu, and at least the most probable one. This is the
// second version by the authors of Basu et al. 2021, without the estimate of a Zipf law.
#include "tessera/sample/surprise_control.h"

namespace tessera::sample {
namespace {

class MirostatV2 : public CopyableSampler<MirostatV2> {
 public:
  explicit MirostatV2(const SamplerContext& context) : control_(context.params) {}

  void apply(Candidates& candidates, const History&, SeededRng& rng) override {
    candidates.softmax();
    const double least_prob = std::exp2(-control_.mu());
    kept_.clear();
    const auto items = candidates.items();
    for (uint32_t i = 0; i < items.size(); ++i) {
      if (items[i].prob >= least_prob) kept_.push_back(i);
    }
    if (kept_.empty())
      candidates.keep_top(1);
    else
      candidates.keep_indices(kept_);
    candidates.order_by_logit();
    control_.draw(candidates, rng);
  }

  void reset() override { control_.reset(); }

 private:
  SurpriseControl control_;
  std::vector<uint32_t> kept_;  // a member so that its memory is reused for every token
};

}  // namespace

std::unique_ptr<Sampler> make_mirostat_v2(const SamplerContext& context) {
  return std::make_unique<MirostatV2>(context);
}

}  // namespace tessera::sample
