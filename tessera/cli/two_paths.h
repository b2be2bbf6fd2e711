// Arguments of commands that read one file and write another: split and merge.
#pragma once

#include <string>

#include "tessera/cli/command.h"

namespace tessera::cli {

struct TwoPaths {
  std::string in, out;

  /// Adds two positional arguments with these names in help.
  void add_to(FlagTable& table, std::string_view in_name, std::string_view out_name);
  /// Fails unless both were given. Errors: invalid_argument.
  Result<> check() const;

 private:
  std::string wanted_;  // "IN.gguf OUT_PREFIX"
};

}  // namespace tessera::cli
