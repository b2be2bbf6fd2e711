#include "tessera/server/api/token_probs.h"

namespace tessera::server {

namespace {

void write_one(JsonWriter& writer, const TokenProb& one, const text::Tokenizer& tokenizer, ProbsForm form) {
  const std::string bytes = token_bytes(tokenizer, one.id);
  writer.member("id", one.id).member("token", bytes);
  writer.key("bytes").begin_array();
  for (const char byte : bytes) writer.value(static_cast<int32_t>(static_cast<unsigned char>(byte)));
  writer.end_array();
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

void write_token_probs(JsonWriter& writer, const TokenProbs& probs, const text::Tokenizer& tokenizer, ProbsForm form) {
  writer.begin_object();
  write_one(writer, probs.chosen, tokenizer, form);
  writer.key(form == ProbsForm::raw ? "top_logprobs" : "top_probs").begin_array();
  for (const TokenProb& one : probs.top) {
    writer.begin_object();
    write_one(writer, one, tokenizer, form);
    writer.end_object();
  }
  writer.end_array().end_object();
}

}  // namespace tessera::server
