// Settings of text generation by diffusion, and the steps that follow from them. A text begins as the prompt and masks.
// Each step computes the whole text and replaces some masks by tokens. Nie et al. 2025, "Large Language Diffusion
// Models" (LLaDA, arXiv 2502.09992), and Ye et al. 2025, "Dream 7B" (arXiv 2508.15487).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tessera/base/partition.h"
#include "tessera/base/result.h"
#include "tessera/sample/params.h"

namespace tessera {

/// Decides which masks a step replaces. The numbers are those of llama.cpp.
enum class DiffusionAlgorithm : uint8_t {
  origin,      // each with the same probability
  entropy,     // those whose distribution has the least entropy
  margin,      // those whose two best tokens differ most in probability
  random,      // any
  confidence,  // those whose token is the most probable
};

/// By number.
inline constexpr std::array<std::string_view, 5> kDiffusionAlgorithmNames = {"origin", "entropy", "margin", "random",
                                                                             "confidence"};

inline constexpr int64_t kDefaultDiffusionLength = 128;
inline constexpr int64_t kMaxDiffusionSteps = int64_t{1} << 20;

struct DiffusionOptions {
  int64_t n_predict = kDefaultDiffusionLength;  // length of the text after the prompt, which is fixed
  int64_t n_steps = 0;                          // 0: see with_default_schedule()
  // Exactly one of the two selects the schedule.
  float eps = 0;             // timestep schedule: the noise that the last step begins with, below 1
  int64_t block_length = 0;  // block schedule: tokens of a block; blocks are filled from left to right
  DiffusionAlgorithm algorithm = DiffusionAlgorithm::confidence;
  float alg_temp = 0;                // of the choice of masks; 0: always the best
  float cfg_scale = 0;               // of guidance by a second text whose prompt is masked; 0: none
  float gumbel = 0;                  // temperature of Gumbel noise, which then chooses the tokens; 0: none
  sample::SamplerParams sampling{};  // top_k, top_p, temp and seed count; temp 0: always the most probable token
};

/// A step of a text: it replaces n_reveal of the n_masked masks at these positions, which count from the end of the
/// prompt.
struct RevealStep {
  Range positions{};
  int64_t n_masked = 0;
  int64_t n_reveal = 0;
};

/// Fills in the schedule where it is open. Without eps and block_length: eps 0.001 for shifted logits, else blocks of
/// the largest divisor of n_predict up to 32. Without n_steps: a step per token, but about 128 steps at most.
DiffusionOptions with_default_schedule(DiffusionOptions options, bool shifts_logits);

/// The length of a text if the user named none and `room` tokens fit after the prompt: at most 128, and whole blocks.
int64_t default_diffusion_length(int64_t room, int64_t block_length);

/// The steps of a text without those that would reveal nothing. They reveal every position. Errors: invalid_argument
/// (a number out of its range, both schedules or none, a length that is not whole blocks, steps that do not divide
/// among the blocks).
Result<std::vector<RevealStep>> plan_reveals(const DiffusionOptions& options);

}  // namespace tessera
