#include "tessera/cli/markdown_inline.h"

#include <algorithm>
#include <array>

#include "tessera/base/index.h"
#include "tessera/cli/html_entities.h"
#include "tessera/cli/markdown_emphasis.h"
#include "tessera/cli/markdown_link.h"

namespace tessera::cli {

namespace {

constexpr size_t kNowhere = std::string_view::npos;

// How many constructs of each style a place opens or closes.
struct StyleSteps {
  int bold = 0, italic = 0, strike = 0, underline = 0;

  void add(const StyleSteps& steps) {
    bold += steps.bold;
    italic += steps.italic;
    strike += steps.strike;
    underline += steps.underline;
  }
  bool is_plain() const { return bold == 0 && italic == 0 && strike == 0 && underline == 0; }
};

StyleSteps steps_of(char mark, size_t n, int sign) {
  if (mark == '~') return {.strike = sign};
  return n == 2 ? StyleSteps{.bold = sign} : StyleSteps{.italic = sign};
}

// A piece of the result. The marks of emphasis are pieces too, since their meaning is known later.
struct InlinePiece {
  size_t source = 0;  // its place in the source
  std::string text;
  bool is_dim = false;
  bool is_plain = false;  // the text is that of the source, and a paragraph may be cut at its blanks
  StyleSteps before, after;
};

struct OpenBracket {
  size_t piece;
  size_t n_marks;  // on the stack of marks below it
  size_t source;   // behind the bracket
  bool is_image;
};

class InlineParser {
 public:
  InlineParser(std::string_view text, std::string_view before, const InlineOptions& options)
      : text_(text), before_(before), options_(options) {}

  void parse() {
    while (at_ < text_.size()) {
      const size_t next = std::min(text_.find_first_of("\\`*_~[]!<&$", at_), text_.size());
      if (next > at_) add_plain(next - at_);
      if (at_ < text_.size()) parse_mark(text_[at_]);
    }
    for (const OpenBracket& bracket : brackets_) note_open(pieces_[bracket.piece].source);
    for (const MarkRun& run : match_marks(0)) {
      if (run.can_open && run.n_left > 0) leave_open(run);
    }
  }

  std::vector<InlineRun> runs() const;
  size_t stable_bytes(bool gives_up_open) const;

 private:
  std::string_view rest() const { return text_.substr(at_); }
  void note_open(size_t source) { first_open_ = std::min(first_open_, source); }

  void parse_mark(char c) {
    switch (c) {
      case '\\':
        return parse_backslash();
      case '`':
        return parse_code();
      case '[':
        return open_bracket(1);
      case ']':
        return close_bracket();
      case '<':
        return parse_angle();
      case '&':
        return parse_entity();
      case '$':
        return parse_dollar();
      case '!':
        return text_.substr(at_, 2) == "![" ? open_bracket(2) : parse_literal(1);
      default:
        return parse_emphasis();
    }
  }

  // Text whose meaning does not depend on what stands around it.
  InlinePiece& add(size_t n_source, std::string_view text) {
    InlinePiece& piece = pieces_.emplace_back();
    piece.source = at_;
    piece.text = text;
    at_ += n_source;
    return piece;
  }
  void add_plain(size_t n_bytes) { add(n_bytes, text_.substr(at_, n_bytes)).is_plain = true; }
  // A character of markup that stands for itself. It may be the start of a construct that is still incomplete.
  void parse_literal(size_t n_bytes) {
    if (at_ + n_bytes == text_.size()) note_open(at_);
    add_plain(n_bytes);
  }

  void parse_emphasis() {
    MarkRun run = read_mark_run(text_, at_, before_);
    run.piece = pieces_.size();
    if (options_.is_partial && at_ + run.n_all == text_.size() && run.mark != '_') {
      add(run.n_all, "");
      return;
    }
    if (run.can_open || run.can_close) marks_.push(run);
    add(run.n_all, text_.substr(at_, run.n_all));
  }

  void parse_backslash();
  void parse_code();
  void parse_angle();
  void parse_entity();
  void parse_dollar();
  bool parse_formula(std::string_view open, std::string_view close, size_t kind);
  void open_bracket(size_t n_bytes);
  void close_bracket();
  std::vector<MarkRun> match_marks(size_t bottom);
  void leave_open(const MarkRun& run);
  TextStyle style_of(const StyleSteps& steps, const InlinePiece& piece) const;

