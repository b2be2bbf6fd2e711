#include "tessera/text/template/text_tools.h"

#include <algorithm>

#include "tessera/base/index.h"
#include "tessera/text/template/characters.h"
#include "tessera/text/template/operators.h"
#include "tessera/text/unicode.h"

namespace tessera::text::jinja {
namespace {

// Characters that str.strip(chars) removes.
class CharacterSet {
 public:
  CharacterSet() : is_space_(true) {}
  explicit CharacterSet(std::string_view characters) {
    for (; !characters.empty(); characters.remove_prefix(next_code_point(characters).n_bytes))
      code_points_.push_back(next_code_point(characters).code_point);
    std::ranges::sort(code_points_);
  }
  bool contains(uint32_t code_point) const {
    return is_space_ ? is_space(code_point) : std::ranges::binary_search(code_points_, code_point);
  }

 private:
  bool is_space_ = false;
  std::vector<uint32_t> code_points_;
};

bool breaks_line(uint32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

// A run of blanks or a piece of a word: the units between which a line can break.
struct Chunk {
  size_t begin;
  size_t end;
  size_t n;  // code points
  bool is_space;
};

std::vector<Chunk> chunks_of(std::string_view text, size_t begin, size_t end, bool breaks_on_hyphens) {
  std::vector<Chunk> chunks;
  uint32_t before = 0, last = 0;
  for (size_t at = begin; at < end;) {
    const CodePointStep step = next_code_point(text.substr(at));
    const bool is_blank = is_space(step.code_point);
    // A hyphen between letters ends a chunk.
    const bool follows_hyphen = breaks_on_hyphens && last == '-' && is_letter(before) && is_letter(step.code_point);
    if (chunks.empty() || chunks.back().is_space != is_blank || follows_hyphen) chunks.push_back({at, at, 0, is_blank});
    at += step.n_bytes;
    chunks.back().end = at;
    ++chunks.back().n;
    before = last;
    last = step.code_point;
  }
  return chunks;
}

// Breaks one line of text into rows.
class RowBreaker {
 public:
  RowBreaker(std::string_view text, const WrapOptions& options, std::vector<ByteRange>& rows)
      : text_(text), options_(options), rows_(rows) {}

  void add(Chunk chunk) {
    if (n_ == 0 && chunk.is_space && has_rows_) return;  // no blanks at the start of a row
    if (n_ + chunk.n > options_.width && n_ > 0 && !chunk.is_space) end_row();
    if (n_ + chunk.n > options_.width && chunk.is_space) {
      end_row();
      return;
    }
    while (chunk.n > options_.width && options_.breaks_long_words) {
      const size_t n_bytes = code_point_offset(text_.substr(chunk.begin, chunk.end - chunk.begin), options_.width);
      append({chunk.begin, chunk.begin + n_bytes, options_.width, false});
      end_row();
      chunk.begin += n_bytes;
      chunk.n -= options_.width;
    }
    if (chunk.n > 0) append(chunk);
  }

  void end_row() {
    if (n_ == 0) return;
    const std::string_view row = text_.substr(begin_, end_ - begin_);
    rows_.push_back({begin_, end_ - trailing_space(row)});
    n_ = 0;
    has_rows_ = true;
  }

 private:
  void append(const Chunk& chunk) {
    if (n_ == 0) begin_ = chunk.begin;
    end_ = chunk.end;
    n_ += chunk.n;
  }

  std::string_view text_;
  const WrapOptions& options_;
  std::vector<ByteRange>& rows_;
  size_t begin_ = 0, end_ = 0, n_ = 0;
  bool has_rows_ = false;
};

}  // namespace

Result<Value> strip(Runtime& runtime, const Value& text, const Bound& bound, Sides sides) {
  CharacterSet set;
  if (bound.has_value(0)) {
    TESSERA_ASSIGN(const MarkedView characters, bound.text(0, ""));
    set = CharacterSet(characters.bytes);
  }
  const std::string_view bytes = text.bytes();
  size_t begin = 0, end = bytes.size();
  while (begin < end && (to_size(sides) & to_size(Sides::left)) != 0) {
    const CodePointStep step = next_code_point(bytes.substr(begin, end - begin));
    if (!set.contains(step.code_point)) break;
    begin += step.n_bytes;
  }
  while (begin < end && (to_size(sides) & to_size(Sides::right)) != 0) {
    const size_t n_bytes = last_code_point_bytes(bytes.substr(0, end));
    if (!set.contains(next_code_point(bytes.substr(end - n_bytes)).code_point)) break;
    end -= n_bytes;
  }
  TESSERA_TRY(runtime.spend_bytes(bytes.size() - (end - begin)));
  if (begin == 0 && end == bytes.size()) return text;
  return runtime.slice(text.as_text(), begin, end);
}

Result<size_t> width_of(const Bound& bound, size_t i, int64_t otherwise) {
  TESSERA_ASSIGN(const int64_t width, bound.integer(i, otherwise));
  return to_size(std::clamp<int64_t>(width, 0, int64_t{MarkedTextBuilder::kMaxBytes} + 1));
}

Result<std::vector<ByteRange>> split_lines(Runtime& runtime, std::string_view text, LineEnds ends) {
  TESSERA_TRY(runtime.spend_bytes(text.size()));
  std::vector<ByteRange> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePointStep step = next_code_point(text.substr(at));
    const size_t end = at;
    at += step.n_bytes;
    if (!breaks_line(step.code_point)) continue;
    if (step.code_point == '\r' && text.substr(at).starts_with('\n')) ++at;
    lines.push_back({begin, ends == LineEnds::kept ? at : end});
    begin = at;
  }
  if (begin < text.size()) lines.push_back({begin, text.size()});
  TESSERA_TRY(runtime.spend(lines.size()));
  return lines;
}

bool continues_word(uint32_t code_point) {
  constexpr uint32_t kNumbers = bit_of(Category::nd) | bit_of(Category::nl) | bit_of(Category::no);
  return code_point == '_' || is_letter(code_point) || (kNumbers & bit_of(category_of(code_point))) != 0;
}

Result<std::vector<ByteRange>> wrap_words(Runtime& runtime, std::string_view text, const WrapOptions& options) {
  TESSERA_ASSIGN(const std::vector<ByteRange> lines, split_lines(runtime, text, LineEnds::dropped));
  std::vector<ByteRange> rows;
  for (const ByteRange& line : lines) {
    const size_t n_before = rows.size();
    RowBreaker breaker(text, options, rows);
    for (const Chunk& chunk : chunks_of(text, line.begin, line.end, options.breaks_on_hyphens)) breaker.add(chunk);
    breaker.end_row();
    if (rows.size() == n_before) rows.push_back({line.begin, line.begin});
  }
  return rows;
}

}  // namespace tessera::text::jinja
