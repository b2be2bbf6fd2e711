// The names of a classifier's outputs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/convert/source/hub_config.h"

namespace tessera::convert {

/// The texts of id2label in the order of their numbers; nothing if the config has none. Errors: format (no text for a
/// number).
Result<std::optional<std::vector<std::string>>> output_labels_of(const HubConfig& config);

}  // namespace tessera::convert