  std::string_view text_, before_;
  InlineOptions options_;
  size_t at_ = 0;
  size_t first_open_ = kNowhere;
  std::vector<InlinePiece> pieces_;
  MarkStack marks_;
  std::vector<OpenBracket> brackets_;
  size_t n_dead_brackets_ = 0;        // a link holds no link: brackets around one are text
  std::array<bool, 33> n_marks_{};    // no run of so many backticks follows
  std::array<bool, 3> no_formula_{};  // no end of such a formula follows
};

void InlineParser::parse_backslash() {
  const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
  if (next == '\0') {
    note_open(at_);
    add(1, options_.is_partial ? "" : "\\");
  } else if (next == '\n') {
    add(2, "\n");
  } else if (next == '(' && parse_formula("\\(", "\\)", 0)) {
    return;
  } else if (next == '[' && parse_formula("\\[", "\\]", 1)) {
    return;
  } else if (is_markdown_punctuation(next)) {
    add(2, text_.substr(at_ + 1, 1));
  } else {
    add(1, "\\");
  }
}

// LaTeX is shown as it is. Returns false if its end does not follow.
bool InlineParser::parse_formula(std::string_view open, std::string_view close, size_t kind) {
  const size_t end = no_formula_[kind] ? kNowhere : text_.find(close, at_ + open.size());
  if (end == kNowhere) {
    no_formula_[kind] = true;
    note_open(at_);
    return false;
  }
  const size_t n = end + close.size() - at_;
  add(n, text_.substr(at_, n));
  return true;
}

// `$x$` is a formula if blanks and digits do not tell that these are prices.
void InlineParser::parse_dollar() {
  if (rest().starts_with("$$") && parse_formula("$$", "$$", 2)) return;
  const size_t end = text_.find_first_of("$\n", at_ + 1);
  const char first = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
  const bool may_open = first != ' ' && first != '\n' && first != '$' && (first < '0' || first > '9');
  if (!may_open) return parse_literal(1);
  if (end == kNowhere) note_open(at_);
  if (end == kNowhere || text_[end] == '\n' || text_[end - 1] == ' ') return parse_literal(1);
  if (end + 1 == text_.size()) note_open(at_);
  if (end + 1 < text_.size() && text_[end + 1] >= '0' && text_[end + 1] <= '9') return parse_literal(1);
  add(end + 1 - at_, text_.substr(at_, end + 1 - at_));
}

void InlineParser::parse_code() {
  const size_t n = std::min(text_.find_first_not_of('`', at_), text_.size()) - at_;
  const bool may_search = n < n_marks_.size() && !n_marks_[n];
  size_t end = kNowhere, n_found = 0;
  for (size_t i = at_ + n; may_search && end == kNowhere; i += n_found) {
    i = text_.find('`', i);
    if (i == kNowhere) break;
    n_found = std::min(text_.find_first_not_of('`', i), text_.size()) - i;
    if (n_found == n) end = i;
  }
  if (end == kNowhere) {
    if (may_search) n_marks_[n] = true;
    note_open(at_);
    add(n, text_.substr(at_, n));
    return;
  }
  if (end + n == text_.size()) note_open(at_);
  std::string code(text_.substr(at_ + n, end - at_ - n));
  std::ranges::replace(code, '\n', ' ');
  const bool is_blank = code.find_first_not_of(' ') == kNowhere;
  if (!is_blank && code.size() > 2 && code.front() == ' ' && code.back() == ' ') code = code.substr(1, code.size() - 2);
  const std::string_view mark = text_.substr(at_, n);
  add(n, mark).is_dim = true;
  add(end - at_, code);
  add(n, mark).is_dim = true;
}

void InlineParser::parse_angle() {
  const AngleText angle = read_angle_text(rest());
  if (angle.kind == AngleKind::open) note_open(at_);
  if (angle.kind == AngleKind::open || angle.kind == AngleKind::none) return add_plain(1);
  const std::string_view source = text_.substr(at_, angle.n_bytes);
  if (angle.kind == AngleKind::tag) {
    add(angle.n_bytes, source);
    return;
  }
  InlinePiece& piece = add(angle.n_bytes, source.substr(1, source.size() - 2));
  piece.before.underline = 1;
  piece.after.underline = -1;
}

void InlineParser::parse_entity() {
  const HtmlEntity entity = read_html_entity(rest());
  if (entity.n_bytes == 0) return add_plain(1);
  add(entity.n_bytes, entity.character);
}

void InlineParser::open_bracket(size_t n_bytes) {
  brackets_.push_back({pieces_.size(), marks_.size(), at_ + n_bytes, n_bytes == 2});
  add(n_bytes, text_.substr(at_, n_bytes));
}

void InlineParser::close_bracket() {
  if (brackets_.empty()) return parse_literal(1);
  const OpenBracket bracket = brackets_.back();
  brackets_.pop_back();
  const bool is_dead = brackets_.size() < n_dead_brackets_;
  n_dead_brackets_ = std::min(n_dead_brackets_, brackets_.size());
  if (is_dead && !bracket.is_image) return parse_literal(1);
  const size_t source = pieces_[bracket.piece].source;
  if (at_ + 1 == text_.size()) note_open(source);
  const LinkTarget target = read_link_target(text_.substr(at_ + 1));
  if (target.n_bytes == 0) {
    const bool may_follow = at_ + 1 < text_.size() && text_[at_ + 1] == '(' && text_.find('\n', at_) == kNowhere;
    if (may_follow) note_open(source);
    add_plain(1);
    return;
  }
  match_marks(bracket.n_marks);
  if (!bracket.is_image) n_dead_brackets_ = brackets_.size();
  const std::string_view label = text_.substr(bracket.source, at_ - bracket.source);
  pieces_[bracket.piece].text.clear();
  pieces_[bracket.piece].after.underline = 1;
  add(1, "").before.underline = -1;
  const bool is_shown = target.address != label && !target.address.empty();
  add(target.n_bytes, is_shown ? " (" + target.address + ")" : "").is_dim = true;
}

std::vector<MarkRun> InlineParser::match_marks(size_t bottom) {
  std::vector<MarkPair> pairs;
  std::vector<MarkRun> runs = marks_.match(bottom, pairs);
  for (const MarkRun& run : runs) pieces_[run.piece].text.resize(run.n_left);
  for (const MarkPair& pair : pairs) {
    InlinePiece &open = pieces_[pair.open_piece], &close = pieces_[pair.close_piece];
    if (pair.mark == '~' && !options_.has_colour) {
      open.text = close.text = "~~";
      continue;
    }
    open.after.add(steps_of(pair.mark, pair.n, 1));
    close.before.add(steps_of(pair.mark, pair.n, -1));
  }
  return runs;
}

// A mark that may find its end in later text. Until then, the text behind it is shown as if it had.
void InlineParser::leave_open(const MarkRun& run) {
  InlinePiece& piece = pieces_[run.piece];
  note_open(piece.source);
  if (!options_.is_partial || (run.mark == '_' && run.n_left < 2)) return;
  piece.text.clear();
  if (run.mark == '~' || run.n_left >= 2) piece.after.add(steps_of(run.mark, 2, 1));
  if (run.mark != '~' && run.n_left != 2) piece.after.add(steps_of(run.mark, 1, 1));
}

TextStyle InlineParser::style_of(const StyleSteps& steps, const InlinePiece& piece) const {
  TextStyle style = options_.base;
  style.bold |= steps.bold > 0;
  style.italic |= steps.italic > 0;
  style.strike |= steps.strike > 0;
  style.underline |= steps.underline > 0;
  style.dim |= piece.is_dim;
  return style;
}

std::vector<InlineRun> InlineParser::runs() const {
  std::vector<InlineRun> out;
  StyleSteps steps;
  for (const InlinePiece& piece : pieces_) {
    steps.add(piece.before);
    const TextStyle style = style_of(steps, piece);
    if (!piece.text.empty() && !out.empty() && out.back().style == style) {
      out.back().text += piece.text;
    } else if (!piece.text.empty()) {
      out.push_back({style, piece.text});
    }
    steps.add(piece.after);
  }
  return out;
}

size_t InlineParser::stable_bytes(bool gives_up_open) const {
  const size_t limit = gives_up_open ? kNowhere : first_open_;
  StyleSteps steps;
  size_t best = 0;
  for (const InlinePiece& piece : pieces_) {
    if (piece.source >= limit) break;
    steps.add(piece.before);
    if (piece.is_plain && steps.is_plain()) {
      const std::string_view text = std::string_view(piece.text).substr(0, limit - piece.source);
      const size_t at = text.find_last_of(" \n");
      if (at != kNowhere) best = piece.source + at;
    }
    steps.add(piece.after);
  }
  return best;
}

}  // namespace

std::vector<InlineRun> parse_inline(std::string_view text, std::string_view before, const InlineOptions& options) {
  InlineParser parser(text, before, options);
  parser.parse();
  return parser.runs();
}

size_t stable_inline_bytes(std::string_view text, std::string_view before, bool gives_up_open) {
  InlineParser parser(text, before, {});
  parser.parse();
  return parser.stable_bytes(gives_up_open);
}

}  // namespace tessera::cli
