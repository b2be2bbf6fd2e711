#include "tessera/cli/command.h"

namespace tessera::cli {

#define TESSERA_COMMAND(name, summary) TESSERA_COMMAND_AS(name, #name, summary)
#define TESSERA_COMMAND_AS(name, text, summary) std::unique_ptr<Command> create_##name##_command();
#include "tessera/cli/commands.def"
#undef TESSERA_COMMAND_AS

std::span<const CommandInfo> all_commands() {
  static constexpr CommandInfo kCommands[] = {
#define TESSERA_COMMAND_AS(name, text, summary) {text, summary, create_##name##_command},
#include "tessera/cli/commands.def"
#undef TESSERA_COMMAND_AS
#undef TESSERA_COMMAND
  };
  return kCommands;
}

}  // namespace tessera::cli
