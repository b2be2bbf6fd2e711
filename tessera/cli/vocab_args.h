// The flags of the commands that need a model's vocabulary and nothing else: tokenize and detokenize.
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

  /// The help of --json and --special is the command's.
  void add_to(FlagTable& table, std::string_view json_help, std::string_view special_help);
  Result<> check() const;
  /// Reads the vocabulary of any model file, also one without weights, and logs what is odd about it.
  Result<std::unique_ptr<const text::Tokenizer>> open(const Context& process) const;
};

}  // namespace tessera::cli
