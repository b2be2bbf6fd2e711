// Reads text files as a stream of documents, for datasets and for training tokenizers. Files are read in pieces, so
// memory is a few MiB for any file size.
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

/// A document, or a part of a long document.
struct TextPiece {
  std::string_view text;  // any bytes; valid until the next piece is read
  bool begins_document = true;
  bool ends_document = true;
};

/// Returns the next piece, or nothing at the end of the text.
using TextSource = FunctionRef<Result<std::optional<TextPiece>>()>;

class TextReader {
 public:
  static constexpr size_t kMaxPieceBytes = size_t{1} << 20;

  /// separator: the text between two documents of a file, such as "<|endoftext|>", "\n\n" (blank lines) or "\n"
  /// (each line is a document). If it is empty, each file is one document. max_piece_bytes > 0.
  TextReader(std::vector<std::string> paths, std::string separator, size_t max_piece_bytes = kMaxPieceBytes)
      : paths_(std::move(paths)), separator_(std::move(separator)), max_piece_bytes_(max_piece_bytes) {}

  /// Returns the next piece of at most max_piece_bytes. Line ends at the beginning and end of a document are removed.
  /// Empty documents are skipped. A document that is too long is cut in front of a single space between two words. Its
  /// tokens then equal the tokens of the whole document for tokenizers whose words begin with their space. A piece
  /// without such a space is cut between two code points. Errors: the errors of File, with its path.
  Result<std::optional<TextPiece>> next();

 private:
  Result<> refill();

  std::vector<std::string> paths_;
  std::string separator_;
  size_t max_piece_bytes_;
  size_t n_opened_ = 0;  // number of paths opened so far
  std::optional<File> file_;
  uint64_t n_read_ = 0;  // bytes of the file
  std::string buffer_;
  size_t begin_ = 0;  // offset of the first byte in the buffer that was not returned yet
  bool in_document_ = false;
};

}  // namespace tessera::train
