// Grapheme clusters of UTF-8 text and their width in columns of a terminal, and text without control characters. The
// line editor and the view of replies lay text out with these functions. No function here fails.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::cli {

/// One grapheme cluster (Unicode UAX 29): a letter with its marks, a whole emoji, a flag. n_columns is 0 to 2 for text
/// that a terminal may print. A control character, a bidi control, a line separator or an invalid byte is a cluster
/// with the width of its escape.
struct Cluster {
  std::string_view bytes;  // part of the text; empty only if the text is empty
  int n_columns = 0;
};

/// The cluster at the start or the end of a text. Both split a text in the same way. A cluster has at most 32 code
/// points; more marks begin another one.
Cluster first_cluster(std::string_view text);
Cluster last_cluster(std::string_view text);

/// The columns of visible(text).
int64_t n_columns(std::string_view text);

/// Returns text that contains no control sequence. It escapes C0 controls and DEL as ^C, invalid bytes as \x9b, and as
/// <U+009B>: C1 controls, bidi embeddings, overrides and isolates, line and paragraph separators. Characters in `keep`
/// ("\n\t") are not escaped.
std::string visible(std::string_view text, std::string_view keep = "");

/// True if visible() escapes the character or byte at the start of the text, which is not empty.
bool is_escaped(std::string_view text);

}  // namespace tessera::cli
