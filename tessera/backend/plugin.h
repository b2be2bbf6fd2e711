// Backends from shared libraries. The interface is include/tessera/backend_plugin.h, docs/add_backend.md explains it.
// app/ calls this when devices are looked for. A plugin that is broken, of another version or says nonsense costs a
// line, not the process; what it does in its own code nobody can undo.
#pragma once

#include <string>
#include <vector>

#include "tessera/backend/backend.h"

namespace tessera {

struct PluginSearch {
  std::vector<std::string> folders{};   // read if they are there
  std::vector<std::string> paths{};     // files and folders that somebody named: told if they are not there
  std::vector<std::string> reserved{};  // names that no plugin may have
};

/// Loads the plugins there are: in folders files of the name libtessera-backend-NAME[-VARIANT].so, in the order of
/// their names, and files that are named themselves. Of several with one name the highest score is used, of equals the
/// first. Devices are in the order of the plugins' names; notes have a line for each file that is not used.
FoundDevices find_plugins(const PluginSearch& search);

}  // namespace tessera
