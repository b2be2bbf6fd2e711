// The text of a line that is being edited and its cursor: moves, erasing, kill and yank, undo. The line editor applies
// keys to it and draws it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::cli {

/// Positions to which the cursor moves, and up to which text is erased.
enum class EditTarget : uint8_t {
  left,             // by a unit: a cluster or a block
  right,
  word_left,        // a word: letters, marks, digits and "_"
  word_right,
  blank_word_left,  // a word: all but blanks
  line_start,
  line_end,
  up,               // the same column in the line above; in the first line: no move
  down,
  text_start,
  text_end,
};

/// One element of the text: a grapheme cluster, a line break, or a block.
struct EditUnit {
  size_t n_bytes = 0;
  std::string shown;      // printable text; "\n" for a line break
  bool is_block = false;  // a pasted text, shown as "[12 lines]"
};

/// Text is valid UTF-8 but for marks, each of which stands for a block: a pasted text that moves and erases as a whole.
class EditBuffer {
 public:
  struct State {
    std::string text;
    size_t cursor;
  };

  /// The text with marks. Positions are byte offsets in it.
  const std::string& text() const { return text_; }
  size_t cursor() const { return cursor_; }
  bool has_blocks() const;

  /// The text with blocks in place of their marks.
  std::string full_text() const;

  /// The unit that begins at a position before the end.
  EditUnit unit_at(size_t position) const;

  /// Begins a new line: no undo, no blocks. The killed text stays.
  void reset(std::string_view text);

  /// The text with its marks, to come back to before the next reset().
  State state() const { return {text_, cursor_}; }
  void restore(const State& state);

  /// Replaces the whole text. The cursor is at its end.
  void assign(std::string_view text);

  void insert(std::string_view text);
  void insert_block(std::string text);
  /// Replaces the bytes [begin, end) and puts the cursor behind them.
  void replace(size_t begin, size_t end, std::string_view text);

  /// Replaces the block at the cursor, or the one before it, by its text. Returns false if there is none.
  bool expand_block();

  /// These return false if nothing changed.
  bool move(EditTarget target);
  bool erase(EditTarget target);
  /// Erases and keeps the text for yank(). Kills in a row join.
  bool kill(EditTarget target);
  bool yank();
  /// Swaps the units around the cursor, or the last two of the line.
  bool transpose();
  /// Takes back the last change. Characters typed in a row are one change.
  bool undo();

 private:
  enum class Step : uint8_t { other, typing, kill, vertical };

  size_t block_index(size_t position) const;
  size_t unit_bytes(size_t position) const;
  size_t unit_bytes_before(size_t position) const;
  size_t find(EditTarget target) const;
  size_t line_start(size_t position) const;
  size_t line_end(size_t position) const;
  size_t word_left(bool (*is_part)(std::string_view)) const;
  size_t word_right() const;
  size_t other_line(EditTarget target) const;
  int64_t column_of(size_t position) const;
  void record(Step step);
  void change(size_t begin, size_t end, std::string_view text);

  std::string text_;
  size_t cursor_ = 0;
  std::vector<std::string> blocks_;
  std::vector<State> undo_;
  size_t undo_bytes_ = 0;
  std::string killed_;
  int64_t goal_column_ = 0;  // of moves up and down in a row
  Step last_step_ = Step::other;
};

}  // namespace tessera::cli
