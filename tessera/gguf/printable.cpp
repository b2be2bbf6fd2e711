#include "tessera/gguf/printable.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

namespace tessera {

namespace {

uint32_t byte_at(std::string_view text, size_t i) { return static_cast<unsigned char>(text[i]); }

bool is_continuation(std::string_view text, size_t i) { return i < text.size() && (byte_at(text, i) & 0xC0) == 0x80; }

// Length in bytes of the printable character at i. Returns 0 for control characters and for bytes that are not
// shortest-form UTF-8.
size_t printable_bytes(std::string_view text, size_t i) {
  const uint32_t lead = byte_at(text, i);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7F ? 1 : 0;
  const size_t n = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  uint32_t point = lead & (0x7Fu >> n);
  for (size_t k = 1; k < n; ++k) {
    if (!is_continuation(text, i + k)) return 0;
    point = point << 6 | (byte_at(text, i + k) & 0x3F);
  }
  const uint32_t shortest = n == 4 ? 0x10000 : n == 3 ? 0x800 : 0xA0;  // U+0080..9F are the C1 controls
  const bool is_surrogate = point >= 0xD800 && point <= 0xDFFF;
  return point < shortest || point > 0x10FFFF || is_surrogate ? 0 : n;
}

}  // namespace

std::string printable(std::string_view text, size_t max_bytes) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (out.size() >= max_bytes) return out + "...";
    const size_t n = printable_bytes(text, i);
    const char c = text[i];
    if (c == '\\')
      out += "\\\\";
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (n != 0)
      out += text.substr(i, n);
    else
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte_at(text, i));
    i += n != 0 ? n : 1;
  }
  return out;
}

std::string quote_name(std::string_view text) { return "'" + printable(text) + "'"; }

}  // namespace tessera
