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

}  // namespace tessera::text::grammar
