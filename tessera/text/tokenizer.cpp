// The table of tokenizers, and the splitting of a text at its special tokens.
#include "tessera/text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tessera/text/bpe.h"
#include "tessera/text/no_vocab.h"
#include "tessera/text/plamo2.h"
#include "tessera/text/rwkv.h"
#include "tessera/text/spm.h"
#include "tessera/text/ugm.h"
#include "tessera/text/utf8.h"
#include "tessera/text/wpm.h"

namespace tessera::text {
namespace {

struct Row {
  std::string_view model;  // tokenizer.ggml.model
  Result<std::unique_ptr<const Tokenizer>> (*make)(std::shared_ptr<const Vocab>);
};

constexpr std::array<Row, 9> kTokenizers{{
    {"llama", make_spm_tokenizer},
    {"gpt2", make_bpe_tokenizer},
    {"gemma4", make_bpe_tokenizer},
    {"bert", make_wpm_tokenizer},
    {"t5", make_ugm_tokenizer},
    {"rwkv", make_rwkv_tokenizer},
    {"plamo2", make_plamo2_tokenizer},
    {"no_vocab", make_no_vocab_tokenizer},
    {"none", make_no_vocab_tokenizer},
}};

constexpr bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace

Result<std::unique_ptr<const Tokenizer>> Tokenizer::create(std::shared_ptr<const Vocab> vocab) {
  std::string names;
  for (const Row& row : kTokenizers) {
    if (row.model == vocab->model()) return row.make(std::move(vocab));
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.model);
  }
  return fail(ErrorCode::unsupported, "tokenizer.ggml.model: {}, supported: {}", quote_text(vocab->model()), names);
}

Result<std::vector<int32_t>> Tokenizer::tokenize(std::string_view text, TokenizeOptions options) const {
  if (text.size() > kMaxTextBytes)
    return fail(ErrorCode::limit, "text to tokenize: {} bytes, limit {}", text.size(), kMaxTextBytes);
  std::vector<int32_t> out;
  const auto first = first_token();
  if (options.add_special && first) out.push_back(*first);

  const ControlTokenPlaces places{options.parse_special, options.given};
  bool after_special = true;
  size_t done = 0;
  while (done < text.size()) {
    const auto match = specials_.find(text, done, places);
    size_t end = match ? match->begin : text.size();
    if (match && vocab_->strips_left(match->id))
      while (end > done && is_space(text[end - 1])) --end;
    if (end > done) TESSERA_TRY(encode(text.substr(done, end - done), after_special, out));
    if (!match) break;
    out.push_back(match->id);
    after_special = true;
    done = match->end;
    if (vocab_->strips_right(match->id))
      while (done < text.size() && is_space(text[done])) ++done;
  }

  const auto last = last_token();
  if (options.add_special && last) out.push_back(*last);
  return out;
}

std::optional<int32_t> Tokenizer::first_token() const {
  return vocab_->add_bos() ? vocab_->special(SpecialToken::bos) : std::nullopt;
}

std::optional<int32_t> Tokenizer::last_token() const {
  return vocab_->add_eos() ? vocab_->special(SpecialToken::eos) : std::nullopt;
}

}  // namespace tessera::text
