// Lets a model write a given text, as if it had chosen every token: its speed depends on the guesses, not on what it
// would say.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/engine/generate.h"
#include "tessera/engine/loaded_model.h"

namespace tessera::cli {

/// Writes the last n_written tokens of a text after a prompt of the others, in the model's session. Returns the seconds
/// without those of the prompt. Errors: those of Generator; cancelled.
Result<double> write_text(const LoadedModel& model, std::span<const int32_t> tokens, int64_t n_written,
                          GenerateOptions options, const CancelToken& cancel);

}  // namespace tessera::cli
