// Reverses the space-prefix rule, and separates complete from incomplete UTF-8.
#include "tessera/text/detokenize.h"

#include <string_view>
#include <utility>

#include "tessera/text/utf8.h"

namespace tessera::text {

Result<> PieceWriter::append(int64_t id, std::string& out) {
  const Vocab& vocab = tokenizer_->vocab();
  if (!vocab.contains(id))
    return fail(ErrorCode::invalid_argument, "token id {}: not in the vocabulary of {} tokens", id, vocab.n_tokens());
  if (!vocab.has_text()) return {};
  const auto token = static_cast<int32_t>(id);
  const TokenType type = vocab.type(token);
  if ((type == TokenType::control || type == TokenType::unknown) && !options_.render_special) return {};

  const size_t begin = out.size();
  tokenizer_->append_piece(token, out);
  if (type == TokenType::control || type == TokenType::user_defined) {
    strip_space_ = true;
    return {};
  }
  if (strip_space_ && tokenizer_->adds_space_prefix() && begin < out.size() && out[begin] == ' ') out.erase(begin, 1);
  strip_space_ = false;
  return {};
}

Result<std::string> detokenize(const Tokenizer& tokenizer, std::span<const int32_t> tokens, DetokenizeOptions options) {
  PieceWriter writer(tokenizer, options);
  std::string out;
  for (const int32_t id : tokens) TESSERA_TRY(writer.append(id, out));
  return out;
}

Result<std::string> DetokenizeStream::push(int64_t id) {
  TESSERA_TRY(writer_.append(id, held_));
  const size_t n_done = held_.size() - n_incomplete_bytes(held_);
  std::string done = to_valid_utf8(std::string_view(held_).substr(0, n_done));
  held_.erase(0, n_done);
  return done;
}

std::string DetokenizeStream::finish() { return to_valid_utf8(std::exchange(held_, {})); }

}  // namespace tessera::text
