// Patterns of file names.
#pragma once

#include <string_view>

namespace tessera::hub {

/// Whether a text has the form of a pattern, in which '*' is any text without '/', and '?' any digit. Time: at most the
/// product of both lengths.
bool matches_wildcard(std::string_view text, std::string_view pattern);

}  // namespace tessera::hub
