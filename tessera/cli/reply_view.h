// The view of one reply in a terminal: text goes in as it is generated, and bytes for the terminal come out. It reads
// no clock and writes to no file. `tessera chat` calls it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/cli/live_rows.h"
#include "tessera/cli/markdown_blocks.h"
#include "tessera/cli/plain_text.h"
#include "tessera/cli/view_options.h"

namespace tessera::cli {

/// Begins at the start of an empty row of the terminal. Times are of one clock that never goes back. No control
/// character of the text reaches the terminal unless the markup is plain.
class ReplyView {
 public:
  explicit ReplyView(const ViewOptions& options);

  /// Appends a piece and returns the bytes to write now: none within 16 ms of the last, for the pieces gather.
  std::string reasoning(std::string_view piece, int64_t now_ms);
  std::string content(std::string_view piece, int64_t now_ms);
  /// Ends the reasoning. If it is hidden, a line says how long it took.
  std::string end_reasoning(double seconds, int64_t n_tokens);
  /// Shows a call with its complete arguments, a JSON object.
  std::string call(std::string_view name, std::string_view arguments);

  /// The time at which flush() has something to write, unless a piece comes before.
  std::optional<int64_t> next_flush_ms() const;
  /// Returns the bytes for what has gathered, and after a pause of the text also for what is held back because it may
  /// become a mark.
  std::string flush(int64_t now_ms);
  /// Ends the reply. The cursor is then at the start of an empty row; plain markup adds no line break.
  std::string finish();
  /// The terminal has another size. Returns the bytes that lay the open rows out anew.
  std::string resize(int64_t n_columns, int64_t n_rows);

 private:
  enum class Section : uint8_t { none, reasoning, content };

  std::string add(Section section, std::string_view piece, int64_t now_ms);
  void open_section(Section section);
  void close_section();
  void feed(std::string_view text);
  void add_rows(std::vector<ScreenRow> rows);
  std::string draw(bool shows_all);

  ViewOptions options_;
  LiveRows live_;
  Section section_ = Section::none;
  std::optional<MarkdownBlocks> blocks_;  // of a section of Markdown
  std::optional<PlainText> text_;         // of another one
  std::string incomplete_;                // the start of a character
  std::vector<ScreenRow> final_rows_;     // not drawn yet
  bool has_rows_ = false;                 // the reply has a row
  bool needs_gap_ = false;                // an empty row stands before the next one
  std::optional<int64_t> drawn_ms_;       // when the last piece was drawn
  int64_t piece_ms_ = 0;                  // when the last piece came
  bool has_undrawn_ = false;
  bool may_hold_ = false;  // the last drawing left out what may become a mark
};

/// A message of one line or more between replies, at the start of an empty row: yellow, or dim. Its control characters
/// are escaped, it is wrapped at the width, and it ends with a line break.
std::string warning_line(std::string_view text, const ViewOptions& options);
std::string note_line(std::string_view text, const ViewOptions& options);

}  // namespace tessera::cli
