// From argv to exit status: finds the command, parses its flags, runs it, and says what went wrong.
#pragma once

#include <string_view>

namespace tessera::cli {

/// Exit statuses of the program.
enum ExitStatus : int {
  kDone = 0,
  kRefused = 1,  // the data, model or machine says no
  kUsage = 2,    // the command line is wrong
  kInterrupted = 130,
};

/// Ctrl-C asks the running command to stop, a second one ends the process; a file that shrinks while it is mapped
/// gets a message; a closed pipe and a file at its size limit are errors of the write.
void install_signal_handlers();

/// commit: of the source that was built, for --version; may be empty.
int run_program(int argc, char** argv, std::string_view commit);

}  // namespace tessera::cli
