// Help, version, man pages and completions. All of them come from the tables of commands and flags.
#pragma once

#include <optional>
#include <string>

#include "tessera/cli/command.h"

namespace tessera::cli {

enum class HelpRequest : uint8_t { none, common, all };

/// Adds the flags of every command: -h, --help-all, -q, -v.
void add_common_flags(FlagTable& table, Context& context, HelpRequest& help);

/// Returns the usage and the flags of one command: only the common ones, or all.
std::string help_text(const CommandInfo& command, const FlagTable& table, HelpRequest request);

/// Returns the list of commands, one per line.
std::string overview();

/// Handles --version, help [COMMAND], man [COMMAND] and completion SHELL, and returns the exit status. Returns nullopt
/// for other arguments. commit: see run_program().
std::optional<int> run_builtin(std::span<const std::string_view> args, std::string_view commit);

}  // namespace tessera::cli
