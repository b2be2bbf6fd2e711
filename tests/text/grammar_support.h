// Shared by the tests of grammars.
#pragma once

#include <string>
#include <string_view>

#include "tessera/text/grammar/grammar.h"

namespace tessera::testing {

inline std::string error_of(const text::grammar::GrammarResult& grammar) {
  return grammar ? "no error" : grammar.error().text();
}

/// A text n times.
inline std::string repeated(std::string_view text, size_t n) {
  std::string all;
  all.reserve(text.size() * n);
  for (size_t i = 0; i < n; ++i) all += text;
  return all;
}

}  // namespace tessera::testing
