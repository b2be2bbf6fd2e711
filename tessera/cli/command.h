// A command of the program: a row in commands.def and a file cmd_<name>.cpp. run_program() creates the command, parses
// its flags and runs it.
#pragma once

#include <memory>
#include <string_view>

#include "tessera/base/cancel.h"
#include "tessera/cli/args.h"

namespace tessera::cli {

/// Process-wide state that a command may use.
struct Context {
  CancelToken& interrupt;  // Ctrl-C
  bool quiet = false;      // -q: no logs, no progress
  bool verbose = false;    // -v
};

class Command {
 public:
  virtual ~Command() = default;
  /// Returns the flags, whose targets are members of this object.
  virtual FlagTable flags() = 0;
  /// Checks the flags together. An error is an error of the command line (status 2).
  virtual Result<> check() { return {}; }
  /// Runs the command. An error is an error of data, model or machine (status 1); cancelled: status 130.
  virtual Result<> run(Context& context) = 0;
};

struct CommandInfo {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Command> (*create)();
};

/// All commands, in the order of commands.def.
std::span<const CommandInfo> all_commands();

}  // namespace tessera::cli
