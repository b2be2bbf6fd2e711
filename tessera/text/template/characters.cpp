#include "tessera/text/template/characters.h"

#include "tessera/text/unicode.h"

namespace tessera::text::jinja {
namespace {

bool has_category(uint32_t code_point, uint32_t mask) { return (mask & bit_of(category_of(code_point))) != 0; }

bool is_continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0u) == 0x80; }

bool is_ascii_letter(uint32_t code_point) { return (code_point | 0x20) >= 'a' && (code_point | 0x20) <= 'z'; }

bool is_cased(uint32_t code_point) {
  if (code_point < 0x80) return is_ascii_letter(code_point);
  return has_category(code_point, bit_of(Category::lu) | bit_of(Category::ll) | bit_of(Category::lt));
}

// Characters that the rule of the final sigma skips (Unicode, section 3.13: Case_Ignorable, by category).
bool is_case_ignorable(uint32_t code_point) {
  constexpr uint32_t kIgnored =
      bit_of(Category::mn) | bit_of(Category::me) | bit_of(Category::cf) | bit_of(Category::lm) | bit_of(Category::sk);
  if (code_point < 0x80) return std::string_view("'.:^`").contains(static_cast<char>(code_point));
  return has_category(code_point, kIgnored) || code_point == 0xB7 || code_point == 0x2019;
}

constexpr uint32_t kSigma = 0x3A3, kFinalSigma = 0x3C2;

// Lower case of the characters of one text, in order.
class LowerCase {
 public:
  explicit LowerCase(std::string_view text) : rest_(text) {}

  void append(const CodePointStep& step, std::string& out) {
    rest_.remove_prefix(step.n_bytes);
    if (step.code_point < 0x80) {
      out += static_cast<char>(step.code_point | (is_ascii_letter(step.code_point) ? 0x20 : 0));
    } else if (step.code_point == kSigma && follows_cased_ && !is_followed_by_cased()) {
      append_utf8(kFinalSigma, out);
    } else {
      append_lower_case(step.code_point, out);
    }
    skip(step.code_point);
  }
  void skip(uint32_t code_point) {
    if (!is_case_ignorable(code_point)) follows_cased_ = is_cased(code_point);
  }
  void pass(const CodePointStep& step) {
    rest_.remove_prefix(step.n_bytes);
    skip(step.code_point);
  }

 private:
  bool is_followed_by_cased() const {
    std::string_view rest = rest_;
    while (!rest.empty()) {
      const CodePointStep step = next_code_point(rest);
      if (!is_case_ignorable(step.code_point)) return is_cased(step.code_point);
      rest.remove_prefix(step.n_bytes);
    }
    return false;
  }

  std::string_view rest_;
  bool follows_cased_ = false;
};

// f(step) for each character.
template <class F>
void for_each_code_point(std::string_view text, F f) {
  while (!text.empty()) {
    const CodePointStep step = next_code_point(text);
    f(step);
    text.remove_prefix(step.n_bytes);
  }
}

}  // namespace

bool is_space(uint32_t code_point) {
  if (code_point < 0x80)
    return code_point == ' ' || (code_point >= 9 && code_point <= 13) || (code_point >= 28 && code_point <= 31);
  return is_white_space(code_point);
}

size_t leading_space(std::string_view text) {
  size_t n = 0;
  while (n < text.size()) {
    const CodePointStep step = next_code_point(text.substr(n));
    if (!is_space(step.code_point)) break;
    n += step.n_bytes;
  }
  return n;
}

size_t last_code_point_bytes(std::string_view text) {
  size_t n = 1;
  while (n < text.size() && is_continuation(text[text.size() - n])) ++n;
  return n;
}

size_t trailing_space(std::string_view text) {
  size_t n = 0;
  while (n < text.size()) {
    const size_t n_last = last_code_point_bytes(text.substr(0, text.size() - n));
    if (!is_space(next_code_point(text.substr(text.size() - n - n_last)).code_point)) break;
    n += n_last;
  }
  return n;
}

bool is_printable(uint32_t code_point) {
  constexpr uint32_t kHidden = bit_of(Category::cc) | bit_of(Category::cf) | bit_of(Category::cs) |
                               bit_of(Category::co) | bit_of(Category::cn) | bit_of(Category::zl) |
                               bit_of(Category::zp) | bit_of(Category::zs);
  if (code_point < 0x7F) return code_point >= ' ';
  return !has_category(code_point, kHidden);
}

size_t count_code_points(std::string_view text) {
  size_t n = 0;
  for (const char byte : text) n += is_continuation(byte) ? 0 : 1;
  return n;
}

size_t code_point_offset(std::string_view text, size_t n) {
  size_t at = 0;
  for (; at < text.size(); ++at)
    if (!is_continuation(text[at]) && n-- == 0) break;
  return at;
}

bool is_upper(uint32_t code_point) { return has_category(code_point, bit_of(Category::lu)); }
bool is_lower(uint32_t code_point) { return has_category(code_point, bit_of(Category::ll)); }

bool is_letter(uint32_t code_point) {
  constexpr uint32_t kLetters =
      bit_of(Category::lu) | bit_of(Category::ll) | bit_of(Category::lt) | bit_of(Category::lm) | bit_of(Category::lo);
  return has_category(code_point, kLetters);
}

bool is_decimal_digit(uint32_t code_point) { return has_category(code_point, bit_of(Category::nd)); }

bool has_only_case(std::string_view text, bool (*is_wanted)(uint32_t), bool (*is_other)(uint32_t)) {
  bool has_wanted = false;
  for (; !text.empty(); text.remove_prefix(next_code_point(text).n_bytes)) {
    const uint32_t c = next_code_point(text).code_point;
    if (is_other(c)) return false;
    has_wanted = has_wanted || is_wanted(c);
  }
  return has_wanted;
}

std::string to_upper(std::string_view text) {
  std::string out;
  for_each_code_point(text, [&](const CodePointStep& step) {
    if (step.code_point >= 0x80) return append_upper_case(step.code_point, out);
    out += static_cast<char>(step.code_point & (is_ascii_letter(step.code_point) ? ~0x20u : ~0u));
  });
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  LowerCase lower(text);
  for_each_code_point(text, [&](const CodePointStep& step) { lower.append(step, out); });
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  LowerCase lower(text);
  for_each_code_point(text, [&](const CodePointStep& step) {
    if (!out.empty()) return lower.append(step, out);
    append_title_case(step.code_point, out);
    lower.pass(step);
  });
  return out;
}

std::string to_title(std::string_view text) {
  std::string out;
  LowerCase lower(text);
  bool is_inside = false;
  for_each_code_point(text, [&](const CodePointStep& step) {
    if (is_inside) {
      lower.append(step, out);
    } else {
      append_title_case(step.code_point, out);
      lower.pass(step);
    }
    is_inside = is_cased(step.code_point);
  });
  return out;
}

std::string swap_case(std::string_view text) {
  std::string out;
  LowerCase lower(text);
  for_each_code_point(text, [&](const CodePointStep& step) {
    if (is_upper(step.code_point)) return lower.append(step, out);
    append_upper_case(step.code_point, out);
    lower.pass(step);
  });
  return out;
}

}  // namespace tessera::text::jinja
