// The entry point: installs the signal handlers and calls run_program().
#include <csignal>

#include "commit.h"
#include "tessera/cli/program.h"

int main(int argc, char** argv) {
  tessera::cli::install_signal_handlers();
  return tessera::cli::run_program(argc, argv, TESSERA_COMMIT);
}
