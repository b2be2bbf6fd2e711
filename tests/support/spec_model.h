// Small random models of all architectures, written from the specifications in tests/data/arch_specs, with the logits
// that the reference program computes from the same models. tests/data/README.md defines the format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::testing {

/// Returns the n weights of a tensor. Weight i depends only on the name, the seed and i, and is the same on every
/// machine.
///   mean, scale: weights are uniform in [mean - scale, mean + scale)
std::vector<float> spec_weights(std::string_view name, size_t n, double mean, double scale, uint64_t seed);

/// Writes the model of a specification. Errors: errors of GgufWriter; format or unsupported (a field is missing or has
/// another type).
Result<> write_spec_model(const std::string& spec_path, const std::string& model_path);

/// Returns the path of the model of tests/data/arch_specs/NAME.json, written once per process under temporary_dir().
/// The test fails if it cannot be written.
std::string arch_model(const std::string& name);

/// Returns the path of a model by name: story_model() for "story", else arch_model(name).
std::string named_model(const std::string& name);

/// Logits in the format of `tessera logits`.
struct GoldenLogits {
  std::vector<int32_t> tokens;
  std::vector<float> logits;  // a row per token
};

/// Returns the logits of the reference program for arch_model(name).
GoldenLogits arch_logits(const std::string& name);

}  // namespace tessera::testing
