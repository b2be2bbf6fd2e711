// Shell completions and man pages, written from the tables of commands and flags.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tessera/cli/command.h"

namespace tessera::cli {

/// The completion script for "bash", "zsh" or "fish"; nothing for another shell.
std::optional<std::string> completion_script(std::string_view shell);

/// tessera(1), or tessera-COMMAND(1), as troff source.
std::string man_page(const CommandInfo* command);

}  // namespace tessera::cli
