// Tool calls as text for people. The view of replies calls it.
#pragma once

#include <string>
#include <string_view>

namespace tessera::cli {

/// Returns `name(a=1, b="x")`. Arguments that are not a JSON object stand in the brackets as they are.
std::string call_text(std::string_view name, std::string_view arguments);

}  // namespace tessera::cli
