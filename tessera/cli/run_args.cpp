#include "tessera/cli/run_args.h"

#include "tessera/engine/grammar_mask.h"

namespace tessera::cli {

void RunArgs::add_to(FlagTable& table) {
  model.add_to(table);
  prompt.add_to(table);
  table.common("--predict -n --n-predict", "N",
               "tokens to generate; -1: until the model ends the text, or 128 with a diffusion model",
               set_integer(generate.n_predict, -1, INT32_MAX));
  table.common("--echo", "", "print the prompt before the generated text", set_switch(echo));
  table.rare("--special -sp", "", "print special tokens, and read them in the prompt", set_switch(special));
  table.rare("--ids", "", "print token ids instead of text", set_switch(print_ids));
  table.rare("--keep", "N", "prompt tokens that a context shift keeps; -1: all",
             set_integer(generate.n_keep, -1, kMaxContext));
  table.rare("--context-shift", "", "when the context is full, drop its older half and continue",
             set_switch(generate.context_shift));
  grammar.add_to(table);
  table.rare("--no-forced-text", "", "also compute the tokens that a grammar leaves no choice about",
             set_switch(generate.forces_text, false));
  speculation.add_to(table);
  diffusion.add_to(table);
  context.add_to(table);
  add_tuning_flag(table, context);
  sampling.add_to(table);
}

Result<> RunArgs::check() {
  TESSERA_TRY(model.check());
  TESSERA_TRY(prompt.check());
  TESSERA_TRY(context.check());
  TESSERA_TRY(sampling.check());
  TESSERA_TRY(grammar.check());
  TESSERA_TRY(speculation.apply(model.options));
  TESSERA_TRY(diffusion.check());
  generate.ignore_end = sampling.ignore_eos;
  generate.n_batch = context.n_batch;
  return {};
}

Result<std::unique_ptr<sample::Chain>> RunArgs::create_chain(const LoadedModel& model,
                                                             const sample::SamplerParams& params) const {
  const auto& engine = model.engine;
  TESSERA_ASSIGN(auto chain,
                 sample::Chain::create(params, sampling_vocab(engine), static_cast<int32_t>(model.session->n_ctx())));
  TESSERA_ASSIGN(auto compiled, grammar.compile(&engine->vocab()));
  if (!compiled) return chain;
  TESSERA_ASSIGN(auto mask, GrammarMask::create(engine, mask_vocab(*engine), std::move(compiled)));
  chain->constrain(std::move(mask));
  return chain;
}

}  // namespace tessera::cli
