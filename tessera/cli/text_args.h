// The text that a command works on: -p TEXT, -f FILE or stdin. run, plan and tokenize have these flags.
#pragma once

#include <optional>
#include <string>

#include "tessera/cli/command.h"

namespace tessera::cli {

/// A whole text file; "" for stdin. Errors: io; limit (64 MiB); cancelled.
Result<std::string> read_text(const std::string& path, const Context& process);

struct TextArgs {
  std::optional<std::string> text;
  std::string file;

  void add_to(FlagTable& table);
  Result<> check() const;
  /// The text that was given, else the file's, else all of stdin. Errors: those of read_text().
  Result<std::string> read(const Context& process) const;
};

}  // namespace tessera::cli
