// Words are cut at white space, around punctuation and around Chinese characters. Accents are removed, and letters
// become lower case. Each word is then spelled by the longest matching token, repeatedly, or is unknown as a whole. In
// GGUF files, tokens that start a word begin with U+2581, and the others lack BERT's ## prefix.
#include "tessera/text/wpm.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tessera/text/space_sign.h"
#include "tessera/text/token_trie.h"
#include "tessera/text/unicode.h"
#include "tessera/text/utf8.h"

namespace tessera::text {
namespace {

// BERT's Chinese characters: blocks of Han. One block starts later in the library with which the models were trained.
constexpr std::array<CodePointRange, 8> kChinese{{{0x3400, 0x4DBF},
                                                  {0x4E00, 0x9FFF},
                                                  {0xF900, 0xFAFF},
                                                  {0x20000, 0x2A6DF},
                                                  {0x2A700, 0x2B73F},
                                                  {0x2B740, 0x2B81F},
                                                  {0x2B920, 0x2CEAF},
                                                  {0x2F800, 0x2FA1F}}};

bool is_chinese(uint32_t code_point) {
  return std::any_of(kChinese.begin(), kChinese.end(),
                     [&](const CodePointRange& r) { return code_point >= r.first && code_point <= r.last; });
}

constexpr uint32_t kControls = bit_of(Category::cc) | bit_of(Category::cf);
constexpr uint32_t kPunctuation = bit_of(Category::pc) | bit_of(Category::pd) | bit_of(Category::pe) |
                                  bit_of(Category::pf) | bit_of(Category::pi) | bit_of(Category::po) |
                                  bit_of(Category::ps);
constexpr uint32_t kSymbols = bit_of(Category::sc) | bit_of(Category::sk) | bit_of(Category::sm) | bit_of(Category::so);

class WpmTokenizer final : public Tokenizer {
 public:
  explicit WpmTokenizer(std::shared_ptr<const Vocab> vocab) : Tokenizer(std::move(vocab)) {}

  Result<> prepare();

  void append_piece(int32_t id, std::string& out) const override;
  bool adds_space_prefix() const override { return true; }

 protected:
  Result<> encode(std::string_view text, bool after_special, std::vector<int32_t>& out) const override;
  std::optional<int32_t> first_token() const override;
  std::optional<int32_t> last_token() const override { return vocab().special(SpecialToken::separator); }

 private:
  Result<> encode_word(std::string& word, std::vector<int32_t>& out) const;

  TokenTrie trie_;
};

Result<> WpmTokenizer::prepare() {
  std::vector<TokenTrie::Entry> entries;
  for (size_t i = 0; i < vocab().n_tokens(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (is_textual(vocab().type(id))) entries.push_back({vocab().text(id), id});
  }
  TESSERA_ASSIGN(trie_, TokenTrie::create(std::move(entries)));
  return {};
}

// BERT's sequences always start and end with these tokens, regardless of add_bos and add_eos.
std::optional<int32_t> WpmTokenizer::first_token() const {
  const auto bos = vocab().special(SpecialToken::bos);
  return bos ? bos : vocab().special(SpecialToken::cls);
}

Result<> WpmTokenizer::encode(std::string_view text, bool /*after_special*/, std::vector<int32_t>& out) const {
  std::string word(kSpaceSign);
  std::vector<uint32_t> plain;
  while (!text.empty()) {
    const CodePointStep step = next_code_point(text);
    text.remove_prefix(step.n_bytes);
    plain.clear();
    if (vocab().strip_accents()) {
      append_without_accents(step.code_point, plain);
    } else {
      plain.push_back(step.code_point);
    }
    for (const uint32_t code_point : plain) {
      const uint32_t category = bit_of(category_of(code_point));
      const bool is_space = is_white_space(code_point);
      const bool is_alone =
          (category & kPunctuation) != 0 || (code_point < 0x7F && (category & kSymbols) != 0) || is_chinese(code_point);
      if (is_space || is_alone) TESSERA_TRY(encode_word(word, out));
      if (is_space || code_point == kReplacementCodePoint || (category & kControls) != 0) continue;
      append_utf8(vocab().lowercase() ? to_lower(code_point) : code_point, word);
      if (is_alone) TESSERA_TRY(encode_word(word, out));
    }
  }
  return encode_word(word, out);
}

/// Appends the tokens of a word, which starts with kSpaceSign, and resets the word to that sign.
Result<> WpmTokenizer::encode_word(std::string& word, std::vector<int32_t>& out) const {
  if (word.size() == kSpaceSign.size()) return {};
  const size_t n_before = out.size();
  std::string_view rest = word;
  while (!rest.empty()) {
    const auto match = trie_.longest(rest);
    if (!match) break;
    out.push_back(match->id);
    rest.remove_prefix(match->n_bytes);
  }
  if (!rest.empty()) {
    const auto unknown = vocab().special(SpecialToken::unknown);
    if (!unknown)
      return fail(ErrorCode::not_found, "text {}: no tokens or unknown token for it in the vocabulary",
                  quote_text(std::string_view(word).substr(kSpaceSign.size())));
    out.resize(n_before);
    out.push_back(*unknown);
  }
  word.resize(kSpaceSign.size());
  return {};
}

void WpmTokenizer::append_piece(int32_t id, std::string& out) const {
  std::string_view text = vocab().text(id);
  if (is_textual(vocab().type(id)) && text.starts_with(kSpaceSign)) {
    out += ' ';
    text.remove_prefix(kSpaceSign.size());
  }
  out += text;
}

}  // namespace

Result<std::unique_ptr<const Tokenizer>> make_wpm_tokenizer(std::shared_ptr<const Vocab> vocab) {
  auto tokenizer = std::make_unique<WpmTokenizer>(std::move(vocab));
  TESSERA_TRY(tokenizer->prepare());
  return tokenizer;
}

}  // namespace tessera::text
