// What `logits` and `verify` print of logits beside a reference's.
#pragma once

#include <string>

#include "tessera/eval/reference_logits.h"

namespace tessera::cli {

/// A line per position, the worst one's number in the last.
std::string position_table(const eval::ReferenceLogits& reference);
/// The same as a JSON array.
std::string position_json(const eval::ReferenceLogits& reference);

}  // namespace tessera::cli
