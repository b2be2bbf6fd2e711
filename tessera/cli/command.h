// A command of the program: a row in commands.def and a file cmd_<name>.cpp. main() makes the command, lets it list its
// flags, parses them, and runs it.
#pragma once

#include <memory>
#include <string_view>

#include "tessera/base/cancel.h"
#include "tessera/cli/args.h"

namespace tessera::cli {

/// What a command may use of the process.
struct Context {
  CancelToken& interrupt;  // Ctrl-C
  bool quiet = false;      // -q: no logs, no progress
  bool verbose = false;    // -v
};

class Command {
 public:
  virtual ~Command() = default;
  /// The flags, bound to this object.
  virtual FlagTable flags() = 0;
  /// What the flags together must satisfy; an error here is one of the command line (status 2).
  virtual Result<> check() { return {}; }
  /// Does it. An error here is one of data, model or machine (status 1); cancelled: status 130.
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
