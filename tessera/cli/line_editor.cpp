#include "tessera/cli/line_editor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/cli/cluster.h"
#include "tessera/cli/external_editor.h"
#include "tessera/text/utf8.h"

namespace tessera::cli {

namespace {

constexpr std::string_view kQuotes = "\"\"\"";
constexpr size_t kMaxShownPasteBytes = 4000;  // a longer one stands as a block, even if it is one line
constexpr size_t kMinTextRows = 3;            // rows for the text, which candidates leave
constexpr std::string_view kClearScreen = "\x1b[H\x1b[2J";

std::string_view trim_end(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t\n") + 1);
}

bool ends_with_open_backslash(std::string_view text) {
  const size_t n_kept = text.find_last_not_of('\\') + 1;
  return (text.size() - n_kept) % 2 == 1;
}

bool is_open_quote(std::string_view text) {
  if (!text.starts_with(kQuotes)) return false;
  const std::string_view rest = trim_end(text.substr(kQuotes.size()));
  return !rest.ends_with(kQuotes);
}

std::string common_prefix(const std::vector<std::string>& texts) {
  std::string_view prefix = texts.front();
  for (const std::string& text : texts) {
    const auto end = std::ranges::mismatch(prefix, text).in1;
    prefix = prefix.substr(0, static_cast<size_t>(end - prefix.begin()));
  }
  while (!text::is_valid_utf8(prefix)) prefix.remove_suffix(1);
  return std::string(prefix);
}

}  // namespace

bool is_unfinished(std::string_view text) {
  if (text.starts_with(kQuotes)) return is_open_quote(text);
  return ends_with_open_backslash(text);
}

std::string without_quotes(std::string_view text) {
  if (!text.starts_with(kQuotes) || is_open_quote(text)) return std::string(text);
  std::string_view inside = trim_end(text);
  inside = inside.substr(kQuotes.size(), inside.size() - 2 * kQuotes.size());
  if (inside.starts_with('\n')) inside.remove_prefix(1);
  if (inside.ends_with('\n')) inside.remove_suffix(1);
  return std::string(inside);
}

LineEditor::LineEditor(Terminal& terminal, const LineHistory& history, LineEditorOptions options)
    : terminal_(terminal), history_(history), options_(std::move(options)), writer_(options_.prompt_sgr) {}

Result<LineResult> LineEditor::read(std::string_view prompt, std::string_view continuation_prompt,
                                    std::string_view initial) {
  prompt_ = visible(prompt);
  continuation_ = visible(continuation_prompt);
  if (terminal_.is_dumb()) return read_plain();
  TESSERA_TRY(terminal_.set_mode(TerminalMode::edit));
  buffer_.reset(initial);
  writer_.forget();
  top_ = 0;
  below_.clear();
  was_interrupted_ = false;
  history_index_.reset();
  search_.reset();
  size_ = terminal_.size();
  Result<LineResult> result = run();
  TESSERA_TRY(terminal_.set_mode(TerminalMode::watch));
  return result;
}

Result<LineResult> LineEditor::run() {
  bool is_drawn = false;
  while (true) {
    TESSERA_ASSIGN(TerminalEvent event, terminal_.wait(is_drawn ? -1 : 0));
    if (event.kind == TerminalEventKind::timeout) {  // no key waits: time to draw
      TESSERA_TRY(draw());
      is_drawn = true;
      continue;
    }
    is_drawn = false;
    TESSERA_ASSIGN(Outcome outcome, handle(std::move(event)));
    if (outcome) return std::move(*outcome);
  }
}

// A terminal without control sequences: whole lines, edited by the terminal itself.
Result<LineResult> LineEditor::read_plain() {
  std::string text;
  while (true) {
    TESSERA_TRY(terminal_.write(text.empty() ? prompt_ : continuation_));
    Result<std::string> line = terminal_.read_plain_line();
    if (!line && line.error().code() == ErrorCode::cancelled) return LineResult{LineKind::interrupt, ""};
    TESSERA_TRY(line);
    if (line->empty() && text.empty()) return LineResult{LineKind::end, ""};
    const bool is_last = !line->ends_with('\n');
    if (!is_last) line->pop_back();
    text += *line;
    if (is_last || !is_unfinished(text)) return LineResult{LineKind::line, without_quotes(text::to_valid_utf8(text))};
    if (!is_open_quote(text)) text.pop_back();  // the backslash
    text += '\n';
  }
}

Result<LineEditor::Outcome> LineEditor::handle(TerminalEvent event) {
  switch (event.kind) {
    case TerminalEventKind::key: return handle_key(event.key);
    case TerminalEventKind::interrupt: return interrupt();
    case TerminalEventKind::end: {
      static_cast<void>(leave());  // the terminal may be gone
      return Outcome(LineResult{LineKind::end, ""});
    }
    case TerminalEventKind::resumed:
      writer_.forget();
      size_ = terminal_.size();
      return Outcome();
    case TerminalEventKind::resize: {
      const ScreenSize size = terminal_.size();
      if (size == size_) return Outcome();
      size_ = size;
      TESSERA_TRY(terminal_.write(writer_.erase(size)));
      return Outcome();
    }
    case TerminalEventKind::timeout: break;
  }
  return Outcome();
}

Result<LineEditor::Outcome> LineEditor::handle_key(const Key& key) {
  const std::optional<EditAction> action = find_edit_action(key);
  below_.clear();
  if (action != EditAction::interrupt) was_interrupted_ = false;
  if (search_ && search_key(key)) return Outcome();
  if (key.code == KeyCode::paste) paste(key);
  const bool is_text = key.code == KeyCode::character && !key.has_alt && !key.has_ctrl;
  if (is_text) buffer_.insert(key.text);
  if (!action) return Outcome();
  const bool is_browsing = *action == EditAction::up || *action == EditAction::down || *action == EditAction::older ||
                           *action == EditAction::newer;
  if (!is_browsing) history_index_.reset();
  return act(*action);
}

Result<LineEditor::Outcome> LineEditor::act(EditAction action) {
  if (act_on_buffer(action)) return Outcome();
  switch (action) {
    case EditAction::submit: {
      Outcome outcome = submit();
      if (outcome) TESSERA_TRY(leave());
      return outcome;
    }
    case EditAction::erase_or_end:
      if (!buffer_.text().empty()) {
        buffer_.erase(EditTarget::right);
        return Outcome();
      }
      TESSERA_TRY(leave());
      return Outcome(LineResult{LineKind::end, ""});
    case EditAction::interrupt: {
      Outcome outcome = interrupt();
      if (outcome) TESSERA_TRY(leave());
      return outcome;
    }
    default: return act_on_screen(action);
  }
}

// Returns false for actions that concern more than the text.
bool LineEditor::act_on_buffer(EditAction action) {
  switch (action) {
    case EditAction::new_line: return buffer_.insert("\n"), true;
    case EditAction::left: return buffer_.move(EditTarget::left), true;
    case EditAction::right: return buffer_.move(EditTarget::right), true;
    case EditAction::word_left: return buffer_.move(EditTarget::word_left), true;
    case EditAction::word_right: return buffer_.move(EditTarget::word_right), true;
    case EditAction::line_start: return buffer_.move(EditTarget::line_start), true;
    case EditAction::line_end: return buffer_.move(EditTarget::line_end), true;
    case EditAction::text_start: return buffer_.move(EditTarget::text_start), true;
    case EditAction::text_end: return buffer_.move(EditTarget::text_end), true;
    case EditAction::erase_left: return buffer_.erase(EditTarget::left), true;
    case EditAction::erase_right: return buffer_.erase(EditTarget::right), true;
    case EditAction::kill_line_end: return buffer_.kill(EditTarget::line_end), true;
    case EditAction::kill_line_start: return buffer_.kill(EditTarget::line_start), true;
    case EditAction::kill_blank_word: return buffer_.kill(EditTarget::blank_word_left), true;
    case EditAction::kill_word_left: return buffer_.kill(EditTarget::word_left), true;
    case EditAction::kill_word_right: return buffer_.kill(EditTarget::word_right), true;
    case EditAction::yank: return buffer_.yank(), true;
    case EditAction::transpose: return buffer_.transpose(), true;
    case EditAction::undo: return buffer_.undo(), true;
    case EditAction::expand_block: return buffer_.expand_block(), true;
    default: return false;
  }
}

Result<LineEditor::Outcome> LineEditor::act_on_screen(EditAction action) {
  switch (action) {
    case EditAction::up:
      if (!buffer_.move(EditTarget::up)) browse(true);
      break;
    case EditAction::down:
      if (!buffer_.move(EditTarget::down)) browse(false);
      break;
    case EditAction::older: browse(true); break;
    case EditAction::newer: browse(false); break;
    case EditAction::search: search_ = Search{"", history_.size()}; break;
    case EditAction::complete: complete(); break;
    case EditAction::clear_screen:
      TESSERA_TRY(terminal_.write(kClearScreen));
      writer_.forget();
      break;
    case EditAction::external_editor: TESSERA_TRY(edit_outside()); break;
    case EditAction::suspend:
      TESSERA_TRY(leave());
      TESSERA_TRY(terminal_.suspend());
      writer_.forget();
      size_ = terminal_.size();
      break;
    default: break;
  }
  return Outcome();
}

LineEditor::Outcome LineEditor::submit() {
  const bool is_quoted = buffer_.text().starts_with(kQuotes);
  const bool is_at_end = buffer_.cursor() == buffer_.text().size();
  if (is_unfinished(buffer_.text()) && (is_quoted || is_at_end)) {
    break_line();
    return std::nullopt;
  }
  const std::string text = buffer_.full_text();
  return LineResult{LineKind::line, is_quoted ? without_quotes(text) : text};
}

void LineEditor::break_line() {
  if (!is_open_quote(buffer_.text())) buffer_.erase(EditTarget::left);  // the backslash
  buffer_.insert("\n");
}

LineEditor::Outcome LineEditor::interrupt() {
  search_.reset();
  history_index_.reset();
  if (!buffer_.text().empty()) {
    buffer_.assign("");
    return std::nullopt;
  }
  if (was_interrupted_) return LineResult{LineKind::interrupt, ""};
  was_interrupted_ = true;
  below_ = {"(Ctrl-C again or /bye to leave)"};
  return std::nullopt;
}

void LineEditor::paste(const Key& key) {
  std::string text = key.text;
  if (!text.empty() && text.find('\n') == text.size() - 1) text.pop_back();  // one line
  const bool is_block = text.find('\n') != std::string::npos || text.size() > kMaxShownPasteBytes;
  is_block ? buffer_.insert_block(std::move(text)) : buffer_.insert(text);
  if (key.is_cut) below_ = {fmt::format("(the pasted text was cut at {} MiB)", kMaxPasteBytes >> 20)};
}

// Puts an older or newer entry that begins with the typed text in the buffer. After the newest, the typed text returns.
void LineEditor::browse(bool is_older) {
  if (!history_index_ && !is_older) return;
  if (!history_index_) {
    draft_ = buffer_.state();
    prefix_ = buffer_.full_text();
  }
  const size_t index = history_index_.value_or(history_.size());
  const auto found = is_older ? history_.find_prefix_before(index, prefix_) : history_.find_prefix_after(index, prefix_);
  if (found) {
    history_index_ = found;
    buffer_.assign(history_.at(*found));
  } else if (!is_older) {
    history_index_.reset();
    buffer_.restore(draft_);
  }
}

// Returns false for a key that ends the search and then does its usual work.
bool LineEditor::search_key(const Key& key) {
  const std::optional<EditAction> action = find_edit_action(key);
  const bool is_text = key.code == KeyCode::character && !key.has_alt && !key.has_ctrl;
  if (is_text || key.code == KeyCode::paste) {
    search_->needle += key.text.substr(0, key.text.find('\n'));
    search_again(std::min(search_->index + 1, history_.size()));
  } else if (action == EditAction::search) {
    search_again(search_->index);
  } else if (action == EditAction::erase_left) {
    search_->needle.resize(search_->needle.size() - last_cluster(search_->needle).bytes.size());
    search_again(history_.size());
  } else if (key.code == KeyCode::escape || action == EditAction::external_editor || action == EditAction::interrupt) {
    end_search(false);
  } else {
    end_search(true);
    return action == EditAction::submit;
  }
  return true;
}

void LineEditor::search_again(size_t before) {
  const auto found = history_.find_part_before(before, search_->needle);
  search_->is_found = found.has_value();
  if (found) search_->index = *found;
}

void LineEditor::end_search(bool takes) {
  if (takes && search_->index < history_.size()) buffer_.assign(history_.at(search_->index));
  search_.reset();
}

void LineEditor::complete() {
  if (!options_.complete || buffer_.has_blocks()) return;
  const Completion found = options_.complete(buffer_.text(), buffer_.cursor());
  if (found.candidates.empty() || found.begin > buffer_.cursor()) return;
  const std::string common = common_prefix(found.candidates);
  const std::string_view typed = std::string_view(buffer_.text()).substr(found.begin, buffer_.cursor() - found.begin);
  if (common != typed && (common.size() > typed.size() || found.candidates.size() == 1))
    buffer_.replace(found.begin, buffer_.cursor(), common);
  if (found.candidates.size() > 1) list_candidates(found.candidates);
}

// Candidates in columns, as many as the screen has room for.
void LineEditor::list_candidates(const std::vector<std::string>& candidates) {
  constexpr int64_t kGap = 2;
  int64_t widest = 1;
  for (const std::string& text : candidates) widest = std::max(widest, n_columns(text));
  const size_t n_across = to_size(std::max<int64_t>(1, (size_.n_columns + kGap) / (widest + kGap)));
  const size_t n_most = to_size(std::max(1, size_.n_rows - 1));
  size_t n_rows = (candidates.size() + n_across - 1) / n_across;
  const bool is_cut = n_rows > n_most;
  if (is_cut) n_rows = std::max<size_t>(n_most - 1, 1);
  for (size_t row = 0; row < n_rows; ++row) {
    std::string line;
    for (size_t i = row * n_across; i < std::min((row + 1) * n_across, candidates.size()); ++i) {
      line += visible(candidates[i]);
      line.append(to_size(widest + kGap - n_columns(candidates[i])), ' ');
    }
    below_.emplace_back(trim_end(line));
  }
  if (is_cut) below_.push_back(fmt::format("... {} more", candidates.size() - n_rows * n_across));
}

Result<> LineEditor::edit_outside() {
  TESSERA_TRY(terminal_.write(writer_.erase(terminal_.size())));
  const Result<std::string> edited = edit_externally(terminal_, buffer_.full_text());
  size_ = terminal_.size();
  writer_.forget();
  if (edited) {
    if (*edited != buffer_.full_text()) buffer_.assign(*edited);
  } else {
    below_ = {visible(fmt::format("({})", edited.error().message()))};
  }
  return {};
}

std::string LineEditor::hint() const {
  if (!options_.hint || buffer_.has_blocks() || buffer_.cursor() != buffer_.text().size()) return "";
  return visible(options_.hint(buffer_.text()));
}

void LineEditor::put_buffer(FrameBuilder& rows, const EditBuffer& buffer) const {
  for (size_t at = 0; at < buffer.text().size();) {
    if (at == buffer.cursor()) rows.mark_cursor();
    const EditUnit unit = buffer.unit_at(at);
    at += unit.n_bytes;
    if (unit.shown == "\n") {
      rows.break_row();
      rows.put(continuation_, FrameStyle::prompt);
    } else {
      rows.put(unit.shown, unit.is_block ? FrameStyle::dim : FrameStyle::text);
    }
  }
  if (buffer.cursor() == buffer.text().size()) rows.mark_cursor();
}

EditFrame LineEditor::build_frame(int n_columns, bool is_last) const {
  FrameBuilder rows(n_columns);
  if (search_ && !is_last) {
    rows.put(fmt::format("({}: {}) ", search_->is_found ? "history" : "no match", visible(search_->needle)),
             FrameStyle::dim);
    EditBuffer match;
    if (search_->index < history_.size()) match.reset(history_.at(search_->index));
    const size_t at = match.text().find(search_->needle);
    while (at != std::string::npos && match.cursor() > at && match.move(EditTarget::left)) continue;
    put_buffer(rows, match);
    return rows.take();
  }
  rows.put(prompt_, FrameStyle::prompt);
  put_buffer(rows, buffer_);
  if (!is_last) rows.put_clipped(hint(), FrameStyle::dim);
  return rows.take();
}

Result<> LineEditor::draw(bool is_last) {
  EditFrame frame = build_frame(size_.n_columns, is_last);
  const size_t n_screen = to_size(std::max(size_.n_rows, 1));
  const size_t n_below = is_last ? 0 : std::min(below_.size(), n_screen - std::min({frame.rows.size(), kMinTextRows, n_screen}));
  clip_to_screen(frame, static_cast<int>(n_screen - n_below), top_);
  for (size_t i = 0; i < n_below; ++i) {
    FrameBuilder row(size_.n_columns);
    row.put_clipped(below_[i], FrameStyle::dim);
    EditFrame made = row.take();
    frame.rows.push_back(std::move(made.rows[0]));
  }
  return terminal_.write(writer_.draw(frame));
}

// Draws the text without hint and messages, and goes to the row below it.
Result<> LineEditor::leave() {
  const EditBuffer::State state = buffer_.state();
  buffer_.move(EditTarget::text_end);
  TESSERA_TRY(draw(true));
  const bool is_in_new_row = writer_.cursor_column() == 0;  // behind a full row
  buffer_.restore(state);
  writer_.forget();
  return is_in_new_row ? Result<>{} : terminal_.write("\r\n");
}

}  // namespace tessera::cli
