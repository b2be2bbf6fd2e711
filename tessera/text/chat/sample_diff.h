// The common text of two renders of a template, in whole words and marks. family_probe.cpp finds the marks around calls
// with it.
#pragma once

#include <cstddef>
#include <string_view>

namespace tessera::text {

/// Returns the length of the longest common front (or back) of two texts that ends (or begins) outside of words and of
/// marks in brackets, such as <|end|> or [END], in both texts.
size_t common_front(std::string_view a, std::string_view b);
size_t common_back(std::string_view a, std::string_view b);

}  // namespace tessera::text
