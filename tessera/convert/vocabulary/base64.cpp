#include "tessera/convert/vocabulary/base64.h"

#include <cstdint>

#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr size_t kBase64Group = 4;  // digits, for 3 bytes

constexpr int value_of_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

}  // namespace

Result<std::string> decode_base64(std::string_view text) {
  std::string_view digits = text;
  if (text.size() % kBase64Group == 0)
    for (int n_padding = 0; n_padding < 2 && digits.ends_with('='); ++n_padding) digits.remove_suffix(1);
  std::string bytes;
  bytes.reserve(digits.size() / kBase64Group * 3 + 2);
  uint32_t bits = 0;
  unsigned n_bits = 0;
  for (const char c : digits) {
    const int value = value_of_digit(c);
    if (value < 0) return fail(ErrorCode::format, "{}: no base64", text::quote_text(text));
    bits = (bits << 6 | static_cast<uint32_t>(value)) & 0xFFFF;
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    bytes += static_cast<char>(bits >> n_bits & 0xFF);
  }
  if (n_bits == 6 || (bits & ((1u << n_bits) - 1)) != 0)
    return fail(ErrorCode::format, "{}: no base64: bits are left", text::quote_text(text));
  return bytes;
}

}  // namespace tessera::convert
