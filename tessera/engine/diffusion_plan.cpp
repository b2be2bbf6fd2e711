#include "tessera/engine/diffusion_plan.h"

#include <algorithm>
#include <cmath>

#include "tessera/cache/paged.h"

namespace tessera {

namespace {

constexpr float kDefaultEps = 0.001f;
constexpr int64_t kDefaultBlock = 32;
constexpr int64_t kDefaultSteps = 128;
constexpr float kMaxDiffusionReal = 1000;

int64_t largest_divisor(int64_t n, int64_t most) {
  for (int64_t d = std::min(n, most); d > 1; --d)
    if (n % d == 0) return d;
  return 1;
}

Result<> require_between(std::string_view name, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return {};
  return fail(ErrorCode::invalid_argument, "diffusion: {} {}, want {} to {}", name, value, min, max);
}

Result<> require_real(std::string_view name, float value, float max) {
  if (value >= 0 && value <= max) return {};  // false for NaN
  return fail(ErrorCode::invalid_argument, "diffusion: {} {}, want 0 to {}", name, value, max);
}

Result<> require_valid(const DiffusionOptions& o) {
  TESSERA_TRY(require_between("length", o.n_predict, 0, kMaxContext));
  TESSERA_TRY(require_between("steps", o.n_steps, 1, kMaxDiffusionSteps));
  TESSERA_TRY(require_between("block length", o.block_length, 0, kMaxContext));
  if (!(o.eps >= 0 && o.eps < 1))
    return fail(ErrorCode::invalid_argument, "diffusion: eps {}, want a number above 0 and below 1", o.eps);
  if ((o.eps > 0) == (o.block_length > 0))
    return fail(ErrorCode::invalid_argument,
                "diffusion: eps {} and block length {}: want exactly one of them, which selects the schedule", o.eps,
                o.block_length);
  TESSERA_TRY(require_real("temperature of the algorithm", o.alg_temp, kMaxDiffusionReal));
  TESSERA_TRY(require_real("guidance scale", o.cfg_scale, kMaxDiffusionReal));
  TESSERA_TRY(require_real("Gumbel temperature", o.gumbel, kMaxDiffusionReal));
  return sample::validate(o.sampling);
}

// The share of masks that goes in step k takes the noise from t to s, as in Dream's generation.
std::vector<RevealStep> timestep_plan(const DiffusionOptions& o) {
  std::vector<RevealStep> steps;
  const auto n_steps = static_cast<double>(o.n_steps), range = 1.0 - static_cast<double>(o.eps);
  int64_t n_masked = o.n_predict;
  for (int64_t k = 0; k < o.n_steps && n_masked > 0; ++k) {
    const double t = 1.0 - static_cast<double>(k) / n_steps * range;
    const double s = 1.0 - static_cast<double>(k + 1) / n_steps * range;
    const bool is_last = k + 1 == o.n_steps;
    const auto n = is_last ? n_masked : static_cast<int64_t>(std::floor(static_cast<double>(n_masked) * (1.0 - s / t)));
    if (n > 0) steps.push_back({{0, o.n_predict}, n_masked, n});
    n_masked -= n;
  }
  return steps;
}

Result<std::vector<RevealStep>> block_plan(const DiffusionOptions& o) {
  const int64_t n_blocks = o.n_predict / o.block_length;
  if (o.n_predict % o.block_length != 0)
    return fail(ErrorCode::invalid_argument, "diffusion: a text of {} tokens is not whole blocks of {}", o.n_predict,
                o.block_length);
  if (n_blocks > 0 && o.n_steps % n_blocks != 0)
    return fail(ErrorCode::invalid_argument, "diffusion: {} steps do not divide among {} blocks of {} tokens",
                o.n_steps, n_blocks, o.block_length);
  std::vector<RevealStep> steps;
  for (int64_t block = 0; block < n_blocks; ++block) {
    const int64_t n_steps = o.n_steps / n_blocks;
    int64_t n_masked = o.block_length;
    for (int64_t k = 0; k < n_steps && n_masked > 0; ++k) {
      const int64_t n = partition(o.block_length, n_steps, k).size();
      steps.push_back({{block * o.block_length, (block + 1) * o.block_length}, n_masked, n});
      n_masked -= n;
    }
  }
  return steps;
}

}  // namespace

DiffusionOptions with_default_schedule(DiffusionOptions o, bool shifts_logits) {
  if (o.eps == 0 && o.block_length == 0) {
    if (shifts_logits) {
      o.eps = kDefaultEps;
    } else {
      o.block_length = largest_divisor(o.n_predict, kDefaultBlock);
    }
  }
  if (o.n_steps != 0) return o;
  const int64_t n_blocks = o.block_length > 0 ? std::max<int64_t>(o.n_predict / o.block_length, 1) : 1;
  o.n_steps = n_blocks * std::clamp<int64_t>(kDefaultSteps / n_blocks, 1, std::max<int64_t>(o.n_predict / n_blocks, 1));
  return o;
}

int64_t default_diffusion_length(int64_t room, int64_t block_length) {
  const int64_t n = std::clamp<int64_t>(room, 0, kDefaultDiffusionLength);
  if (block_length <= 0) return n;
  // A block above 128 tokens is taken whole if it fits.
  return block_length > n ? (block_length <= room ? block_length : 0) : n - n % block_length;
}

Result<std::vector<RevealStep>> plan_reveals(const DiffusionOptions& options) {
  TESSERA_TRY(require_valid(options));
  return options.eps > 0 ? timestep_plan(options) : block_plan(options);
}

}  // namespace tessera
