#include "tessera/text/grammar/mask_vocab.h"

#include <bitset>

#include "tessera/base/index.h"
#include "tessera/text/unicode.h"
#include "tessera/text/utf8.h"

namespace tessera::text::grammar {
namespace {

bool has_each_byte(const std::vector<MaskVocab::Token>& tokens) {
  std::bitset<256> has;
  for (const MaskVocab::Token& token : tokens)
    if (!token.ends_text && token.text.size() == 1) has.set(static_cast<uint8_t>(token.text[0]));
  for (const int byte : {0xc0, 0xc1, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff})
    has.set(to_size(byte));  // no text of UTF-8 has them
  return has.all();
}

std::optional<CodePointSet> characters_of(const std::vector<MaskVocab::Token>& tokens) {
  if (has_each_byte(tokens)) return std::nullopt;
  std::vector<CodePointRange> ranges;
  for (const MaskVocab::Token& token : tokens) {
    if (token.ends_text || token.text.empty() || !is_valid_utf8(token.text)) continue;
    const CodePointStep step = next_code_point(token.text);
    if (step.n_bytes == token.text.size()) ranges.push_back({step.code_point, step.code_point});
  }
  return CodePointSet(ranges);
}

std::vector<VocabTree::Token> with_text(const std::vector<MaskVocab::Token>& tokens, bool has_each_byte) {
  std::vector<VocabTree::Token> found;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (!tokens[i].ends_text && (has_each_byte || is_valid_utf8(tokens[i].text)))
      found.push_back({tokens[i].text, static_cast<int32_t>(i)});
  return found;
}

}  // namespace

MaskVocab::MaskVocab(std::vector<Token> tokens)
    : tokens_(std::move(tokens)), characters_(characters_of(tokens_)), tree_(with_text(tokens_, !characters_)) {
  for (size_t i = 0; i < tokens_.size(); ++i)
    if (tokens_[i].ends_text) end_tokens_.push_back(static_cast<int32_t>(i));
}

std::shared_ptr<const MaskVocab> MaskVocab::create(const Tokenizer& tokenizer, size_t n_tokens) {
  const Vocab& vocab = tokenizer.vocab();
  std::vector<Token> tokens(n_tokens);
  for (size_t i = 0; i < n_tokens && vocab.has_text() && i < vocab.n_tokens(); ++i) {
    const auto id = static_cast<int32_t>(i);
    const TokenType type = vocab.type(id);
    tokens[i].ends_text = vocab.is_eog(id);
    if (is_textual(type) || type == TokenType::byte) tokenizer.append_piece(id, tokens[i].text);
  }
  return std::make_shared<const MaskVocab>(std::move(tokens));
}

// Some tokenizers add a space before a text, so the tokens are counted from the end.
Result<std::vector<int32_t>> tokens_after(const Tokenizer& tokenizer, const MaskVocab& vocab, std::string_view before,
                                          std::string_view text) {
  TESSERA_ASSIGN(std::vector<int32_t> tokens, tokenizer.tokenize(std::string(before) + std::string(text),
                                                                 {.add_special = false, .parse_special = false}));
  size_t n_bytes = 0;
  auto first = tokens.end();
  while (n_bytes < text.size() && first != tokens.begin()) n_bytes += vocab.token(*--first).text.size();
  tokens.erase(tokens.begin(), n_bytes == text.size() ? first : tokens.end());
  return tokens;
}

}  // namespace tessera::text::grammar
