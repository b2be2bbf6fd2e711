// The 256 byte tokens <0x00> to <0xFF>, for small vocabularies of tests.
#pragma once

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "tests/support/small_vocab.h"

namespace tessera::testing {

inline std::vector<SmallToken> byte_tokens() {
  static const std::array<std::string, 256> names = [] {
    std::array<std::string, 256> all;
    for (size_t byte = 0; byte < all.size(); ++byte) all[byte] = fmt::format("<0x{:02X}>", byte);
    return all;
  }();
  std::vector<SmallToken> tokens;
  for (const std::string& name : names) tokens.push_back({name, 0, text::TokenType::byte});
  return tokens;
}

}  // namespace tessera::testing
