// dist: draws a token by its probability.
#include "tessera/sample/sampler.h"

namespace tessera::sample {
namespace {

class Dist : public CopyableSampler<Dist> {
 public:
  void apply(Candidates& candidates, const History&, Rng& rng) override { candidates.draw(rng); }
};

}  // namespace

std::unique_ptr<Sampler> make_dist(const SamplerContext&) { return std::make_unique<Dist>(); }

}  // namespace tessera::sample
