// A UTF-8 reader without tables. The lead byte determines the length and the valid range of the second byte (RFC 3629).
// That range excludes overlong forms, surrogates and values above U+10FFFF.
#include "tessera/text/utf8.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

namespace tessera::text {
namespace {

struct Lead {
  size_t n_bytes;  // 0: cannot start a code point
  uint8_t second_min = 0x80;
  uint8_t second_max = 0xBF;
};

Lead classify_lead(uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

}  // namespace

Utf8Step next_utf8(std::string_view text) {
  const Lead lead = classify_lead(static_cast<uint8_t>(text[0]));
  if (lead.n_bytes == 0) return {Utf8State::invalid, 1};
  for (size_t i = 1; i < lead.n_bytes; ++i) {
    if (i == text.size()) return {Utf8State::incomplete, i};
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint8_t min = i == 1 ? lead.second_min : uint8_t{0x80};
    const uint8_t max = i == 1 ? lead.second_max : uint8_t{0xBF};
    if (byte < min || byte > max) return {Utf8State::invalid, i};
  }
  return {Utf8State::valid, lead.n_bytes};
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Step step = next_utf8(text);
    if (step.state != Utf8State::valid) return false;
    text.remove_prefix(step.n_bytes);
  }
  return true;
}

size_t n_incomplete_bytes(std::string_view text) {
  for (size_t n = 1; n <= 3 && n <= text.size(); ++n) {
    const Utf8Step step = next_utf8(text.substr(text.size() - n));
    if (step.state == Utf8State::incomplete && step.n_bytes == n) return n;
  }
  return 0;
}

std::string to_valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = next_utf8(text);
    out += step.state == Utf8State::valid ? text.substr(0, step.n_bytes) : kReplacementCharacter;
    text.remove_prefix(step.n_bytes);
  }
  return out;
}

std::string quote_text(std::string_view text, size_t max_bytes) {
  std::string out = "\"";
  size_t n_done = 0;
  while (n_done < text.size()) {
    const std::string_view rest = text.substr(n_done);
    const Utf8Step step = next_utf8(rest);
    if (n_done + step.n_bytes > max_bytes) break;
    const auto first = static_cast<uint8_t>(rest[0]);
    const bool printable = step.state == Utf8State::valid && first >= 0x20 && first != 0x7F;
    for (const char c : rest.substr(0, step.n_bytes)) {
      if (printable) {
        out += c;
      } else {
        fmt::format_to(std::back_inserter(out), "\\x{:02X}", static_cast<uint8_t>(c));
      }
    }
    n_done += step.n_bytes;
  }
  out += n_done < text.size() ? "\"..." : "\"";
  return out;
}

}  // namespace tessera::text
