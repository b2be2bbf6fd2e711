// penalties: lowers the logits of tokens that occur among the last n of the text. A positive logit is divided by the
// repeat penalty, any other is multiplied by it (Keskar et al. 2019, "CTRL"). Then the number of occurrences *
// frequency is subtracted, and presence once (as in OpenAI's API).
#include "tessera/base/index.h"
#include "tessera/sample/sampler.h"

namespace tessera::sample {
namespace {

class Penalties : public CopyableSampler<Penalties> {
 public:
  explicit Penalties(const SamplerContext& context)
      : window_(context.window(context.params.repeat_last_n)),
        repeat_(context.params.repeat_penalty),
        frequency_(context.params.frequency_penalty),
        presence_(context.params.presence_penalty) {
    const size_t n_most = std::min(window_, to_size(context.vocab->n_tokens())) + 1;
    ids_.reserve(n_most);
    counts_.reserve(n_most);
  }

  void apply(Candidates& candidates, const History&, SeededRng&) override {
    candidates.adjust(ids_, [&](size_t i, float logit) {
      const float repeated = logit > 0 ? logit / repeat_ : logit * repeat_;
      return repeated - static_cast<float>(counts_[i]) * frequency_ - presence_;
    });
  }

  // The counts are updated with the text, so the cost of a step depends on the distinct tokens of the window, not on
  // its length.
  void accept(int32_t token, const History& history) override {
    add(token, 1);
    if (history.size() >= window_) add(history[window_ - 1], -1);
  }

  void reset() override {
    ids_.clear();
    counts_.clear();
  }

 private:
  void add(int32_t token, int32_t difference) {
    const auto at = std::ranges::lower_bound(ids_, token) - ids_.begin();
    const auto id = ids_.begin() + at;
    const auto count = counts_.begin() + at;
    if (id == ids_.end() || *id != token) {
      ids_.insert(id, token);
      counts_.insert(count, difference);
    } else if (*count += difference; *count == 0) {
      ids_.erase(id);
      counts_.erase(count);
    }
  }

  size_t window_;
  float repeat_;
  float frequency_;
  float presence_;
  std::vector<int32_t> ids_;  // ascending: the distinct tokens of the window
  std::vector<int32_t> counts_;
};

}  // namespace

std::unique_ptr<Sampler> make_penalties(const SamplerContext& context) {
  const SamplerParams& params = context.params;
  const bool is_neutral = params.repeat_penalty == 1 && params.frequency_penalty == 0 && params.presence_penalty == 0;
  if (is_neutral || context.window(params.repeat_last_n) == 0) return nullptr;
  return std::make_unique<Penalties>(context);
}

}  // namespace tessera::sample
