// top_p: keeps the smallest number of most probable tokens whose probabilities sum to at least p (Holtzman et al. 2020,
// "The Curious Case of Neural Text Degeneration").
#include "tessera/sample/sampler.h"

namespace tessera::sample {
namespace {

class TopP : public CopyableSampler<TopP> {
 public:
  TopP(double p, size_t min_keep) : p_(p), min_keep_(std::max<size_t>(min_keep, 1)) {}

  void apply(Candidates& candidates, const History&, SeededRng&) override {
    candidates.softmax();
    auto items = candidates.items();
    double sum = 0;
    size_t n_sorted = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      // Usually a few tokens suffice, so the list is sorted only as far as the sum requires.
      if (i == n_sorted) items = candidates.sort_first(n_sorted = std::max<size_t>(64, 2 * n_sorted));
      sum += items[i].prob;
      if (sum >= p_ && i + 1 >= min_keep_) return candidates.keep_first(i + 1);
    }
  }

 private:
  double p_;
  size_t min_keep_;
};

}  // namespace

std::unique_ptr<Sampler> make_top_p(const SamplerContext& context) {
  if (context.params.top_p >= 1) return nullptr;
  return std::make_unique<TopP>(context.params.top_p, context.min_keep());
}

}  // namespace tessera::sample
