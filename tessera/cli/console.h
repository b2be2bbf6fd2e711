// What the program prints: results to stdout, everything else to stderr. A full disk or a closed pipe is an
// error, not a silent loss.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::cli {

/// Writes to stdout at once. Errors: io.
Result<> print(std::string_view text);
Result<> print_bytes(std::span<const std::byte> bytes);

/// stdout in large pieces, for results of many lines.
class Output {
 public:
  Result<> append(std::string_view text);
  /// Writes what is left; without it, that is lost.
  Result<> finish();

 private:
  std::string pending_;
};

/// Rows of cells as aligned columns, a line each. align has a letter per column: 'l' left, 'r' right.
std::string format_table(std::span<const std::vector<std::string>> rows, std::string_view align);

/// A line on stderr.
void log(std::string_view text);

/// True when stderr is a terminal: only then is progress drawn.
bool stderr_is_terminal();

/// "1.10 GB" in decimal units, as disks and models are sold.
std::string human_bytes(double bytes);

/// A progress bar on stderr that redraws itself and is gone when it ends.
class ProgressBar {
 public:
  /// hidden: draws nothing.
  ProgressBar(std::string label, bool hidden);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  void update(float share);

 private:
  std::string label_;
  bool hidden_;
  int shown_percent_ = -1;
};

}  // namespace tessera::cli
