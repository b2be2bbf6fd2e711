// dist: draws a token by its probability. It uses a random number even if only one token is left, as llama.cpp does.
#include "tessera/sample/sampler.h"

namespace tessera::sample {
namespace {

class Dist : public CopyableSampler<Dist> {
 public:
  void apply(Candidates& candidates, const History&, SeededRng& rng) override { candidates.draw(rng); }
};

}  // namespace

std::unique_ptr<Sampler> make_dist(const SamplerContext&) { return std::make_unique<Dist>(); }

}  // namespace tessera::sample
