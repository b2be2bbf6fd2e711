// Styled text for the terminal: styles, runs and rows of the screen. The view of replies lays a reply out as rows, and
// LiveRows writes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::cli {

enum class TextColour : uint8_t { none, warning, user };

struct TextStyle {
  bool bold = false;
  bool dim = false;
  bool italic = false;
  bool underline = false;
  bool strike = false;
  TextColour colour = TextColour::none;

  bool operator==(const TextStyle&) const = default;
};

/// The control sequence that replaces the current style of a terminal by this one.
std::string style_sequence(const TextStyle& style);

/// Text of one style. It holds no control character, and n_columns is its width.
struct StyledRun {
  TextStyle style;
  std::string text;
  int64_t n_columns = 0;

  bool operator==(const StyledRun&) const = default;
};

/// One row of the screen. Neighbouring runs differ in style, so equal rows look the same.
struct ScreenRow {
  std::vector<StyledRun> runs;
  int64_t n_columns = 0;

  bool operator==(const ScreenRow&) const = default;
  void append(std::string_view text, int64_t n_text_columns, const TextStyle& style);
  void append(const ScreenRow& row);
  /// Appends text of any origin, with its control characters escaped.
  void append_visible(std::string_view text, const TextStyle& style);
};

}  // namespace tessera::cli
