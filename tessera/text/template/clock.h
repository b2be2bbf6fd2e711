// Dates as text, in the C locale whatever the environment says.
#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include "tessera/base/result.h"

namespace tessera::text::jinja {

/// Formats a time as strftime does, with the conversions that templates use (a A b B c d D e F H I j m M p S T x X y Y
/// z Z %) and '-' for numbers without padding. Errors: invalid_argument (another conversion).
Result<std::string> format_time(const std::tm& time, std::string_view format);

}  // namespace tessera::text::jinja
