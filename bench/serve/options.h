// The command line of serve_load.
#pragma once

#include <span>
#include <string>

#include "bench/serve/scenario.h"

namespace tessera::load {

struct CommandLine {
  enum class Action { help, self_test, fake_server, run };
  Action action = Action::help;
  const Scenario* scenario = nullptr;  // of Action::run
  CommonOptions common;
  Parameters parameters;
};

/// Reads "SCENARIO --flag value ..." or "--flag=value ...".
Result<CommandLine> parse_command_line(std::span<const std::string> arguments);
/// Usage, the common flags, and every scenario with its flags.
std::string help_text();

}  // namespace tessera::load
