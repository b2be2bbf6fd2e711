// The files in which the program remembers things for a user (XDG Base Directory Specification).
#pragma once

#include <string>
#include <string_view>

namespace tessera::cli {

/// $XDG_STATE_HOME/tessera/NAME, else ~/.local/state/tessera/NAME; empty without a home.
std::string state_file_path(std::string_view name);

}  // namespace tessera::cli
