// Lines of stdin or of a file, one at a time, for commands that answer each line before they read the next.
#pragma once

#include <optional>
#include <string>

#include "tessera/base/cancel.h"
#include "tessera/base/result.h"

namespace tessera::cli {

class LineInput {
 public:
  /// Reads stdin.
  explicit LineInput(size_t max_line_bytes) : max_line_bytes_(max_line_bytes) {}
  /// Reads a file, or stdin if path is "". Errors: io; cancelled.
  static Result<LineInput> open(const std::string& path, size_t max_line_bytes, const CancelToken& cancel);
  LineInput(LineInput&& other) noexcept;
  LineInput& operator=(LineInput&&) = delete;
  ~LineInput();

  /// Returns the next line without its line break ("\n" or "\r\n"), or nothing at the end. Errors: io; limit (a longer
  /// line); cancelled (a signal interrupted the wait).
  Result<std::optional<std::string>> next(const CancelToken& cancel);

 private:
  Result<bool> fill(const CancelToken& cancel);  // false: the end

  size_t max_line_bytes_;
  int fd_ = 0;                  // stdin
  std::string name_ = "stdin";  // for errors
  std::string pending_;
  size_t begin_ = 0;       // of the unread bytes in pending_
  size_t n_searched_ = 0;  // of them without a line break
};

}  // namespace tessera::cli
