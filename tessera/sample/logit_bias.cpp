// logit_bias: adds a constant to the logits of given tokens. A bias of -infinity bans a token. Several biases of one
// token add up.
#include <map>

#include "tessera/sample/sampler.h"

namespace tessera::sample {
namespace {

class LogitBiasSampler : public CopyableSampler<LogitBiasSampler> {
 public:
  explicit LogitBiasSampler(const std::vector<LogitBias>& biases) {
    std::map<int32_t, float> sums;
    for (const LogitBias& entry : biases) sums[entry.id] += entry.bias;
    for (const auto& [id, bias] : sums) {
      ids_.push_back(id);
      biases_.push_back(bias);
    }
  }

  void apply(Candidates& candidates, const History&, SeededRng&) override {
    candidates.adjust(ids_, [&](size_t i, float logit) { return logit + biases_[i]; });
  }

 private:
  std::vector<int32_t> ids_;  // ascending
  std::vector<float> biases_;
};

}  // namespace

std::unique_ptr<Sampler> make_logit_bias(const SamplerContext& context) {
  if (context.params.logit_bias.empty()) return nullptr;
  return std::make_unique<LogitBiasSampler>(context.params.logit_bias);
}

}  // namespace tessera::sample
