// Reads a text from the terminal: editing, history, search, completion, pasted blocks. The chat calls read() for each
// message.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/cli/edit_buffer.h"
#include "tessera/cli/edit_frame.h"
#include "tessera/cli/edit_keys.h"
#include "tessera/cli/line_history.h"
#include "tessera/cli/terminal.h"

namespace tessera::cli {

enum class LineKind : uint8_t {
  line,       // a text, perhaps empty or of several lines
  end,        // Ctrl-D on an empty line, or the end of input
  interrupt,  // Ctrl-C twice on an empty line
};

struct LineResult {
  LineKind kind = LineKind::line;
  std::string text;
};

/// Texts that may stand in place of the bytes from `begin` to the cursor.
struct Completion {
  size_t begin = 0;
  std::vector<std::string> candidates;
};

struct LineEditorOptions {
  std::string prompt_sgr;  // SGR parameters of the prompt, such as "1;34"; empty: no colour
  std::function<Completion(std::string_view text, size_t cursor)> complete;
  /// A text that is shown dimmed behind the edited one, and never sent.
  std::function<std::string(std::string_view text)> hint;
};

class LineEditor {
 public:
  /// Both live longer than the editor. It never adds to the history.
  LineEditor(Terminal& terminal, const LineHistory& history, LineEditorOptions options = {});

  /// Reads one text; `initial` is there to edit. The cursor stands at the start of a row. Afterwards it stands below the
  /// text, and the terminal is in watch mode. Errors: io.
  Result<LineResult> read(std::string_view prompt, std::string_view continuation_prompt, std::string_view initial = "");

 private:
  struct Search {
    std::string needle;
    size_t index;         // of the match
    bool is_found = true;
  };
  using Outcome = std::optional<LineResult>;

  Result<LineResult> run();
  Result<LineResult> read_plain();
  Result<Outcome> handle(TerminalEvent event);
  Result<Outcome> handle_key(const Key& key);
  Result<Outcome> act(EditAction action);
  bool act_on_buffer(EditAction action);
  Result<Outcome> act_on_screen(EditAction action);
  Outcome submit();
  Outcome interrupt();
  void paste(const Key& key);
  void break_line();
  void browse(bool is_older);
  bool search_key(const Key& key);
  void search_again(size_t before);
  void end_search(bool takes);
  void complete();
  void list_candidates(const std::vector<std::string>& candidates);
  Result<> edit_outside();
  Result<> draw(bool is_last = false);
  Result<> leave();
  EditFrame build_frame(int n_columns, bool is_last) const;
  void put_buffer(FrameBuilder& rows, const EditBuffer& buffer) const;
  std::string hint() const;

  Terminal& terminal_;
  const LineHistory& history_;
  LineEditorOptions options_;
  std::string prompt_, continuation_;
  EditBuffer buffer_;
  FrameWriter writer_;
  ScreenSize size_;
  size_t top_ = 0;                       // the first row that is shown of a text taller than the screen
  std::vector<std::string> below_;       // rows below the text: a message or candidates
  bool was_interrupted_ = false;         // the last key was Ctrl-C on an empty line
  std::optional<size_t> history_index_;  // of the entry that stands in the buffer
  EditBuffer::State draft_{};            // the typed text, while a history entry stands in the buffer
  std::string prefix_;                   // of the entries to browse
  std::optional<Search> search_;
};

/// True if a text that begins with """ lacks the closing """, or a line ends with an odd number of backslashes.
bool is_unfinished(std::string_view text);
/// The text without its """ marks and the line breaks next to them.
std::string without_quotes(std::string_view text);

}  // namespace tessera::cli
