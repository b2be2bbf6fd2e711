// typ_p: keeps the smallest number of tokens that sum to at least typ_p. Tokens whose information -ln p is nearest to
// the entropy come first, also in draws (Meister et al. 2023, "Locally Typical Sampling").
#include <cmath>

#include "tessera/sample/sampler.h"

namespace tessera::sample {
namespace {

class Typical : public CopyableSampler<Typical> {
 public:
  Typical(double p, size_t min_keep) : p_(p), min_keep_(std::max<size_t>(min_keep, 1)) {}

  void apply(Candidates& candidates, const History&, SeededRng&) override {
    candidates.softmax();
    const auto items = candidates.items();
    double entropy = 0;
    for (const Candidate& item : items) entropy -= item.prob > 0 ? item.prob * std::log(item.prob) : 0;
    ranked_.clear();
    for (uint32_t i = 0; i < items.size(); ++i)
      ranked_.push_back({std::abs(-std::log(items[i].prob) - entropy), items[i].id, i});

    const size_t n_kept = count_kept(items);
    kept_.clear();
    for (size_t rank = 0; rank < n_kept; ++rank) kept_.push_back(ranked_[rank].index);
    candidates.keep_indices(kept_);
  }

 private:
  struct Ranked {
    double distance;  // +inf for probability 0
    int32_t id;
    uint32_t index;
  };

  /// Sorts ranked_ as far as needed and returns how many of its first entries are kept.
  size_t count_kept(std::span<const Candidate> items) {
    const auto nearer = [](const Ranked& a, const Ranked& b) {
      return a.distance != b.distance ? a.distance < b.distance : a.id < b.id;
    };
    double sum = 0;
    size_t n_sorted = 0;
    for (size_t i = 0; i < ranked_.size(); ++i) {
      if (i == n_sorted) {
        n_sorted = std::min(ranked_.size(), std::max<size_t>(64, 2 * n_sorted));
        extend_sorted(std::span(ranked_), i, n_sorted, nearer);
      }
      sum += items[ranked_[i].index].prob;
      if (sum >= p_ && i + 1 >= min_keep_) return i + 1;
    }
    return ranked_.size();
  }

  double p_;
  size_t min_keep_;
  std::vector<Ranked> ranked_;  // a member so that its memory is reused for every token
  std::vector<uint32_t> kept_;
};

}  // namespace

std::unique_ptr<Sampler> make_typical(const SamplerContext& context) {
  if (context.params.typ_p >= 1) return nullptr;
  return std::make_unique<Typical>(context.params.typ_p, context.min_keep());
}

}  // namespace tessera::sample
