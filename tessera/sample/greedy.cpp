// greedy: chooses the most probable token, the lowest id on a tie. It is the limit of temperature 0, so only this token
// remains, with probability 1. No random number is used.
#include "tessera/sample/sampler.h"

namespace tessera::sample {
namespace {

class Greedy : public CopyableSampler<Greedy> {
 public:
  void apply(Candidates& candidates, const History&, SeededRng&) override {
    candidates.keep_top(1);
    candidates.select_best();
  }
};

}  // namespace

std::unique_ptr<Sampler> make_greedy(const SamplerContext&) { return std::make_unique<Greedy>(); }

}  // namespace tessera::sample
