// Numbers that a config states only by other numbers, such as the size of a head. Rows of keys name them "=NAME".
#pragma once

#include <optional>
#include <string_view>

#include "tessera/base/result.h"
#include "tessera/convert/source/hub_config.h"

namespace tessera::convert {

/// Nothing if the config lacks a number that the value needs. Errors: those of HubConfig.
using DerivedValue = Result<std::optional<double>> (*)(const HubConfig& config);

/// Null if no derived value has this name.
DerivedValue find_derived_value(std::string_view name);

}  // namespace tessera::convert
