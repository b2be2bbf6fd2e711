#include "tessera/server/api/completion_logprobs.h"

#include <algorithm>

#include "tessera/server/api/token_probs.h"
#include "tessera/text/utf8.h"

namespace tessera::server {

namespace {

// A code point may be divided among tokens: it counts where it begins.
size_t n_code_points(std::string_view bytes) {
  return static_cast<size_t>(
      std::ranges::count_if(bytes, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string text_of(const text::Tokenizer& tokenizer, int32_t id) {
  return text::to_valid_utf8(token_bytes(tokenizer, id));
}

std::span<const TokenProb> first_of(const TokenProbs& probs, size_t n_top) {
  return std::span(probs.top).first(std::min(n_top, probs.top.size()));
}

void write_ranked(JsonWriter& writer, const TokenProb& one, int64_t rank, const text::Tokenizer& tokenizer) {
  writer.key(std::to_string(one.id)).begin_object();
  writer.key("logprob").logprob(static_cast<double>(one.value));
  writer.member("rank", rank).member("decoded_token", text_of(tokenizer, one.id)).end_object();
}

}  // namespace

Result<PromptText> prompt_text(const text::Tokenizer& tokenizer, std::span<const int32_t> tokens,
                               bool renders_special) {
  PromptText prompt;
  prompt.tokens.assign(tokens.begin(), tokens.end());
  text::PieceWriter pieces(tokenizer, {.render_special = renders_special, .at_start = true});
  std::string piece;
  for (const int32_t token : tokens) {
    prompt.offsets.push_back(prompt.n_code_points);
    piece.clear();
    TESSERA_TRY(pieces.append(token, piece));
    prompt.n_code_points += n_code_points(piece);
    prompt.text += piece;
  }
  prompt.text = text::to_valid_utf8(prompt.text);
  return prompt;
}

size_t TextOffsets::add(int32_t token) {
  const size_t offset = next_;
  std::string piece;
  if (writer_.append(token, piece)) next_ += n_code_points(piece);  // a generated id is in the vocabulary
  return offset;
}

void write_completion_logprobs(JsonWriter& writer, std::span<const ShownToken> tokens, size_t n_top,
                               const text::Tokenizer& tokenizer) {
  writer.begin_object().key("tokens").begin_array();
  for (const ShownToken& one : tokens) writer.value(text_of(tokenizer, one.id));
  writer.end_array().key("token_logprobs").begin_array();
  for (const ShownToken& one : tokens) {
    if (one.probs == nullptr) {
      writer.value(nullptr);
    } else {
      writer.logprob(static_cast<double>(one.probs->chosen.value));
    }
  }
  writer.end_array().key("top_logprobs").begin_array();
  for (const ShownToken& one : tokens) {
    if (one.probs == nullptr) {
      writer.value(nullptr);
      continue;
    }
    writer.begin_object();
    for (const TokenProb& top : first_of(*one.probs, n_top))
      writer.key(text_of(tokenizer, top.id)).logprob(static_cast<double>(top.value));
    writer.end_object();
  }
  writer.end_array().key("text_offset").begin_array();
  for (const ShownToken& one : tokens) writer.value(one.offset);
  writer.end_array().key("content").begin_array();
  for (const ShownToken& one : tokens) {
    if (one.probs == nullptr) {
      write_unscored_token(writer, one.id, tokenizer);
    } else {
      write_token_probs(writer, *one.probs, tokenizer, ProbsForm::raw, n_top);
    }
  }
  writer.end_array().end_object();
}

void write_prompt_logprobs(JsonWriter& writer, const PromptText& prompt, std::span<const TokenProbs> scores,
                           size_t n_top, const text::Tokenizer& tokenizer) {
  writer.begin_array();
  for (size_t i = 0; i < prompt.tokens.size(); ++i) {
    if (i == 0 || i > scores.size()) {
      writer.value(nullptr);
      continue;
    }
    const TokenProbs& probs = scores[i - 1];
    writer.begin_object();
    write_ranked(writer, probs.chosen, probs.rank, tokenizer);
    int64_t rank = 0;
    for (const TokenProb& one : first_of(probs, n_top)) {
      ++rank;
      if (one.id != probs.chosen.id) write_ranked(writer, one, rank, tokenizer);
    }
    writer.end_object();
  }
  writer.end_array();
}

}  // namespace tessera::server
