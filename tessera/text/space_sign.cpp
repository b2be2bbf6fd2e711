#include "tessera/text/space_sign.h"

#include <algorithm>

namespace tessera::text {

void append_with_signs(std::string_view text, std::string& out) {
  for (const char c : text) {
    if (c == ' ') {
      out += kSpaceSign;
    } else {
      out += c;
    }
  }
}

void append_signed_piece(const Vocab& vocab, int32_t id, std::string& out) {
  const std::string_view text = vocab.text(id);
  if (vocab.type(id) == TokenType::byte) {
    out += static_cast<char>(vocab.byte_value(id));
    return;
  }
  if (!is_textual(vocab.type(id))) {
    out += text;
    return;
  }
  for (size_t begin = 0; begin < text.size();) {
    const size_t sign = std::min(text.find(kSpaceSign, begin), text.size());
    out += text.substr(begin, sign - begin);
    if (sign < text.size()) out += ' ';
    begin = sign + kSpaceSign.size();
  }
}

}  // namespace tessera::text
