// Flags of the sampler chain.
#pragma once

#include <string>
#include <string_view>

#include "tessera/cli/args.h"
#include "tessera/sample/params.h"

namespace tessera::cli {

/// The flag of a parameter of samplers.def: "--top-k" for "top_k".
std::string sampling_flag(std::string_view param);

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
