// Texts that show what guesses of tokens are worth.
#pragma once

#include <string>

namespace tessera::cli {

/// About 250 words that hardly repeat each other.
std::string prose_text();
/// A table of records, twice: the second time with a few changed values, as an editor of code or data writes it.
std::string repeated_text();

}  // namespace tessera::cli
