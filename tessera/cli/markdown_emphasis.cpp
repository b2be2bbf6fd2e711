#include "tessera/cli/markdown_emphasis.h"

#include <algorithm>
#include <array>

#include "tessera/base/index.h"
#include "tessera/text/unicode.h"

namespace tessera::cli {

namespace {

// Letters and signs of Chinese, Japanese and Korean.
bool is_east_asian(uint32_t c) {
  return (c >= 0x2E80 && c <= 0x9FFF) || (c >= 0xAC00 && c <= 0xD7AF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0xFF00 && c <= 0xFFEF) || (c >= 0x20000 && c <= 0x3FFFF);
}

struct Side {
  bool is_space = true;
  bool is_punctuation = false;
  bool is_wide = false;
};

Side side_of(uint32_t c) {
  using text::Category;
  constexpr auto bits = [](auto... category) { return (text::bit_of(category) | ...); };
  constexpr uint32_t kPunctuation =
      bits(Category::pc, Category::pd, Category::pe, Category::pf, Category::pi, Category::po, Category::ps,
           Category::sc, Category::sk, Category::sm, Category::so);
  return {.is_space = text::is_white_space(c),
          .is_punctuation = (text::bit_of(text::category_of(c)) & kPunctuation) != 0,
          .is_wide = is_east_asian(c)};
}

Side side_before(std::string_view text) {
  if (text.empty()) return {};
  size_t n = 1;
  while (n < 4 && n < text.size() && (static_cast<uint8_t>(text[text.size() - n]) & 0xC0) == 0x80) ++n;
  return side_of(text::next_code_point(text.substr(text.size() - n)).code_point);
}

Side side_after(std::string_view text) {
  if (text.empty()) return {};
  return side_of(text::next_code_point(text).code_point);
}

// The runs from `bottom` on as a list from which runs are taken out.
class MarkMatcher {
 public:
  MarkMatcher(std::vector<MarkRun>& runs, std::vector<MarkPair>& pairs)
      : runs_(runs), pairs_(pairs), next_(runs.size() + 2), before_(runs.size() + 2) {
    for (size_t i = 0; i < next_.size(); ++i) {
      next_[i] = i + 1;
      before_[i] = i == 0 ? 0 : i - 1;
    }
  }

  void match() {
    const size_t end = runs_.size() + 1;
    for (size_t closer = 1; closer < end;) closer = run(closer).can_close ? close(closer) : next_[closer];
  }

 private:
  MarkRun& run(size_t i) { return runs_[i - 1]; }  // number 0 is the start of the list

  // Returns the next run to look at.
  size_t close(size_t closer) {
    MarkRun& close_run = run(closer);
    size_t& bottom = bottom_of(close_run);
    size_t opener = before_[closer];
    while (opener > bottom && !belong_together(run(opener), close_run)) opener = before_[opener];
    if (opener <= bottom) {
      bottom = before_[closer];
      const size_t next = next_[closer];
      if (!close_run.can_open) take_out(closer);
      return next;
    }
    MarkRun& open_run = run(opener);
    const size_t n = open_run.n_left >= 2 && close_run.n_left >= 2 ? 2 : 1;
    pairs_.push_back({open_run.piece, close_run.piece, close_run.mark, n});
    open_run.n_left -= n;
    close_run.n_left -= n;
    next_[opener] = closer;
    before_[closer] = opener;
    if (open_run.n_left == 0) take_out(opener);
    if (close_run.n_left > 0) return closer;
    const size_t next = next_[closer];
    take_out(closer);
    return next;
  }

  // No run up to this one is an opener for such a closer.
  size_t& bottom_of(const MarkRun& closer) {
    const size_t mark = closer.mark == '*' ? 0 : closer.mark == '_' ? 1 : 2;
    return bottoms_[(mark * 2 + (closer.can_open ? 1 : 0)) * 3 + closer.n_all % 3];
  }

  static bool belong_together(const MarkRun& opener, const MarkRun& closer) {
    if (opener.mark != closer.mark || !opener.can_open) return false;
    if (opener.mark == '~' || (!closer.can_open && !opener.can_close)) return true;
    return (opener.n_all + closer.n_all) % 3 != 0 || (opener.n_all % 3 == 0 && closer.n_all % 3 == 0);
  }

  void take_out(size_t i) {
    next_[before_[i]] = next_[i];
    before_[next_[i]] = before_[i];
  }

  std::vector<MarkRun>& runs_;
  std::vector<MarkPair>& pairs_;
  std::vector<size_t> next_, before_;
  std::array<size_t, 18> bottoms_{};
};

}  // namespace

// CommonMark's rules of flanking, but that punctuation beside a wide letter is no hindrance: their languages have no
// blanks between words.
MarkRun read_mark_run(std::string_view text, size_t at, std::string_view before) {
  const char mark = text[at];
  const size_t end = std::min(text.find_first_not_of(mark, at), text.size());
  const Side left = at == 0 ? side_before(before) : side_before(text.substr(0, at));
  const Side right = side_after(text.substr(end));
  const bool is_left_free = left.is_space || left.is_punctuation || (left.is_wide && mark != '_');
  const bool is_right_free = right.is_space || right.is_punctuation || (right.is_wide && mark != '_');
  const bool opens = !right.is_space && (!right.is_punctuation || is_left_free);
  const bool closes = !left.is_space && (!left.is_punctuation || is_right_free);
  MarkRun run{.mark = mark, .n_all = end - at, .n_left = end - at, .can_open = opens, .can_close = closes};
  if (mark == '_') {
    run.can_open = opens && (!closes || left.is_punctuation);
    run.can_close = closes && (!opens || right.is_punctuation);
  }
  if (mark == '~' && run.n_all != 2) run.can_open = run.can_close = false;
  return run;
}

std::vector<MarkRun> MarkStack::match(size_t bottom, std::vector<MarkPair>& pairs) {
  std::vector<MarkRun> runs(runs_.begin() + static_cast<std::ptrdiff_t>(bottom), runs_.end());
  runs_.resize(bottom);
  if (!runs.empty()) MarkMatcher(runs, pairs).match();
  return runs;
}

}  // namespace tessera::cli
