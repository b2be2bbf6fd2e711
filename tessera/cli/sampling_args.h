// The flags of a chain of samplers.
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
  /// The parameters with a seed drawn if none was given.
  sample::SamplerParams seeded() const;
};

}  // namespace tessera::cli
