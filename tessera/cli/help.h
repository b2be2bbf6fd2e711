// What the program tells about itself, all from the tables of commands and flags: help, version, man pages,
// completions.
#pragma once

#include <optional>
#include <string>

#include "tessera/cli/command.h"

namespace tessera::cli {

enum class HelpRequest : uint8_t { none, common, all };

/// -h, --help-all, -q, -v: flags of every command.
void add_common_flags(FlagTable& table, Context& context, HelpRequest& help);

/// Usage and flags of one command: the common ones, or every one.
std::string help_text(const CommandInfo& command, const FlagTable& table, HelpRequest request);

/// The commands, one a line.
std::string overview();

/// --version, help [COMMAND], man [COMMAND], completion SHELL: their exit status if args are one of these.
/// commit: as run_program() has it.
std::optional<int> run_builtin(std::span<const std::string_view> args, std::string_view commit);

}  // namespace tessera::cli
