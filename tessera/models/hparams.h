// Hyperparameters of an architecture, read from "{arch}.key". Bounds on the values keep every later size and index in
// range. Errors name file, key, value and bound.
#pragma once

#include <string>
#include <vector>

#include "tessera/models/model.h"

namespace tessera {

class HparamReader {
 public:
  HparamReader(const ModelFiles& files, std::string_view architecture) : files_(files), architecture_(architecture) {}

  /// An integer in [min, max]. The _or functions below return `absent` if the key is missing.
  Result<int64_t> integer(std::string_view key, int64_t min, int64_t max) const;
  Result<int64_t> integer_or(std::string_view key, int64_t absent, int64_t min, int64_t max) const;
  /// One integer in [min, max] per layer, from a scalar or an array of n_layers.
  Result<std::vector<int64_t>> per_layer(std::string_view key, int64_t n_layers, int64_t min, int64_t max) const;
  /// A finite number in [min, max].
  Result<float> real(std::string_view key, float min, float max) const;
  Result<float> real_or(std::string_view key, float absent, float min, float max) const;

  /// One finite number >= 0 per layer, from a scalar or an array of n_layers; all 0 if the key is missing.
  Result<std::vector<float>> real_per_layer(std::string_view key, int64_t n_layers) const;

  Result<bool> flag(std::string_view key) const;
  Result<bool> flag_or(std::string_view key, bool absent) const;
  /// One truth value per layer, from a scalar or an array of n_layers. 0 and 1 are truth values too.
  Result<std::vector<bool>> flag_per_layer(std::string_view key, int64_t n_layers) const;

  bool has(std::string_view key) const;
  std::string full_key(std::string_view key) const;

  /// Size of the vocabulary: length of the token list, else .vocab_size, else the number of rows of token_embd.
  Result<int64_t> n_vocab() const;
  /// The .rope.* keys, replaced by the given overrides. The architecture sets n_rot and the pairs.
  Result<nn::RopeConfig> rope(int64_t n_ctx_train, const RopeOverrides& overrides) const;

 private:
  const ModelFiles& files_;
  std::string architecture_;
};

}  // namespace tessera
