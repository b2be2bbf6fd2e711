// Progress on a terminal's stderr: a line that redraws itself, and disappears at the end.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::cli {

/// One line of a terminal. It is cut to the terminal's width, because a line that wraps cannot be redrawn.
class StatusLine {
 public:
  StatusLine() = default;
  ~StatusLine() { erase(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// The columns that a line may have.
  static int64_t max_columns();
  void draw(std::string_view line);
  void erase();

 private:
  bool is_drawn_ = false;
};

/// A progress bar, with the rate and the time left where the number of bytes is known.
class ProgressBar {
 public:
  /// hidden: draw nothing. n_bytes: of the whole work; 0: unknown.
  ProgressBar(std::string label, bool hidden, uint64_t n_bytes = 0);
  /// share: of the work, in [0, 1]. The first share may be what an earlier run has done.
  void update(float share);

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  bool hidden_;
  uint64_t n_bytes_;
  std::optional<float> first_share_{};
  Clock::time_point start_{}, drawn_at_{};
  int shown_percent_ = -1;
  StatusLine line_;
};

/// Bytes of a work: done in this run, and left.
struct ByteProgress {
  uint64_t n_done = 0, n_left = 0;
};

/// The time until all bytes are done, by the rate of this run. Nothing while the rate is not known.
std::optional<std::chrono::seconds> time_left(const ByteProgress& bytes, std::chrono::duration<double> elapsed);

/// ", 50.00 MB/s, 00:01:00 left", or "" while the rate is not known.
std::string rate_text(const ByteProgress& bytes, std::chrono::duration<double> elapsed);

/// "converting [##        ]  20%" and the rest. The bar has 40 columns, or fewer where the line would be too wide,
/// but 10.
std::string bar_line(std::string_view label, int percent, std::string_view rest, int64_t max_columns);

/// Returns the text, or "..." and its end, in at most n columns.
std::string end_within(std::string_view text, int64_t n);

}  // namespace tessera::cli
