// tessera bench --replay: the speed of a model that writes a given text, with and without speculation.
#pragma once

#include <string>

#include "tessera/cli/model_args.h"
#include "tessera/cli/speculation_args.h"

namespace tessera::cli {

struct ReplayBenchArgs {
  std::string path;       // of the text
  int64_t n_written = 0;  // tokens at its end that the model writes, the others are the prompt; 0: the second half
  int64_t n_repetitions = 5;
  bool is_json = false;
  SpeculationArgs speculation;

  /// Lets a model write the end of the text token by token, as if it had chosen it, in turns without and with guesses.
  /// Prints one row. Errors: invalid_argument (no kind of guesses, a text that is too short); io; those of the model;
  /// cancelled.
  Result<> run(ModelArgs model, const ContextArgs& context, Context& process) const;
};

}  // namespace tessera::cli
