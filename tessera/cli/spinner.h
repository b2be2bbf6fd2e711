// The sign of life while the first token of a reply is awaited. It reads no clock and writes to no file. `tessera chat`
// calls it.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/cli/view_options.h"

namespace tessera::cli {

/// Uses one row, at whose start the cursor stands. It appears 300 ms after begin_ms and changes every 100 ms.
class Spinner {
 public:
  Spinner(const ViewOptions& options, int64_t begin_ms) : options_(options), begin_ms_(begin_ms) {}

  /// The time at which frame() has something to write.
  int64_t next_frame_ms() const;
  /// Returns the bytes of the picture at this time, or "" if it has not changed. n_total tokens of the prompt are to be
  /// read, of which n_done are.
  std::string frame(int64_t now_ms, int64_t n_done, int64_t n_total);
  /// Returns the bytes that leave no trace of it.
  std::string erase();
  /// The terminal has another width. Returns the bytes that erase the spinner, which appears again with the next frame.
  std::string resize(int64_t n_columns);

 private:
  ViewOptions options_;
  int64_t begin_ms_;
  int64_t frame_ = -1;   // the number of the frame that is shown
  int64_t n_shown_ = 0;  // its columns
};

/// "1,234,567".
std::string grouped_digits(int64_t n);

}  // namespace tessera::cli
