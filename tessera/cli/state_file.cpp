#include "tessera/cli/state_file.h"

#include <fmt/format.h>

#include <cstdlib>

namespace tessera::cli {

std::string state_file_path(std::string_view name) {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return fmt::format("{}/tessera/{}", state, name);  // a relative one is invalid
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return "";
  return fmt::format("{}/.local/state/tessera/{}", home, name);
}

}  // namespace tessera::cli
