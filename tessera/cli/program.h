// From argv to exit status: finds the command, parses its flags, runs it, and prints errors.
#pragma once

#include <string_view>

namespace tessera::cli {

/// Exit statuses of the program.
enum ExitStatus : int {
  kDone = 0,
  kRefused = 1,  // error in the data, the model or the machine
  kUsage = 2,    // error in the command line
  kInterrupted = 130,
};

/// Ctrl-C asks the running command to stop, and a second one ends the process. A file that shrinks while it is mapped
/// ends the process with a message. A closed pipe and a file at its size limit become errors of the write.
void install_signal_handlers();

/// From now on a file that shrinks while it is mapped does not end the process: what is computed from it fails.
void survive_lost_files();

/// Runs the program and returns its exit status. commit: the commit of the sources, for --version; may be empty.
int run_program(int argc, char** argv, std::string_view commit);

}  // namespace tessera::cli
