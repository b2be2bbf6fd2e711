// Flags of a text generation. run and plan share them, so changing the first word of a command line from run to plan
// plans it.
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
  GenerateOptions generate;  // check() copies the related flags of the other groups into it
  bool echo = false;
  bool special = false;
  bool print_ids = false;

  void add_to(FlagTable& table);
  Result<> check();
};

}  // namespace tessera::cli
