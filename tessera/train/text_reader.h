// Text files as a stream of documents, for datasets and for tokenizers in training. Files are read in pieces: memory is
// a few MiB whatever their size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/file.h"
#include "tessera/base/function_ref.h"
#include "tessera/base/result.h"

namespace tessera::train {

/// A document, or a part of one that is long.
struct TextPiece {
  std::string_view text;  // any bytes; valid until the next piece is asked for
  bool begins_document = true;
  bool ends_document = true;
};

/// The next piece; nothing at the end of the text.
using TextSource = FunctionRef<Result<std::optional<TextPiece>>()>;

class TextReader {
 public:
  static constexpr size_t kMaxPieceBytes = size_t{1} << 20;

  /// separator: what stands between two documents of a file, such as "<|endoftext|>" or "\n\n" (blank lines) or "\n"
  /// (every line is one); empty: a file is one document. max_piece_bytes > 0.
  TextReader(std::vector<std::string> paths, std::string separator, size_t max_piece_bytes = kMaxPieceBytes)
      : paths_(std::move(paths)), separator_(std::move(separator)), max_piece_bytes_(max_piece_bytes) {}

  /// The next piece of at most max_piece_bytes. Documents lose the line ends at their beginning and end; those that are
  /// empty then are left out. A document that is longer is cut in front of a single space between two words, so that
  /// its tokens are those of the whole for tokenizers whose words begin with their space; where a piece has no such
  /// space, between two code points. Errors: those of File, with its path.
  Result<std::optional<TextPiece>> next();

 private:
  Result<> refill();

  std::vector<std::string> paths_;
  std::string separator_;
  size_t max_piece_bytes_;
  size_t n_opened_ = 0;  // paths
  std::optional<File> file_;
  uint64_t n_read_ = 0;  // bytes of the file
  std::string buffer_;
  size_t begin_ = 0;  // of what is not given out yet in the buffer
  bool in_document_ = false;
};

}  // namespace tessera::train
