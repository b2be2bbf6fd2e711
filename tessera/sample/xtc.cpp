// xtc, "exclude top choices" (p-e-w 2024, text-generation-webui pull request 6335): with a given probability, it
// considers the tokens with at least the threshold's probability and removes all of them but the least probable. As in
// llama.cpp, it has random numbers of its own, and uses one for each token with at least two candidates.
#include "tessera/base/index.h"
#include "tessera/sample/sampler.h"

namespace tessera::sample {
namespace {

class Xtc : public CopyableSampler<Xtc> {
 public:
  explicit Xtc(const SamplerContext& context)
      : probability_(context.params.xtc_probability),
        threshold_(context.params.xtc_threshold),
        min_keep_(context.min_keep()),
        seed_(static_cast<uint64_t>(context.params.seed)),
        rng_(seed_) {}

  void apply(Candidates& candidates, const History&, SeededRng&) override {
    if (candidates.items().size() < 2 || rng_.next_float() > probability_) return;
    candidates.softmax();
    candidates.order_by_logit();
    const auto items = candidates.items();
    const auto n_probable =
        to_size(std::ranges::count_if(items, [&](const Candidate& item) { return item.prob >= threshold_; }));
    if (n_probable < 2 || items.size() - (n_probable - 1) < min_keep_) return;
    candidates.sort_first(n_probable);
    candidates.drop_first(n_probable - 1);
  }

  void reset() override { rng_ = SeededRng(seed_); }

 private:
  float probability_;
  double threshold_;
  size_t min_keep_;
  uint64_t seed_;
  SeededRng rng_;
};

}  // namespace

std::unique_ptr<Sampler> make_xtc(const SamplerContext& context) {
  if (context.params.xtc_probability <= 0 || context.params.xtc_threshold > 0.5f) return nullptr;
  return std::make_unique<Xtc>(context);
}

}  // namespace tessera::sample
