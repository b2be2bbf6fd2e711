#include "tessera/cli/vocab_args.h"

#include "tessera/cli/console.h"
#include "tessera/cli/model_args.h"
#include "tessera/engine/vocab_loader.h"

namespace tessera::cli {

void VocabArgs::add_to(FlagTable& table, std::string_view json_help, std::string_view special_help) {
  add_model_flag(table, path);
  table.common("--json", "", std::string(json_help), set_switch(json));
  table.common("--special -sp", "", std::string(special_help), set_switch(special));
}

Result<> VocabArgs::check() const { return require_model(path); }

Result<std::unique_ptr<const text::Tokenizer>> VocabArgs::open(const Context& process) const {
  TESSERA_ASSIGN(const auto files, ModelFiles::open(path));
  TESSERA_ASSIGN(auto tokenizer, load_tokenizer(*files));
  for (const std::string& warning : tokenizer->warnings())
    if (!process.quiet) log("warning: " + warning);
  return tokenizer;
}

}  // namespace tessera::cli
