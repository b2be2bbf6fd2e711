// tessera bench --masks: the time that masks of JSON Schemas take.
#pragma once

#include <string>

#include "tessera/cli/command.h"
#include "tessera/text/grammar/json_spelling.h"

namespace tessera::cli {

struct MaskBenchArgs {
  std::string path;   // JSON lines: {"schema", "tests": [{"valid", "data"}]}
  std::string model;  // only its vocabulary is read
  text::grammar::JsonOutput output{};
  bool is_json = false;

  /// Measures the schemas of a file and prints the result. Errors: io; format (a line of the file); those of the model;
  /// cancelled.
  Result<> run(Context& process) const;
};

}  // namespace tessera::cli
