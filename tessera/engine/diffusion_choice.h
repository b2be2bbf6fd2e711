// Choices of a diffusion step: a token for each mask, and the masks that are replaced. Sums are in double precision and
// in a fixed order. Equal logits give equal choices, and ties choose the lower position.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/engine/diffusion_plan.h"
#include "tessera/sample/candidates.h"
#include "tessera/sample/sampler.h"
#include "tessera/sample/seeded_rng.h"

namespace tessera {

/// A token for a mask, and the rank of this mask among others: a greater one is replaced earlier.
struct MaskChoice {
  int32_t token = 0;
  double confidence = 0;
};

/// Chooses tokens from logits. The distribution is the softmax of the logits after top_k, top_p and temperature.
class MaskFiller {
 public:
  /// The mask itself is never chosen.
  MaskFiller(const DiffusionOptions& options, int32_t mask_token);

  /// Chooses a token for logits [n_vocab]. NaN counts as -inf. Errors: invalid_argument (no token is possible).
  Result<MaskChoice> choose(std::span<const float> logits, sample::SeededRng& rng);

 private:
  int32_t add_noise(sample::SeededRng& rng);
  double confidence_of(const sample::Candidate& chosen, sample::SeededRng& rng);

  DiffusionAlgorithm algorithm_;
  double gumbel_;
  bool is_greedy_;
  int32_t mask_;
  std::vector<std::unique_ptr<sample::Sampler>> filters_;  // top_k and top_p
  std::unique_ptr<sample::Sampler> temperature_;           // null: none
  sample::History history_{0};                             // empty: no filter reads it
  sample::Candidates candidates_;
};

/// Returns the n elements that a step replaces, ascending: with alg_temp 0 those of the greatest confidence, else n
/// draws without replacement from the softmax of confidence / alg_temp. Returns all if n is at least their number.
std::vector<size_t> choose_masks(std::span<const double> confidence, int64_t n, double alg_temp,
                                 sample::SeededRng& rng);

/// Writes u + (scale + 1) (c - u) of the logits c of a text and u of the same text with a masked prompt:
/// classifier-free guidance (Ho and Salimans 2022, arXiv 2207.12598). All have the same length; out may be one of them.
void guide(std::span<const float> c, std::span<const float> u, double scale, std::span<float> out);

/// A number of the standard Gumbel distribution from a uniform one: -ln(-ln U).
double gumbel_noise(sample::SeededRng& rng);

}  // namespace tessera
