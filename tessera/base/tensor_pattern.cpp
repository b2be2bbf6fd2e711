#include "tessera/base/tensor_pattern.h"

#include <regex.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "tessera/base/index.h"

namespace tessera {

namespace {

constexpr size_t kMaxPatternBytes = 1024;
// Limit of the product of all repetition counts, because libc expands "{n}" into n copies.
constexpr uint64_t kMaxRepetitions = 4096;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The largest number within "{m,n}".
uint64_t count_repetitions(std::string_view braces) {
  uint64_t largest = 1;
  while (!braces.empty()) {
    uint64_t n = 0;
    const auto [end, error] = std::from_chars(braces.data(), braces.data() + braces.size(), n);
    if (error == std::errc::result_out_of_range) return kMaxRepetitions + 1;
    if (error == std::errc()) largest = std::max(largest, n);
    braces.remove_prefix(std::max<size_t>(1, to_size(end - braces.data())));
  }
  return largest;
}

Result<> check_cost(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes)
    return fail(ErrorCode::invalid_argument, "a pattern of {} bytes, limit {}", pattern.size(), kMaxPatternBytes);
  if (pattern.find('\0') != std::string_view::npos) return fail(ErrorCode::invalid_argument, "a pattern with a NUL");
  uint64_t product = 1;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\' && i + 1 < pattern.size() && is_digit(pattern[++i]))
      return fail(ErrorCode::invalid_argument, "'{}': a reference back to a group is not supported", pattern);
    if (pattern[i] != '{') continue;
    const std::string_view braces = pattern.substr(i + 1, pattern.substr(i + 1).find('}'));
    product *= std::min(count_repetitions(braces), kMaxRepetitions + 1);
    if (product > kMaxRepetitions)
      return fail(ErrorCode::invalid_argument, "'{}': repetitions multiply to {}, limit {}", pattern, product,
                  kMaxRepetitions);
  }
  return {};
}

// Translates syntax that POSIX lacks: \d, and (?: for a group.
std::string to_posix(std::string_view pattern) {
  std::string out;
  bool in_brackets = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view two = pattern.substr(i, 2);
    if (two == "\\d") {
      out += in_brackets ? "0-9" : "[0-9]";
      ++i;
    } else if (!in_brackets && two.size() == 2 && two[0] == '\\') {
      out += two;
      ++i;
    } else if (!in_brackets && pattern.substr(i, 3) == "(?:") {
      out += '(';
      i += 2;
    } else {
      // "]" right after "[" or "[^" is a member of the set.
      const bool is_first = i > 0 && (pattern[i - 1] == '[' || (i > 1 && pattern.substr(i - 2, 2) == "[^"));
      if (pattern[i] == '[') in_brackets = true;
      if (pattern[i] == ']' && !is_first) in_brackets = false;
      out += pattern[i];
    }
  }
  return out;
}

}  // namespace

struct TensorPattern::Compiled {
  regex_t regex{};
  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() { ::regfree(&regex); }
};

Result<TensorPattern> TensorPattern::compile(std::string_view pattern) {
  TESSERA_TRY(check_cost(pattern));
  auto compiled = std::make_unique<Compiled>();
  const std::string posix = to_posix(pattern);
  // When regcomp() fails, it frees its memory and leaves a structure that regfree() accepts.
  const int error = ::regcomp(&compiled->regex, posix.c_str(), REG_EXTENDED | REG_NOSUB | REG_ICASE);
  if (error != 0) {
    std::array<char, 128> text{};
    ::regerror(error, &compiled->regex, text.data(), text.size());
    return fail(ErrorCode::invalid_argument, "'{}' is not a regular expression: {}", pattern, text.data());
  }
  return TensorPattern(std::move(compiled));
}

bool TensorPattern::matches(std::string_view name) const {
  const std::string text(name);
  return ::regexec(&compiled_->regex, text.c_str(), 0, nullptr, 0) == 0;
}

}  // namespace tessera
