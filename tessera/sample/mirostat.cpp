// mirostat 1: a top-k whose expected surprise is mu (Basu et al. 2021, algorithm 1). k is computed as if the
// probabilities by rank followed a Zipf law. Its exponent s is estimated from the first 100 ranks.
#include "tessera/sample/surprise_control.h"

namespace tessera::sample {
namespace {

constexpr size_t kRanks = 100;  // m in the paper

class Mirostat : public CopyableSampler<Mirostat> {
 public:
  explicit Mirostat(const SamplerContext& context)
      : control_(context.params), n_tokens_(static_cast<double>(context.vocab->n_tokens())) {}

  void apply(Candidates& candidates, const History&, SeededRng& rng) override {
    candidates.softmax();
    const double k = estimate_k(zipf_exponent(candidates.sort_first(kRanks)));
    // For distributions far from a Zipf law, k can be any value, even NaN. It is clamped to at least one token and at
    // most all.
    const auto n_left = static_cast<double>(candidates.items().size());
    candidates.keep_top(k >= 1 ? static_cast<size_t>(std::min(k, n_left)) : 1);
    control_.draw(candidates, rng);
  }

  void reset() override { control_.reset(); }

 private:
  /// Least squares of ln(p_i / p_i+1) = s ln((i + 2) / (i + 1)), i from 0.
  static double zipf_exponent(std::span<const Candidate> sorted) {
    double products = 0, squares = 0;
    for (size_t i = 0; i + 1 < std::min(sorted.size(), kRanks); ++i) {
      const double rank = static_cast<double>(i);
      const double x = std::log((rank + 2) / (rank + 1));
      const double y = static_cast<double>(sorted[i].logit) - static_cast<double>(sorted[i + 1].logit);
      if (!std::isfinite(y)) break;
      products += x * y;
      squares += x * x;
    }
    return squares > 0 ? products / squares : 0;
  }

  double estimate_k(double s) const {
    const double epsilon = s - 1;
    // epsilon / (1 - N^-epsilon) tends to 1 / ln N.
    const double factor =
        std::abs(epsilon) < 1e-9 ? 1 / std::log(n_tokens_) : epsilon / (1 - std::pow(n_tokens_, -epsilon));
    return std::pow(factor * std::exp2(control_.mu()), 1 / s);
  }

  SurpriseControl control_;
  double n_tokens_;
};

}  // namespace

std::unique_ptr<Sampler> make_mirostat(const SamplerContext& context) { return std::make_unique<Mirostat>(context); }

}  // namespace tessera::sample
