#include "tessera/cli/command.h"

namespace tessera::cli {

#define TESSERA_COMMAND(name, summary) std::unique_ptr<Command> create_##name##_command();
#include "tessera/cli/commands.def"
#undef TESSERA_COMMAND

std::span<const CommandInfo> all_commands() {
  static constexpr CommandInfo kCommands[] = {
#define TESSERA_COMMAND(name, summary) {#name, summary, create_##name##_command},
#include "tessera/cli/commands.def"
#undef TESSERA_COMMAND
  };
  return kCommands;
}

}  // namespace tessera::cli
