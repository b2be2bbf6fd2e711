// Sums of exponentials over a vocabulary, and the selection of the greatest logits.
#include "tessera/sample/log_probs.h"

#include <cmath>

#include "tessera/isa/sets.h"
#include "tessera/sample/kernels/softmax.h"

namespace tessera::sample {

#define TESSERA_INSTRUCTION_SET(name, base, usable) \
  namespace base {                                  \
  const SoftmaxKernels& softmax_kernels();          \
  }
#include "tessera/isa/sets.def"

namespace {

constexpr const SoftmaxKernels& (*kKernelsOf[])() = {
#define TESSERA_INSTRUCTION_SET(name, base, usable) base::softmax_kernels,
#include "tessera/isa/sets.def"
};

}  // namespace

SoftmaxSum softmax_sum(std::span<const float> logits) {
  const SoftmaxKernels& kernels = kKernelsOf[isa::default_isa()]();
  const float highest = kernels.greatest(logits.data(), logits.size());
  if (!std::isfinite(highest)) return {highest, static_cast<double>(NAN)};
  return {highest, std::log(kernels.sum_of_exp(logits.data(), logits.size(), highest))};
}

std::span<const TokenLogProb> TopLogProbs::find(std::span<const float> logits, const SoftmaxSum& sum, size_t n) {
  select_top(logits, n, best_);
  top_.clear();
  for (const Candidate& item : best_) top_.push_back({item.id, sum.log_p(item.logit)});
  return top_;
}

}  // namespace tessera::sample
