// The flags of a text generation. run acts on them; plan takes the same, so that a command line can be planned by
// changing its first word.
#pragma once

#include "tessera/cli/model_args.h"
#include "tessera/cli/sampling_args.h"
#include "tessera/cli/text_args.h"
#include "tessera/engine/generate.h"

namespace tessera::cli {

struct RunArgs {
  ModelArgs model{.may_be_bundled = true};
  TextArgs prompt;
  ContextArgs context;
  SamplingArgs sampling;
  GenerateOptions generate;  // what the other groups say about it is in it after check()
  bool echo = false;
  bool special = false;
  bool print_ids = false;

  void add_to(FlagTable& table);
  Result<> check();
};

}  // namespace tessera::cli
