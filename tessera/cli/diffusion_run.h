// The part of `tessera run` for diffusion models.
#pragma once

#include <string_view>

#include "tessera/cli/run_args.h"

namespace tessera::cli {

/// A run of a diffusion model as its flags and its file say.
struct DiffusionRun {
  DiffusionOptions options;
  SessionOptions session;
};

/// Plans a run for a prompt of n_prompt tokens; none: for a text that fills the context. The seed stays as it is.
/// Errors: unsupported (a flag that does not apply); limit (the text does not fit); those of diffusion_facts() and
/// plan_reveals().
Result<DiffusionRun> plan_diffusion(const RunArgs& args, const Engine& engine, std::optional<int64_t> n_prompt);

/// The tokens of a prompt. Errors: those of Tokenizer::tokenize().
Result<std::vector<int32_t>> tokenize_prompt(const RunArgs& args, const Engine& engine, std::string_view prompt);

/// Loads an opened model and prints a text. Errors: those of plan_diffusion(), load_session() and DiffusionGenerator;
/// io; cancelled.
Result<> run_diffusion(const RunArgs& args, LoadedModel& model, const std::string& prompt, Context& process);

}  // namespace tessera::cli
