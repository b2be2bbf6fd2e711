// Flags of the commands that need only a model's vocabulary: tokenize and detokenize.
#pragma once

#include <memory>
#include <string>

#include "tessera/cli/command.h"
#include "tessera/text/tokenizer.h"

namespace tessera::cli {

struct VocabArgs {
  std::string path;
  bool json = false;
  bool special = false;

  /// The command provides the help of --json and --special.
  void add_to(FlagTable& table, std::string_view json_help, std::string_view special_help);
  Result<> check() const;
  /// Reads the vocabulary of a model file, also of one without weights, and logs its oddities.
  Result<std::unique_ptr<const text::Tokenizer>> open(const Context& process) const;
};

}  // namespace tessera::cli
