#include "tessera/cli/reply_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "tessera/base/counted.h"
#include "tessera/cli/call_text.h"
#include "tessera/text/utf8.h"

namespace tessera::cli {

namespace {

constexpr int64_t kRefreshMs = 16;
constexpr int64_t kPauseMs = 200;  // a token of a slow model takes about as long
constexpr TextStyle kDimStyle = {.dim = true};

LiveRows make_live_rows(const ViewOptions& options) {
  const ViewSizes sizes(options);
  return LiveRows(sizes.n_columns, sizes.n_rows, options.has_colour);
}

std::vector<ScreenRow> wrap_message(std::string_view text, const TextStyle& style, const ViewOptions& options) {
  PlainText message(style, ViewSizes(options));
  message.feed(text);
  message.end();
  return message.take_rows();
}

std::string message_line(std::string_view text, const TextStyle& style, const ViewOptions& options) {
  if (options.markup == Markup::plain) return std::string(text) + '\n';
  LiveRows live = make_live_rows(options);
  std::string out = live.update(wrap_message(text, style, options), {});
  return out += live.finish();
}

}  // namespace

ReplyView::ReplyView(const ViewOptions& options) : options_(options), live_(make_live_rows(options)) {}

std::string ReplyView::reasoning(std::string_view piece, int64_t now_ms) {
  if (options_.thinking == ThinkingView::hide) return "";
  return add(Section::reasoning, piece, now_ms);
}

std::string ReplyView::content(std::string_view piece, int64_t now_ms) { return add(Section::content, piece, now_ms); }

std::string ReplyView::add(Section section, std::string_view piece, int64_t now_ms) {
  if (piece.empty()) return "";
  if (section_ != section) open_section(section);
  incomplete_ += piece;
  std::string text = std::exchange(incomplete_, {});
  const size_t n = text.size() - text::n_incomplete_bytes(text);
  incomplete_ = text.substr(n);
  text.resize(n);
  if (options_.markup == Markup::plain) return text;
  feed(text);
  piece_ms_ = now_ms;
  has_undrawn_ = true;
  if (drawn_ms_ && now_ms < *drawn_ms_ + kRefreshMs) return "";
  drawn_ms_ = now_ms;
  return draw(false);
}

void ReplyView::feed(std::string_view text) {
  if (blocks_) blocks_->feed(text);
  if (text_) text_->feed(text);
}

void ReplyView::open_section(Section section) {
  close_section();
  section_ = section;
  if (options_.markup == Markup::plain) return;
  const bool is_markdown = section == Section::content && options_.markup == Markup::styled;
  if (is_markdown) {
    blocks_.emplace(options_);
  } else {
    text_.emplace(section == Section::reasoning ? kDimStyle : TextStyle(), ViewSizes(options_));
  }
}

// A character without its end counts as bytes that are not UTF-8.
void ReplyView::close_section() {
  feed(std::exchange(incomplete_, {}));
  if (blocks_) blocks_->end();
  if (text_) text_->end();
  if (blocks_) add_rows(blocks_->take_rows());
  if (text_) add_rows(text_->take_rows());
  blocks_.reset();
  text_.reset();
  section_ = Section::none;
  needs_gap_ = has_rows_;
}

void ReplyView::add_rows(std::vector<ScreenRow> rows) {
  if (rows.empty()) return;
  if (std::exchange(needs_gap_, false)) final_rows_.emplace_back();
  has_rows_ = true;
  final_rows_.insert(final_rows_.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
}

std::string ReplyView::draw(bool shows_all) {
  std::vector<ScreenRow> open;
  if (blocks_) {
    add_rows(blocks_->take_rows());
    open = blocks_->open_rows(shows_all);
  } else if (text_) {
    add_rows(text_->take_rows());
    open = text_->open_rows();
  }
  if (needs_gap_ && !open.empty()) open.insert(open.begin(), ScreenRow());
  has_undrawn_ = false;
  may_hold_ = !shows_all;
  return live_.update(std::exchange(final_rows_, {}), open);
}

std::string ReplyView::end_reasoning(double seconds, int64_t n_tokens) {
  if (section_ == Section::reasoning) close_section();
  if (options_.thinking == ThinkingView::show || options_.markup == Markup::plain) return "";
  close_section();
  const std::string text = fmt::format("thought for {:.1f} s, {}", seconds, counted(n_tokens, "token"));
  add_rows(wrap_message(text, kDimStyle, options_));
  needs_gap_ = true;
  return draw(true);
}

std::string ReplyView::call(std::string_view name, std::string_view arguments) {
  std::string text = call_text(name, arguments);
  if (options_.markup == Markup::plain) return std::exchange(incomplete_, {}) + text + '\n';
  close_section();
  // Outside of strings, JSON may have line breaks. Inside, it has none.
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  const ViewSizes sizes(options_);
  ScreenRow indent;
  indent.append("  ", 2, {});
  WordWrap wrap(sizes.n_columns, WrapMode::words, {}, indent);
  const std::string_view shown = text;
  wrap.add(shown.substr(0, name.size()), {.bold = true});
  wrap.add(shown.substr(name.size()), {});
  wrap.end_line();
  add_rows(wrap.take_rows());
  needs_gap_ = true;
  return draw(true);
}

std::optional<int64_t> ReplyView::next_flush_ms() const {
  if (has_undrawn_) return drawn_ms_.value_or(piece_ms_) + kRefreshMs;
  if (may_hold_ && section_ != Section::none) return piece_ms_ + kPauseMs;
  return std::nullopt;
}

std::string ReplyView::flush(int64_t now_ms) {
  const auto due_ms = next_flush_ms();
  if (!due_ms || now_ms < *due_ms) return "";
  drawn_ms_ = now_ms;
  return draw(now_ms >= piece_ms_ + kPauseMs);
}

std::string ReplyView::finish() {
  if (options_.markup == Markup::plain) return std::exchange(incomplete_, {});
  close_section();
  std::string out = draw(true);
  needs_gap_ = has_rows_ = false;
  return out += live_.finish();
}

std::string ReplyView::resize(int64_t n_columns, int64_t n_rows) {
  options_.n_columns = n_columns;
  options_.n_rows = n_rows;
  if (options_.markup == Markup::plain) return "";
  const ViewSizes sizes(options_);
  std::string out = live_.resize(sizes.n_columns, sizes.n_rows);
  if (blocks_) blocks_->resize(options_);
  if (text_) text_->resize(sizes);
  return out += draw(!may_hold_);
}

std::string warning_line(std::string_view text, const ViewOptions& options) {
  return message_line(text, {.colour = TextColour::warning}, options);
}

std::string note_line(std::string_view text, const ViewOptions& options) {
  return message_line(text, kDimStyle, options);
}

}  // namespace tessera::cli
