#include "tessera/convert/vocabulary/token_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

Result<> TokenTable::make_room(int64_t id, const std::string& text) {
  if (id < 0) return fail(ErrorCode::format, "token {} has the id {}", text::quote_text(text), id);
  if (static_cast<uint64_t>(id) >= kMaxVocabularyTokens)
    return fail(ErrorCode::limit, "token {} has the id {}, limit {}", text::quote_text(text), id,
                kMaxVocabularyTokens - 1);
  if (to_size(id) >= tokens_.size()) tokens_.resize(to_size(id) + 1);
  return {};
}

Result<> TokenTable::add(int64_t id, VocabularyToken token) {
  if (const VocabularyToken* other = find(id))
    return fail(ErrorCode::format, "tokens {} and {} have the same id {}", text::quote_text(other->text),
                text::quote_text(token.text), id);
  return put(id, std::move(token));
}

Result<> TokenTable::put(int64_t id, VocabularyToken token) {
  TESSERA_TRY(make_room(id, token.text));
  tokens_[to_size(id)] = std::move(token);
  return {};
}

const VocabularyToken* TokenTable::find(int64_t id) const {
  if (id < 0 || static_cast<uint64_t>(id) >= tokens_.size()) return nullptr;
  const VocabularyToken& token = tokens_[to_size(id)];
  return token.type == text::TokenType::undefined ? nullptr : &token;
}

void TokenTable::cut(size_t n_ids) {
  if (n_ids < tokens_.size()) tokens_.resize(n_ids);
}

Result<> TokenTable::fill(size_t n_ids, float score) {
  if (n_ids > kMaxVocabularyTokens)
    return fail(ErrorCode::limit, "a vocabulary of {} tokens, limit {}", n_ids, kMaxVocabularyTokens);
  tokens_.resize(std::max(n_ids, tokens_.size()));
  for (size_t id = 0; id < tokens_.size(); ++id)
    if (tokens_[id].type == text::TokenType::undefined)
      tokens_[id] = {fmt::format("[PAD{}]", id), score, text::TokenType::unused};
  return {};
}

}  // namespace tessera::convert
