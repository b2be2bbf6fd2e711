// Flags of a text generation. run and plan share them, so changing the first word of a command line from run to plan
// plans it.
#pragma once

#include "tessera/cli/diffusion_args.h"
#include "tessera/cli/grammar_args.h"
#include "tessera/cli/model_args.h"
#include "tessera/cli/sampling_args.h"
#include "tessera/cli/speculation_args.h"
#include "tessera/cli/text_args.h"
#include "tessera/cli/tuning.h"
#include "tessera/engine/generate.h"

namespace tessera::cli {

struct RunArgs {
  ModelArgs model{.may_be_bundled = true};
  TextArgs prompt;
  ContextArgs context;
  SamplingArgs sampling;
  GrammarArgs grammar;
  SpeculationArgs speculation;
  DiffusionArgs diffusion;
  GenerateOptions generate;  // check() copies the related flags of the other groups into it
  bool echo = false;
  bool special = false;
  bool print_ids = false;

  void add_to(FlagTable& table);
  Result<> check();
  /// Calls tessera::cli::use_tuning() for these flags, before the model is opened.
  void use_tuning(const Context& process) { cli::use_tuning(model, context, speculation, process); }
  /// The sampler chain of a model, with the grammar. Errors: those of Chain::create(), of the grammar's source, and of
  /// GrammarMask::create().
  Result<std::unique_ptr<sample::Chain>> create_chain(const LoadedModel& model,
                                                      const sample::SamplerParams& params) const;
};

}  // namespace tessera::cli
