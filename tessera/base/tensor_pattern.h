// A regular expression that selects tensors by name, from the command line. The syntax is POSIX extended plus \d, \w,
// \s and (?: of other dialects. It ignores case and matches anywhere in the name. Patterns that could need exponential
// time or memory are refused.
#pragma once

#include <memory>
#include <string_view>

#include "tessera/base/result.h"

namespace tessera {

class TensorPattern {
 public:
  /// Errors: invalid_argument, with a description of the problem.
  static Result<TensorPattern> compile(std::string_view pattern);

  bool matches(std::string_view name) const;

 private:
  struct Compiled;
  explicit TensorPattern(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace tessera
