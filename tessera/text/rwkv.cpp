// Greedy longest match over bytes. GGUF files store the tokens in Python's notation of bytes: \n, \x00, \\ and so on.
#include "tessera/text/rwkv.h"

#include <utility>

#include "tessera/base/index.h"
#include "tessera/text/string_pool.h"
#include "tessera/text/token_trie.h"
#include "tessera/text/utf8.h"

namespace tessera::text {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Decodes Python's byte notation. A backslash that starts no known escape represents itself.
std::string unescape(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = i + 1 < text.size() ? text[i + 1] : '\0';
    if (text[i] != '\\' || c == '\0') {
      out += text[i];
    } else if (c == 'x' && i + 3 < text.size() && hex_value(text[i + 2]) >= 0 && hex_value(text[i + 3]) >= 0) {
      out += static_cast<char>(hex_value(text[i + 2]) * 16 + hex_value(text[i + 3]));
      i += 3;
    } else if (const size_t which = std::string_view("ntr\\'\"").find(c); which != std::string_view::npos) {
      out += "\n\t\r\\'\""[which];
      ++i;
    } else {
      out += '\\';
    }
  }
  return out;
}

class RwkvTokenizer final : public Tokenizer {
 public:
  explicit RwkvTokenizer(std::shared_ptr<const Vocab> vocab) : Tokenizer(std::move(vocab)) {}

  Result<> prepare();

  void append_piece(int32_t id, std::string& out) const override { out += bytes_[to_size(id)]; }

 protected:
  Result<> encode(std::string_view text, bool after_special, std::vector<int32_t>& out) const override;

 private:
  StringPool bytes_;  // of every token
  TokenTrie trie_;
};

Result<> RwkvTokenizer::prepare() {
  for (size_t i = 0; i < vocab().n_tokens(); ++i) {
    const auto id = static_cast<int32_t>(i);
    switch (vocab().type(id)) {
      case TokenType::byte: {
        const char byte = static_cast<char>(vocab().byte_value(id));
        bytes_.add({&byte, 1});
        break;
      }
      case TokenType::control:
      case TokenType::unknown:
      case TokenType::user_defined:
        bytes_.add(vocab().text(id));
        break;
      default:
        bytes_.add(unescape(vocab().text(id)));
        break;
    }
  }
  std::vector<TokenTrie::Entry> entries;
  for (size_t i = 0; i < vocab().n_tokens(); ++i) {
    const TokenType type = vocab().type(static_cast<int32_t>(i));
    if (is_textual(type) || type == TokenType::byte) entries.push_back({bytes_[i], static_cast<int32_t>(i)});
  }
  TESSERA_ASSIGN(trie_, TokenTrie::create(std::move(entries)));
  return {};
}

Result<> RwkvTokenizer::encode(std::string_view text, bool /*after_special*/, std::vector<int32_t>& out) const {
  while (!text.empty()) {
    const auto match = trie_.longest(text);
    const auto id = match ? match->id : vocab().special(SpecialToken::unknown);
    if (!id)
      return fail(ErrorCode::not_found, "text {}: no token or unknown token for it in the vocabulary",
                  quote_text(text.substr(0, 1)));
    out.push_back(*id);
    text.remove_prefix(match ? match->n_bytes : 1);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<const Tokenizer>> make_rwkv_tokenizer(std::shared_ptr<const Vocab> vocab) {
  auto tokenizer = std::make_unique<RwkvTokenizer>(std::move(vocab));
  TESSERA_TRY(tokenizer->prepare());
  return tokenizer;
}

}  // namespace tessera::text
