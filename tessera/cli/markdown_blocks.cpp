#include "tessera/cli/markdown_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/cli/cluster.h"
#include "tessera/text/utf8.h"

namespace tessera::cli {

namespace {

constexpr TextStyle kBlockMarkStyle = {.dim = true};
constexpr int64_t kMostRuleColumns = 60;
constexpr size_t kTabColumns = 4;

}  // namespace

MarkdownBlocks::MarkdownBlocks(const ViewOptions& options) : sizes_(options), has_colour_(options.has_colour) {}

// --- lines ---

void MarkdownBlocks::feed(std::string_view text) {
  while (!text.empty()) {
    const size_t n = std::min(text.find_first_of("\n\r\t"), text.size());
    if (n > 0) {
      if (std::exchange(has_return_, false)) add_to_line("\r");
      add_to_line(text.substr(0, n));
    }
    if (n < text.size()) add_character(text[n]);
    text.remove_prefix(std::min(n + 1, text.size()));
  }
}

// A line ends in "\n" or "\r\n". Another carriage return is a character, which is shown escaped.
void MarkdownBlocks::add_character(char c) {
  const bool had_return = std::exchange(has_return_, c == '\r');
  if (c == '\n') return end_line();
  if (had_return) add_to_line("\r");
  if (c == '\t') add_to_line(std::string(kTabColumns - n_line_columns_ % kTabColumns, ' '));
}

size_t MarkdownBlocks::line_limit() const {
  const size_t at = line_.find_first_not_of(' ');
  const bool is_row = leaf_ == Leaf::table || (at != std::string::npos && line_[at] == '|');
  return is_row ? kMostTableBytes : sizes_.n_line_bytes;
}

// A line is taken as a whole up to a limit. Then its start decides what it is, and the rest is added as it comes.
void MarkdownBlocks::add_to_line(std::string_view text) {
  n_line_columns_ +=
      to_size(std::ranges::count_if(text, [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
  while (!text.empty() && !is_streamed_) {
    const size_t n = std::min(text.size(), line_limit() - std::min(line_limit(), line_.size()));
    line_ += text.substr(0, n);
    text.remove_prefix(n);
    if (line_.size() < line_limit()) continue;
    process(std::exchange(line_, {}), false);
    is_streamed_ = true;
  }
  if (!text.empty()) stream(text);
}

void MarkdownBlocks::stream(std::string_view text) {
  if (leaf_ == Leaf::paragraph || leaf_ == Leaf::heading) return paragraph_.add(text);
  if (leaf_ == Leaf::fence || leaf_ == Leaf::indented || leaf_ == Leaf::formula) return code_.add(text, {});
  text.remove_prefix(n_indent(text));
  if (text.empty()) return;
  open_paragraph();
  has_text_ = true;
  paragraph_.add(text);
}

void MarkdownBlocks::end_line() {
  n_line_columns_ = 0;
  if (!std::exchange(is_streamed_, false)) return process(std::exchange(line_, {}), true);
  const bool is_code = leaf_ == Leaf::fence || leaf_ == Leaf::indented || leaf_ == Leaf::formula;
  if (is_code) code_.end_line();
}

void MarkdownBlocks::end() {
  if (std::exchange(has_return_, false)) add_to_line("\r");
  if (!line_.empty() || is_streamed_) end_line();
  close_leaf();
  close_containers(0);
}

std::vector<ScreenRow> MarkdownBlocks::take_rows() {
  collect();
  return std::exchange(rows_, {});
}

std::vector<ScreenRow> MarkdownBlocks::open_rows(bool shows_all) const {
  MarkdownBlocks copy = *this;
  copy.rows_.clear();
  // A long first line of a table is one row of it, so only the start is shown before the table is known.
  if (header_.size() > sizes_.n_line_bytes) {
    copy.header_.resize(to_size(sizes_.n_columns) / 2);
    copy.header_.resize(copy.header_.size() - text::n_incomplete_bytes(copy.header_));
  }
  if (!copy.line_.empty()) copy.show_unfinished_line(shows_all);
  copy.close_leaf(true);
  copy.close_containers(0);
  return std::exchange(copy.rows_, {});
}

// The start of a line, as far as it can be shown. A row of a table is not laid out before it is complete.
void MarkdownBlocks::show_unfinished_line(bool shows_all) {
  const bool is_delimiter = !header_.empty() && line_.find_first_not_of("|:- ") == std::string::npos;
  if (!shows_all && (may_be_block_mark(line_) || is_delimiter)) return;
  const bool is_long = line_.size() > to_size(sizes_.n_columns) && line_limit() == kMostTableBytes;
  if (leaf_ != Leaf::table && !is_long) return process(line_, true);
  WordWrap wrap(sizes_.n_columns, WrapMode::exact, leaf_rest_, leaf_rest_);
  wrap.add(std::string_view(line_).substr(0, 4 * to_size(sizes_.n_columns)), {});
  wrap.end_line();
  if (leaf_ != Leaf::none) close_leaf(true);
  rows_.push_back(wrap.take_rows().front());
}

void MarkdownBlocks::resize(const ViewOptions& options) {
  sizes_ = ViewSizes(options);
  if (std::max(leaf_first_.n_columns, leaf_rest_.n_columns) > sizes_.n_columns / 2) leaf_first_ = leaf_rest_ = {};
  if (leaf_ == Leaf::paragraph || leaf_ == Leaf::heading) paragraph_.resize(sizes_, leaf_first_, leaf_rest_);
  if (leaf_ == Leaf::table) table_.resize(sizes_, leaf_first_, leaf_rest_);
  if (leaf_ == Leaf::fence || leaf_ == Leaf::indented || leaf_ == Leaf::formula)
    code_.resize(sizes_.n_columns, leaf_first_, leaf_rest_);
}

// --- containers ---

// Returns the bytes that the start of `rest` must give to the container; npos: the line does not belong to it.
size_t MarkdownBlocks::match_container(const Container& container, std::string_view rest) const {
  const size_t indent = n_indent(rest);
  if (container.is_quote) {
    if (indent > 3 || indent == rest.size() || rest[indent] != '>') return std::string_view::npos;
    return indent + (rest.substr(indent + 1).starts_with(' ') ? 2 : 1);
  }
  if (indent == rest.size()) return std::min(indent, container.n_indent);
  if (indent >= container.n_indent) return container.n_indent;
  // Models indent lists inside numbered items by two blanks, where CommonMark asks for three.
  const bool is_nested =
      container.is_numbered && indent >= container.n_before + 2 && read_item(rest.substr(indent)).mark;
  return is_nested ? indent : std::string_view::npos;
}

size_t MarkdownBlocks::match_containers(std::string_view line, size_t& at) const {
  size_t n = 0;
  for (; n < containers_.size(); ++n) {
    const size_t n_bytes = match_container(containers_[n], line.substr(at));
    if (n_bytes == std::string_view::npos) break;
    at += n_bytes;
  }
  return n;
}

bool MarkdownBlocks::starts_block(std::string_view rest) const {
  const size_t indent = n_indent(rest);
  const std::string_view text = rest.substr(indent);
  if (text.empty()) return true;
  if (indent > 3) return false;
  return text[0] == '>' || read_item(text).mark != 0 || read_heading(text).level > 0 || read_fence(rest).mark != 0 ||
         is_rule_line(text);
}

void MarkdownBlocks::process(std::string_view line, bool is_whole) {
  size_t at = 0;
  const size_t n_matched = match_containers(line, at);
  const bool is_quote_closed = n_matched < containers_.size() && containers_[n_matched].is_quote;
  // Models often write code inside an item without its indent, so only the end of a quote ends it.
  const bool is_code = leaf_ == Leaf::fence || leaf_ == Leaf::formula;
  const bool hides_quote = std::any_of(containers_.begin() + static_cast<std::ptrdiff_t>(n_matched), containers_.end(),
                                       [](const Container& c) { return c.is_quote; });
  const std::string_view rest = line.substr(at);
  if (is_code && !hides_quote) return leaf_ == Leaf::fence ? add_code(rest, is_whole) : add_formula(rest, is_whole);
  if (is_blank_line(rest)) return process_blank(n_matched, is_quote_closed);
  if (n_matched < containers_.size()) {
    if (leaf_ == Leaf::paragraph && !starts_block(rest)) {
      if (!continue_paragraph(rest, is_whole)) add_text_line(rest, is_whole);
      return;
    }
    close_containers(n_matched);
  }
  at = open_containers(line, at);
  process_leaf(line.substr(at), is_whole);
}

void MarkdownBlocks::process_blank(size_t n_matched, bool is_quote_closed) {
  if (leaf_ == Leaf::indented) {
    ++n_blank_lines_;
  } else {
    close_leaf();
  }
  if (is_quote_closed) close_containers(n_matched);
  has_gap_ = true;
}

// Opens the quotes and items that begin on the line. Returns the place behind their marks.
size_t MarkdownBlocks::open_containers(std::string_view line, size_t at) {
  while (containers_.size() < kMostBlockNesting) {
    const std::string_view rest = line.substr(at);
    const size_t indent = n_indent(rest);
    const std::string_view text = rest.substr(indent);
    const bool is_paragraph = leaf_ == Leaf::paragraph;
    const ItemMark item = read_item(text);
    const bool is_item = item.mark != 0 && !is_rule_line(text);
    // Behind a paragraph there is no indented code, so a mark that is far to the right is one of a nested list.
    const bool is_nested = is_paragraph && is_item && !containers_.empty();
    if (text.empty() || (indent > 3 && !is_nested)) break;
    if (text[0] == '>') {
      at += indent + open_quote(text);
      continue;
    }
    const bool may_interrupt = !item.is_empty && (!item.is_numbered() || item.number == 1 || !containers_.empty());
    if (!is_item || (is_paragraph && !may_interrupt)) break;
    at += indent + open_item(text, item);
    containers_.back().n_before = indent;
    containers_.back().n_indent += indent;
  }
  return at;
}

size_t MarkdownBlocks::open_quote(std::string_view text) {
  close_leaf();
  write_gap();
  numbers_[containers_.size()].mark = 0;
  containers_.push_back({.is_quote = true, .marker = "│ ", .is_shown = true});
  numbers_[containers_.size()].mark = 0;
  return text.substr(1).starts_with(' ') ? 2 : 1;
}

size_t MarkdownBlocks::open_item(std::string_view text, const ItemMark& item) {
  close_leaf();
  write_gap();
  ListNumber& number = numbers_[containers_.size()];
  number = {item.mark, number.mark == item.mark ? number.next : item.number};
  const std::string marker = item.is_numbered() ? fmt::format("{}{} ", number.next, item.mark) : std::string("• ");
  ++number.next;
  const size_t n_content = item.is_empty ? item.n_mark + 1 : item.n_bytes;
  containers_.push_back({.is_numbered = item.is_numbered(), .n_indent = n_content, .marker = marker});
  numbers_[containers_.size()].mark = 0;
  return std::min(item.n_bytes, text.size());
}

// An item without content is a row with its marker.
void MarkdownBlocks::close_containers(size_t n_left) {
  if (n_left >= containers_.size()) return;
  close_leaf();
  if (has_hidden_marker()) {
    rows_.push_back(prefix(true));
    for (Container& container : containers_) container.is_shown = true;
    has_rows_ = true;
  }
  containers_.resize(n_left);
}

bool MarkdownBlocks::has_hidden_marker() const {
  return std::ranges::any_of(containers_, [](const Container& c) { return !c.is_shown; });
}

// The outer containers are left out where all of them together take more than half of a row.
ScreenRow MarkdownBlocks::prefix(bool shows_markers) const {
  int64_t n_all = 0;
  for (const Container& container : containers_) n_all += n_columns(container.marker);
  ScreenRow row;
  for (const Container& container : containers_) {
    const int64_t n = n_columns(container.marker);
    const bool is_left_out = n_all > sizes_.n_columns / 2;
    n_all -= is_left_out ? n : 0;
    if (is_left_out) continue;
    if (container.is_quote) {
      row.append(container.marker, n, kBlockMarkStyle);
    } else {
      row.append(shows_markers && !container.is_shown ? container.marker : std::string(to_size(n), ' '), n, {});
    }
  }
  return row;
}

void MarkdownBlocks::take_prefixes() {
  leaf_first_ = prefix(true);
  leaf_rest_ = prefix(false);
  for (Container& container : containers_) container.is_shown = true;
}

// An empty row between two blocks, with the bars of the quotes that hold both.
void MarkdownBlocks::write_gap() {
  collect();
  if (!std::exchange(has_gap_, false) || !has_rows_ || has_hidden_marker()) return;
  ScreenRow row = prefix(false);
  const bool is_empty = std::ranges::all_of(row.runs, [](const StyledRun& run) { return run.style == TextStyle(); });
  rows_.push_back(is_empty ? ScreenRow() : std::move(row));
}

// --- leaves ---

void MarkdownBlocks::open_leaf(Leaf leaf) {
  close_leaf();
  write_gap();
  numbers_[containers_.size()].mark = 0;
  take_prefixes();
  leaf_ = leaf;
  has_text_ = false;
  has_rows_ = true;
}

void MarkdownBlocks::close_leaf(bool is_partial) {
  flush_header();
  if (leaf_ == Leaf::paragraph || leaf_ == Leaf::heading) paragraph_.end(is_partial);
  if (leaf_ == Leaf::table) table_.end(is_partial);
  const bool is_code = leaf_ == Leaf::fence || leaf_ == Leaf::indented || leaf_ == Leaf::formula;
  if (is_code && !code_.is_line_start()) code_.end_line();
  collect();
  if (is_code) has_gap_ = true;
  leaf_ = Leaf::none;
}

void MarkdownBlocks::collect() {
  std::vector<ScreenRow> rows;
  if (leaf_ == Leaf::paragraph || leaf_ == Leaf::heading) rows = paragraph_.take_rows();
  if (leaf_ == Leaf::table) rows = table_.take_rows();
  if (leaf_ == Leaf::fence || leaf_ == Leaf::indented || leaf_ == Leaf::formula) rows = code_.take_rows();
  rows_.insert(rows_.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
}

void MarkdownBlocks::process_leaf(std::string_view rest, bool is_whole) {
  const size_t indent = n_indent(rest);
  const std::string_view text = rest.substr(indent);
  if (text.empty()) return;
  const bool is_row =
      leaf_ == Leaf::table && is_whole && !starts_block(rest) && text.find('|') != std::string_view::npos;
  if (is_row) return table_.add_row(text);
  if (leaf_ == Leaf::table) close_leaf();
  if (leaf_ == Leaf::paragraph && continue_paragraph(rest, is_whole)) return;
  if (indent > 3 && leaf_ != Leaf::paragraph) return add_indented(rest, is_whole);
  if (indent > 3) return add_text_line(text, is_whole);
  const HeadingMark heading = read_heading(text);
  if (heading.level > 0) return open_heading(text, heading, is_whole);
  const FenceMark fence = read_fence(rest);
  if (fence.mark != 0) return open_fence(fence);
  if (is_rule_line(text)) return open_rule();
  formula_end_ = formula_end(text);
  if (!formula_end_.empty()) {
    open_leaf(Leaf::formula);
    code_ = make_wrap(WrapMode::exact);
    return add_formula(text, is_whole);
  }
  add_text_line(text, is_whole);
}

// The second line of a table or the underline of a heading. Returns false if the line is another one.
bool MarkdownBlocks::continue_paragraph(std::string_view rest, bool is_whole) {
  if (is_whole && !header_.empty() && open_table(rest)) return true;
  flush_header();
  return is_whole && n_indent(rest) <= 3 && make_heading(rest);
}

bool MarkdownBlocks::open_table(std::string_view text) {
  std::vector<std::string> cells = split_cells(header_);
  auto aligns = read_delimiter_row(text);
  if (!aligns || aligns->size() != cells.size()) return false;
  header_.clear();
  const bool is_alone = !has_text_;
  if (has_text_) close_leaf();
  leaf_ = Leaf::table;
  table_ = MarkdownTable(std::move(cells), std::move(*aligns), inline_options(), sizes_);
  table_.set_prefixes(is_alone ? leaf_first_ : leaf_rest_, leaf_rest_);
  return true;
}

bool MarkdownBlocks::make_heading(std::string_view text) {
  const int level = text.size() > 1 ? underline_level(text) : 0;
  if (level == 0 || !has_text_ || !paragraph_.is_whole()) return false;
  const std::string source =
      (has_colour_ ? "" : std::string(to_size(level), '#') + " ") + std::string(paragraph_.source());
  paragraph_ = MarkdownParagraph(make_wrap(WrapMode::words), inline_options(true), sizes_);
  paragraph_.add(source);
  close_leaf();
  return true;
}

void MarkdownBlocks::open_paragraph() {
  open_leaf(Leaf::paragraph);
  paragraph_ = MarkdownParagraph(make_wrap(WrapMode::words), inline_options(), sizes_);
}

// A line with bars waits for the next one, which tells whether a table begins.
void MarkdownBlocks::add_text_line(std::string_view text, bool is_whole) {
  text.remove_prefix(n_indent(text));
  if (leaf_ != Leaf::paragraph) open_paragraph();
  flush_header();
  if (is_whole && text.find('|') != std::string_view::npos) {
    header_ = text;
    return;
  }
  if (std::exchange(has_text_, true)) paragraph_.add("\n");
  paragraph_.add(text);
}

void MarkdownBlocks::flush_header() {
  if (header_.empty()) return;
  if (std::exchange(has_text_, true)) paragraph_.add("\n");
  paragraph_.add(std::exchange(header_, {}));
}

void MarkdownBlocks::open_heading(std::string_view text, const HeadingMark& mark, bool is_whole) {
  open_leaf(Leaf::heading);
  InlineOptions options = inline_options(true);
  options.base.underline = mark.level == 1;
  paragraph_ = MarkdownParagraph(make_wrap(WrapMode::words), options, sizes_);
  if (!has_colour_) paragraph_.add(text.substr(0, mark.n_bytes));
  const std::string_view title = text.substr(mark.n_bytes);
  paragraph_.add(is_whole ? without_closing_marks(title) : title);
  if (is_whole) close_leaf();
}

void MarkdownBlocks::open_rule() {
  open_leaf(Leaf::none);
  const int64_t n = std::min(sizes_.n_columns - leaf_first_.n_columns, kMostRuleColumns);
  ScreenRow row = leaf_first_;
  for (int64_t i = 0; i < n; ++i) row.append("─", 1, kBlockMarkStyle);
  rows_.push_back(std::move(row));
}

// Fences are shown where no style tells code from text.
void MarkdownBlocks::open_fence(const FenceMark& fence) {
  has_gap_ = true;
  open_leaf(Leaf::fence);
  fence_ = fence;
  code_ = make_wrap(WrapMode::exact);
  const std::string_view title = has_colour_ ? fence.language : fence.source;
  if (title.empty()) return;
  code_.add(title, kBlockMarkStyle);
  code_.end_line();
}

void MarkdownBlocks::add_code(std::string_view rest, bool is_whole) {
  if (is_whole && closes_fence(rest, fence_)) {
    if (!has_colour_) code_.add(rest.substr(n_indent(rest)), kBlockMarkStyle);
    return close_leaf();
  }
  code_.add(rest.substr(std::min(n_indent(rest), fence_.n_indent)), {});
  if (is_whole) code_.end_line();
}

// The indent stays, for no other sign tells such code from text.
void MarkdownBlocks::add_indented(std::string_view rest, bool is_whole) {
  if (leaf_ != Leaf::indented) {
    open_leaf(Leaf::indented);
    code_ = make_wrap(WrapMode::exact);
    n_blank_lines_ = 0;
  }
  for (; n_blank_lines_ > 0; --n_blank_lines_) code_.end_line();
  has_gap_ = false;
  code_.add(rest, {});
  if (is_whole) code_.end_line();
}

// A formula is shown as it stands. A blank line ends it too, since its mark may be something else.
void MarkdownBlocks::add_formula(std::string_view text, bool is_whole) {
  if (is_blank_line(text)) {
    close_leaf();
    return;
  }
  const bool is_first = code_.is_line_start() && !std::exchange(has_text_, true);
  const std::string_view body = text.substr(0, text.find_last_not_of(' ') + 1);
  const bool is_end = body.ends_with(formula_end_) && (!is_first || body.size() > 2);
  code_.add(text, {});
  if (is_whole) code_.end_line();
  if (is_whole && is_end) {
    close_leaf();
    has_gap_ = false;
  }
}

}  // namespace tessera::cli
