// Shell completions and man pages, written from the tables of commands and flags.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tessera/cli/command.h"

namespace tessera::cli {

/// Returns the completion script for "bash", "zsh" or "fish", or nullopt for another shell.
std::optional<std::string> completion_script(std::string_view shell);

/// Returns tessera-COMMAND(1), or tessera(1) for nullptr, as troff source.
std::string man_page(const CommandInfo* command);

}  // namespace tessera::cli
