#include "tessera/server/api/token_probs.h"

#include <algorithm>
#include <span>

namespace tessera::server {

namespace {

void write_token(JsonWriter& writer, int32_t token, const text::Tokenizer& tokenizer) {
  const std::string bytes = token_bytes(tokenizer, token);
  writer.member("id", token).member("token", bytes);
  writer.key("bytes").begin_array();
  for (const char byte : bytes) writer.value(static_cast<int32_t>(static_cast<unsigned char>(byte)));
  writer.end_array();
}

void write_one(JsonWriter& writer, const TokenProb& one, const text::Tokenizer& tokenizer, ProbsForm form) {
  write_token(writer, one.id, tokenizer);
  if (form == ProbsForm::raw) {
    writer.key("logprob").logprob(static_cast<double>(one.value));
  } else {
    writer.member("prob", one.value);
  }
}

}  // namespace

std::string token_bytes(const text::Tokenizer& tokenizer, int32_t token) {
  std::string bytes;
  if (tokenizer.vocab().has_text() && tokenizer.vocab().contains(token)) tokenizer.append_piece(token, bytes);
  return bytes;
}

void write_token_probs(JsonWriter& writer, const TokenProbs& probs, const text::Tokenizer& tokenizer, ProbsForm form,
                       size_t n_top) {
  writer.begin_object();
  write_one(writer, probs.chosen, tokenizer, form);
  writer.key(form == ProbsForm::raw ? "top_logprobs" : "top_probs").begin_array();
  for (const TokenProb& one : std::span(probs.top).first(std::min(n_top, probs.top.size()))) {
    writer.begin_object();
    write_one(writer, one, tokenizer, form);
    writer.end_object();
  }
  writer.end_array().end_object();
}

void write_unscored_token(JsonWriter& writer, int32_t token, const text::Tokenizer& tokenizer) {
  writer.begin_object();
  write_token(writer, token, tokenizer);
  writer.member("logprob", nullptr).key("top_logprobs").begin_array().end_array().end_object();
}

}  // namespace tessera::server
