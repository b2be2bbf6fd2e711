// Output of `logits` and `verify`: the errors of logits against a reference.
#pragma once

#include <string>

#include "tessera/eval/reference_logits.h"

namespace tessera::cli {

/// Returns a table with a line per position, and a last line that names the worst position.
std::string position_table(const eval::ReferenceLogits& reference);
/// Returns the same as a JSON array.
std::string position_json(const eval::ReferenceLogits& reference);

}  // namespace tessera::cli
