#include "tessera/cli/edit_buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/cli/cluster.h"
#include "tessera/text/unicode.h"
#include "tessera/text/utf8.h"

namespace tessera::cli {

namespace {

// A mark is a byte that UTF-8 never has, and 24 bits of the block's index in four bytes that begin no character.
constexpr char kBlockMark = '\xFF';
constexpr size_t kMarkBytes = 5;
constexpr size_t kMaxSnapshots = 1000;
constexpr size_t kMaxUndoBytes = size_t{32} << 20;

std::string block_mark(size_t index) {
  std::string mark(1, kBlockMark);
  for (unsigned shift = 0; shift < 24; shift += 6) mark += static_cast<char>(0x80 | ((index >> shift) & 0x3F));
  return mark;
}

bool is_mark(std::string_view unit) { return unit[0] == kBlockMark; }

bool is_word_unit(std::string_view unit) {
  if (is_mark(unit)) return false;
  static const uint32_t letters =
      text::category_mask("L") | text::category_mask("M") | text::category_mask("N") | text::category_mask("Pc");
  return (text::bit_of(text::category_of(text::next_code_point(unit).code_point)) & letters) != 0;
}

bool is_blank_unit(std::string_view unit) {
  return !is_mark(unit) && text::is_white_space(text::next_code_point(unit).code_point);
}

bool is_no_blank_unit(std::string_view unit) { return !is_blank_unit(unit); }

std::string block_label(std::string_view text) {
  const auto n_breaks = std::ranges::count(text, '\n') - (text.ends_with('\n') ? 1 : 0);
  if (n_breaks > 0) return fmt::format("[{} lines]", n_breaks + 1);
  const auto n_characters = std::ranges::count_if(text, [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
  return fmt::format("[{} characters]", n_characters);
}

}  // namespace

bool EditBuffer::has_blocks() const { return text_.find(kBlockMark) != std::string::npos; }

size_t EditBuffer::block_index(size_t position) const {
  size_t index = 0;
  for (size_t i = 0; i < 4; ++i) index |= (static_cast<uint8_t>(text_[position + 1 + i]) & size_t{0x3F}) << (6 * i);
  return index;
}

std::string EditBuffer::full_text() const {
  std::string full;
  for (size_t i = 0; i < text_.size();) {
    const size_t mark = std::min(text_.find(kBlockMark, i), text_.size());
    full.append(text_, i, mark - i);
    i = mark;
    if (mark == text_.size()) break;
    full += blocks_[block_index(mark)];
    i += kMarkBytes;
  }
  return full;
}

EditUnit EditBuffer::unit_at(size_t position) const {
  const std::string_view bytes = std::string_view(text_).substr(position, unit_bytes(position));
  if (is_mark(bytes)) return {bytes.size(), block_label(blocks_[block_index(position)]), true};
  if (bytes == "\t") return {bytes.size(), "    ", false};
  return {bytes.size(), visible(bytes, "\n"), false};
}

size_t EditBuffer::unit_bytes(size_t position) const {
  if (text_[position] == kBlockMark) return kMarkBytes;
  return first_cluster(std::string_view(text_).substr(position)).bytes.size();
}

size_t EditBuffer::unit_bytes_before(size_t position) const {
  const std::string_view before = std::string_view(text_).substr(0, position);
  if (position >= kMarkBytes && before[position - kMarkBytes] == kBlockMark) return kMarkBytes;
  return last_cluster(before).bytes.size();
}

void EditBuffer::reset(std::string_view text) {
  text_ = text::to_valid_utf8(text);
  cursor_ = text_.size();
  undo_.clear();
  undo_bytes_ = 0;
  last_step_ = Step::other;
  if (killed_.find(kBlockMark) == std::string::npos) blocks_.clear();
}

void EditBuffer::record(Step step) {
  undo_.push_back({text_, cursor_});
  undo_bytes_ += text_.size();
  while (undo_.size() > kMaxSnapshots || (undo_bytes_ > kMaxUndoBytes && undo_.size() > 1)) {
    undo_bytes_ -= undo_.front().text.size();
    undo_.erase(undo_.begin());
  }
  last_step_ = step;
}

void EditBuffer::change(size_t begin, size_t end, std::string_view text) {
  text_.replace(begin, end - begin, text);
  cursor_ = begin + text.size();
}

void EditBuffer::restore(const State& state) {
  record(Step::other);
  text_ = state.text;
  cursor_ = state.cursor;
}

void EditBuffer::assign(std::string_view text) { replace(0, text_.size(), text); }

void EditBuffer::insert(std::string_view text) {
  if (text.empty()) return;
  const bool is_word = text.size() <= 4 && !is_blank_unit(text);
  if (last_step_ != Step::typing || !is_word) record(is_word ? Step::typing : Step::other);
  change(cursor_, cursor_, text::to_valid_utf8(text));
}

void EditBuffer::insert_block(std::string text) {
  record(Step::other);
  change(cursor_, cursor_, block_mark(blocks_.size()));
  blocks_.push_back(text::to_valid_utf8(text));
}

void EditBuffer::replace(size_t begin, size_t end, std::string_view text) {
  record(Step::other);
  change(begin, end, text::to_valid_utf8(text));
}

bool EditBuffer::expand_block() {
  size_t at = cursor_;
  const bool is_at_cursor = at < text_.size() && text_[at] == kBlockMark;
  if (!is_at_cursor) at -= cursor_ > 0 ? unit_bytes_before(cursor_) : 0;
  if (at >= text_.size() || text_[at] != kBlockMark) return false;
  record(Step::other);
  const std::string block = blocks_[block_index(at)];
  change(at, at + kMarkBytes, block);
  return true;
}

bool EditBuffer::move(EditTarget target) {
  const bool is_vertical = target == EditTarget::up || target == EditTarget::down;
  if (is_vertical && last_step_ != Step::vertical) goal_column_ = column_of(cursor_);
  last_step_ = is_vertical ? Step::vertical : Step::other;
  return std::exchange(cursor_, find(target)) != cursor_;
}

bool EditBuffer::erase(EditTarget target) {
  const size_t to = find(target);
  if (to == cursor_) return false;
  record(Step::other);
  change(std::min(to, cursor_), std::max(to, cursor_), "");
  return true;
}

bool EditBuffer::kill(EditTarget target) {
  const size_t from = cursor_;
  size_t to = find(target);
  if (to == from && target == EditTarget::line_end && to < text_.size()) ++to;  // the line break itself
  if (to == from) return false;
  const std::string part = text_.substr(std::min(from, to), std::max(from, to) - std::min(from, to));
  if (last_step_ != Step::kill) killed_.clear();
  killed_ = to < from ? part + killed_ : killed_ + part;
  record(Step::kill);
  change(std::min(from, to), std::max(from, to), "");
  return true;
}

bool EditBuffer::yank() {
  if (killed_.empty()) return false;
  record(Step::other);
  change(cursor_, cursor_, killed_);
  return true;
}

bool EditBuffer::transpose() {
  size_t middle = cursor_;
  if (middle == line_end(middle) && middle > line_start(middle)) middle -= unit_bytes_before(middle);
  if (middle == line_start(middle) || middle == line_end(middle)) return false;
  const size_t begin = middle - unit_bytes_before(middle), end = middle + unit_bytes(middle);
  record(Step::other);
  change(begin, end, text_.substr(middle, end - middle) + text_.substr(begin, middle - begin));
  return true;
}

bool EditBuffer::undo() {
  if (undo_.empty()) return false;
  text_ = std::move(undo_.back().text);
  cursor_ = undo_.back().cursor;
  undo_bytes_ -= text_.size();
  undo_.pop_back();
  last_step_ = Step::other;
  return true;
}

size_t EditBuffer::line_start(size_t position) const {
  if (position == 0) return 0;
  const size_t found = text_.rfind('\n', position - 1);
  return found == std::string::npos ? 0 : found + 1;
}

size_t EditBuffer::line_end(size_t position) const { return std::min(text_.find('\n', position), text_.size()); }

size_t EditBuffer::word_left(bool (*is_part)(std::string_view)) const {
  const auto before = [&](size_t position) {
    return std::string_view(text_).substr(position - unit_bytes_before(position));
  };
  size_t at = cursor_;
  while (at > 0 && !is_part(before(at)) && !is_mark(before(at))) at -= unit_bytes_before(at);
  if (at > 0 && is_mark(before(at)) && !is_part(before(at))) return at - kMarkBytes;
  while (at > 0 && is_part(before(at))) at -= unit_bytes_before(at);
  return at;
}

size_t EditBuffer::word_right() const {
  const std::string_view text = text_;
  size_t at = cursor_;
  while (at < text.size() && !is_word_unit(text.substr(at)) && !is_mark(text.substr(at))) at += unit_bytes(at);
  if (at < text.size() && is_mark(text.substr(at))) return at + kMarkBytes;
  while (at < text.size() && is_word_unit(text.substr(at))) at += unit_bytes(at);
  return at;
}

int64_t EditBuffer::column_of(size_t position) const {
  int64_t column = 0;
  for (size_t at = line_start(position); at < position; at += unit_bytes(at)) column += n_columns(unit_at(at).shown);
  return column;
}

size_t EditBuffer::other_line(EditTarget target) const {
  const bool is_up = target == EditTarget::up;
  const size_t start = line_start(cursor_), end = line_end(cursor_);
  if (is_up ? start == 0 : end == text_.size()) return cursor_;
  size_t at = is_up ? line_start(start - 1) : end + 1;
  const size_t stop = line_end(at);
  for (int64_t column = 0; at < stop; at += unit_bytes(at)) {
    column += n_columns(unit_at(at).shown);
    if (column > goal_column_) break;
  }
  return at;
}

size_t EditBuffer::find(EditTarget target) const {
  switch (target) {
    case EditTarget::left: return cursor_ - (cursor_ > 0 ? unit_bytes_before(cursor_) : 0);
    case EditTarget::right: return cursor_ + (cursor_ < text_.size() ? unit_bytes(cursor_) : 0);
    case EditTarget::word_left: return word_left(is_word_unit);
    case EditTarget::word_right: return word_right();
    case EditTarget::blank_word_left: return word_left(is_no_blank_unit);
    case EditTarget::line_start: return line_start(cursor_);
    case EditTarget::line_end: return line_end(cursor_);
    case EditTarget::up:
    case EditTarget::down: return other_line(target);
    case EditTarget::text_start: return 0;
    case EditTarget::text_end: return text_.size();
  }
  return cursor_;
}

}  // namespace tessera::cli
