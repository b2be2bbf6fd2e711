// Rope scaling of config.json as keys, or as tensors of factors.
#pragma once

#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

/// Adds what rope_parameters (or rope_scaling, its older name) says: keys for linear, yarn and longrope; tensors for
/// longrope and llama3. Errors: unsupported (another type); those of reading config.json.
Result<> add_rope_scaling(ModelDraft& draft);

/// Factors of frequencies that slow down long waves, as Llama 3.1 has them.
struct SlowedWaves {
  double factor = 8, low_frequency = 1, high_frequency = 4;
  int64_t n_original = 8192;  // positions
};
std::vector<float> slowed_wave_factors(const SlowedWaves& waves, double base, int64_t n_rotated);

/// The same with the numbers of the config, for heads of which n_rotated values are rotated. Errors: format.
Result<std::vector<float>> llama3_factors(const ModelDraft& draft, double base, int64_t n_rotated);

}  // namespace tessera::convert
