// Output of the program: results to stdout, everything else to stderr. A full disk or a closed pipe is an error, not a
// silent loss.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::cli {

/// Writes to stdout immediately. Errors: io.
Result<> print(std::string_view text);
Result<> print_bytes(std::span<const std::byte> bytes);

/// Buffers stdout in large pieces, for results of many lines.
class Output {
 public:
  Result<> append(std::string_view text);
  /// Writes the rest of the buffer. The destructor discards it.
  Result<> finish();

 private:
  std::string pending_;
};

/// Formats rows of cells as lines with aligned columns. align has a letter per column: 'l' left, 'r' right.
std::string format_table(std::span<const std::vector<std::string>> rows, std::string_view align);

/// The form of the lines of log().
struct LogStyle {
  bool has_time = false;   // seconds since the start of the process
  bool has_level = false;  // E, W or I, by the line's "error:" or "warning:"
  bool is_json = false;    // an object with "t", "level" and "message"
};
void set_log_style(const LogStyle& style);
/// Appends all lines of log() to a file too. Errors: io.
Result<> set_log_file(const std::string& path);

/// Writes lines to stderr. Control characters but line feeds and tabs become \xHH.
void log(std::string_view text);

/// True if stderr is a terminal. Progress is drawn only then.
bool stderr_is_terminal();

/// Returns "1.10 GB" in decimal units, the usual ones for disks and model files.
std::string human_bytes(double bytes);

}  // namespace tessera::cli
