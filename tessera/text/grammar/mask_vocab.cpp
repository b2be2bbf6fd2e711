#include "tessera/text/grammar/mask_vocab.h"

#include "tessera/base/index.h"

namespace tessera::text::grammar {
namespace {

std::vector<VocabTree::Token> with_text(const std::vector<MaskVocab::Token>& tokens) {
  std::vector<VocabTree::Token> found;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (!tokens[i].ends_text) found.push_back({tokens[i].text, static_cast<int32_t>(i)});
  return found;
}

}  // namespace

MaskVocab::MaskVocab(std::vector<Token> tokens) : tokens_(std::move(tokens)), tree_(with_text(tokens_)) {
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
