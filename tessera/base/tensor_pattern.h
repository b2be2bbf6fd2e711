// A regular expression that picks tensors by name, from the command line. POSIX extended, with the \d, \w, \s and (?:
// of other dialects, in any case, matching anywhere in the name; what can take exponential time or memory is refused.
#pragma once

#include <memory>
#include <string_view>

#include "tessera/base/result.h"

namespace tessera {

class TensorPattern {
 public:
  /// Errors: invalid_argument, which says what is wrong with it.
  static Result<TensorPattern> compile(std::string_view pattern);

  bool matches(std::string_view name) const;

 private:
  struct Compiled;
  explicit TensorPattern(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace tessera
