#include "tessera/cli/run_args.h"

namespace tessera::cli {

void RunArgs::add_to(FlagTable& table) {
  model.add_to(table);
  prompt.add_to(table);
  auto& f = table.flags;
  f.push_back({"--predict",
               {"-n", "--n-predict"},
               "N",
               "tokens to generate; -1: until the text ends",
               "-1",
               true,
               set_integer(generate.n_predict, -1, INT32_MAX)});
  f.push_back({"--echo", {}, "", "print the prompt first", "", true, set_switch(echo)});
  f.push_back(
      {"--special", {"-sp"}, "", "print special tokens, and read them in the prompt", "", false, set_switch(special)});
  f.push_back({"--ids", {}, "", "print token ids instead of text", "", false, set_switch(print_ids)});
  f.push_back({"--keep",
               {},
               "N",
               "tokens of the prompt that a context shift keeps; -1: all",
               "0",
               false,
               set_integer(generate.n_keep, -1, kMaxContext)});
  f.push_back({"--context-shift",
               {},
               "",
               "when the context is full, forget its older half",
               "",
               false,
               set_switch(generate.context_shift)});
  context.add_to(table);
  sampling.add_to(table);
}

Result<> RunArgs::check() {
  TESSERA_TRY(model.check());
  TESSERA_TRY(prompt.check());
  TESSERA_TRY(context.check());
  TESSERA_TRY(sampling.check());
  generate.ignore_end = sampling.ignore_eos;
  generate.n_batch = context.n_batch;
  return {};
}

}  // namespace tessera::cli
