// Flags of the sampler chain.
#pragma once

#include <string>

#include "tessera/cli/args.h"
#include "tessera/sample/params.h"

namespace tessera::cli {

struct SamplingArgs {
  sample::SamplerParams params;
  std::string samplers, sampling_letters;
  bool ignore_eos = false;

  void add_to(FlagTable& table);
  /// Resolves the order of samplers and checks all parameters. Errors: invalid_argument.
  Result<> check();
  /// Returns the parameters, with a random seed if none was given.
  sample::SamplerParams seeded() const;
};

}  // namespace tessera::cli
