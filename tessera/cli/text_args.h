// The input text of a command: -p TEXT, -f FILE or stdin. run, plan and tokenize have these flags, among others.
#pragma once

#include <optional>
#include <string>

#include "tessera/cli/command.h"

namespace tessera::cli {

/// Reads a whole text file, or stdin if path is "". Errors: io; limit (64 MiB); cancelled.
Result<std::string> read_text(const std::string& path, const Context& process);

struct TextArgs {
  std::optional<std::string> text;
  std::string file;

  void add_to(FlagTable& table);
  Result<> check() const;
  /// Returns the given text, else the text of the file, else all of stdin. Errors: the errors of read_text().
  Result<std::string> read(const Context& process) const;
};

}  // namespace tessera::cli
