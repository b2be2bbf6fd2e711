// Loads backends from shared libraries; called by app/ during the search for devices. The interface is
// include/tessera/backend_plugin.h, explained in docs/add_backend.md. A plugin that is broken, has another version or
// returns invalid values is skipped with a note. A crash inside a plugin's own code cannot be caught.
#pragma once

#include <string>
#include <vector>

#include "tessera/backend/backend.h"

namespace tessera {

struct PluginSearch {
  std::vector<std::string> folders{};   // ignored if missing
  std::vector<std::string> paths{};     // files and folders named by the user; missing ones are reported
  std::vector<std::string> reserved{};  // names that no plugin may use
};

/// Loads the files libtessera-backend-NAME[-VARIANT].so of each folder, in the order of their names, and the files
/// named by the user. If several plugins have the same name, the one with the highest score is used, or the first of
/// equals. Devices are in the order of the plugins' names. The notes have a line for each unused file.
FoundDevices find_plugins(const PluginSearch& search);

}  // namespace tessera
