// Small random models of all architectures, written from the specifications in tests/data/arch_specs, with the logits
// that the reference program computes from the same models. tests/data/README.md defines the format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::testing {

/// The n weights of a tensor. Weight i depends on the name, the seed and i alone, and is the same on every machine.
///   mean, scale: weights are uniform in [mean - scale, mean + scale)
std::vector<float> spec_weights(std::string_view name, size_t n, double mean, double scale, uint64_t seed);

/// Writes the model of a specification. Errors: those of GgufWriter; format or unsupported where a field is missing or
/// has another type.
Result<> write_spec_model(const std::string& spec_path, const std::string& model_path);

/// The path of the model of tests/data/arch_specs/NAME.json, written once per process under temporary_dir().
/// A failed write is a test failure.
std::string arch_model(const std::string& name);

/// The path of a model by its name: story_model() for "story", else arch_model(name).
std::string named_model(const std::string& name);

/// Logits as `tessera logits` writes them.
struct GoldenLogits {
  std::vector<int32_t> tokens;
  std::vector<float> logits;  // a row per token
};

/// The reference's logits of arch_model(name).
GoldenLogits arch_logits(const std::string& name);

}  // namespace tessera::testing
