// top_k: keeps the k most probable tokens (Fan et al. 2018, "Hierarchical Neural Story Generation").
#include "tessera/base/index.h"
#include "tessera/sample/sampler.h"

namespace tessera::sample {
namespace {

class TopK : public CopyableSampler<TopK> {
 public:
  explicit TopK(size_t k) : k_(k) {}

  void apply(Candidates& candidates, const History&, SeededRng&) override { candidates.keep_top(k_); }

 private:
  size_t k_;
};

}  // namespace

std::unique_ptr<Sampler> make_top_k(const SamplerContext& context) {
  if (context.params.top_k <= 0) return nullptr;
  return std::make_unique<TopK>(std::max(to_size(context.params.top_k), context.min_keep()));
}

}  // namespace tessera::sample
