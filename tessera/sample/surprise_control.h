// The part common to both versions of mirostat (Basu et al. 2021, "Mirostat: A Neural Text Decoding Algorithm that
// Directly Controls Perplexity"). After each token, the limit mu moves against the error of the token's surprise, in
// bits.
#pragma once

#include <cmath>

#include "tessera/sample/sampler.h"

namespace tessera::sample {

class SurpriseControl {
 public:
  explicit SurpriseControl(const SamplerParams& params)
      : tau_(params.mirostat_tau), eta_(params.mirostat_eta), mu_(2 * tau_) {}

  double mu() const { return mu_; }
  void reset() { mu_ = 2 * tau_; }

  /// Draws from the remaining candidates and adjusts mu by the surprise of the token. As in the paper, this is the
  /// surprise under the whole distribution (that of the previous softmax()), not under the truncated one.
  void draw(Candidates& candidates, SeededRng& rng) {
    const double share = candidates.softmax();
    // llama.cpp uses no random number here if only one candidate is left.
    if (candidates.items().size() > 1)
      candidates.draw(rng);
    else
      candidates.select_best();
    if (!candidates.selected()) return;
    const double surprise = -std::log2(candidates.selected()->prob) - std::log2(share);
    mu_ -= eta_ * (surprise - tau_);
  }

 private:
  double tau_;
  double eta_;
  double mu_;
};

}  // namespace tessera::sample
