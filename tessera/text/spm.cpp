// SentencePiece's greedy merging (Kudo and Richardson 2018). Spaces become U+2581, and the text starts as code points.
// Of all adjacent pairs that form a token, the pair with the best score is merged (the leftmost on ties), until no pair
// is left. Remaining symbols that are not tokens are spelled in byte tokens.
// A pair of adjacent bytes that occurs inside no token can never be merged across. The text is therefore first cut at
// such pairs (8 KiB table), which leaves words in prose. A segment of n code points needs 32 n bytes (symbols and
// queue, without the slack of the vectors) and O(n log n) time.
#include "tessera/text/spm.h"

#include <algorithm>
#include <bitset>
#include <functional>
#include <optional>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/text/merge_list.h"
#include "tessera/text/space_sign.h"
#include "tessera/text/utf8.h"

namespace tessera::text {
namespace {

size_t pair_index(char left, char right) {
  return size_t{static_cast<uint8_t>(left)} * 256 + static_cast<uint8_t>(right);
}

size_t symbol_bytes(std::string_view text) {
  const Utf8Step step = next_utf8(text);
  return step.state == Utf8State::valid ? step.n_bytes : 1;
}

class SpmTokenizer final : public Tokenizer {
 public:
  explicit SpmTokenizer(std::shared_ptr<const Vocab> vocab);

  void append_piece(int32_t id, std::string& out) const override;

 protected:
  Result<> encode(std::string_view text, bool after_special, std::vector<int32_t>& out) const override;

 private:
  std::optional<int32_t> find_textual(std::string_view text) const;
  size_t segment_end(std::string_view text, size_t begin) const;
  void merge_all(std::string_view segment, MergeList& list) const;
  Result<> emit(std::string_view symbol, std::vector<int32_t>& out) const;

  std::bitset<65536> joined_;  // pairs of adjacent bytes inside any textual token
  size_t max_token_bytes_ = 0;
  std::vector<uint32_t> ranks_;  // by token: number of distinct better scores
};

SpmTokenizer::SpmTokenizer(std::shared_ptr<const Vocab> vocab) : Tokenizer(std::move(vocab)) {
  for (size_t i = 0; i < this->vocab().n_tokens(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (!is_textual(this->vocab().type(id))) continue;
    const std::string_view text = this->vocab().text(id);
    max_token_bytes_ = std::max(max_token_bytes_, text.size());
    for (size_t k = 1; k < text.size(); ++k) joined_.set(pair_index(text[k - 1], text[k]));
  }
  std::vector<float> scores;
  for (size_t i = 0; i < this->vocab().n_tokens(); ++i) scores.push_back(this->vocab().score(static_cast<int32_t>(i)));
  std::vector<float> best = scores;
  std::sort(best.begin(), best.end(), std::greater<>());
  best.erase(std::unique(best.begin(), best.end()), best.end());
  for (const float score : scores) {
    const auto place = std::lower_bound(best.begin(), best.end(), score, std::greater<>());
    ranks_.push_back(static_cast<uint32_t>(place - best.begin()));
  }
}

std::optional<int32_t> SpmTokenizer::find_textual(std::string_view text) const {
  if (text.size() > max_token_bytes_) return std::nullopt;
  const auto id = vocab().find(text);
  return id && is_textual(vocab().type(*id)) ? id : std::nullopt;
}

/// The first code point boundary after `begin` that no token spans.
size_t SpmTokenizer::segment_end(std::string_view text, size_t begin) const {
  size_t end = begin;
  do {
    end += symbol_bytes(text.substr(end));
  } while (end < text.size() && joined_[pair_index(text[end - 1], text[end])]);
  return end;
}

void SpmTokenizer::merge_all(std::string_view segment, MergeList& list) const {
  list.clear();
  for (size_t begin = 0; begin < segment.size(); begin += symbol_bytes(segment.substr(begin))) list.add(begin, 0);
  list.merge(segment.size(), [&](const MergeSymbol& left, const MergeSymbol&, size_t end) -> Joined {
    const auto id = find_textual(segment.substr(left.begin, end - left.begin));
    if (!id) return {};
    return {ranks_[to_size(*id)], static_cast<uint32_t>(*id)};
  });
}

Result<> SpmTokenizer::encode(std::string_view text, bool after_special, std::vector<int32_t>& out) const {
  std::string escaped;
  escaped.reserve(text.size() + kSpaceSign.size());
  if (after_special && vocab().add_space_prefix()) escaped += kSpaceSign;
  append_with_signs(text, escaped);
  const std::string_view all = escaped;
  MergeList list;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = segment_end(all, begin);
    const std::string_view segment = all.substr(begin, end - begin);
    merge_all(segment, list);
    TESSERA_TRY(list.for_each([&](const MergeSymbol& symbol, size_t symbol_end) {
      return emit(segment.substr(symbol.begin, symbol_end - symbol.begin), out);
    }));
    begin = end;
  }
  return {};
}

/// Appends the token of a symbol. A code point without a token becomes byte tokens, or the unknown token if some of
/// these are missing.
Result<> SpmTokenizer::emit(std::string_view symbol, std::vector<int32_t>& out) const {
  if (const auto id = find_textual(symbol)) {
    out.push_back(*id);
    return {};
  }
  const size_t n_before = out.size();
  for (const char c : symbol) {
    const auto byte = vocab().byte_token(static_cast<uint8_t>(c));
    if (!byte) break;
    out.push_back(*byte);
  }
  if (out.size() - n_before == symbol.size()) return {};
  const auto unknown = vocab().special(SpecialToken::unknown);
  if (!unknown)
    return fail(ErrorCode::not_found, "text {}: no token, byte tokens or unknown token for it in the vocabulary",
                quote_text(symbol));
  out.resize(n_before);
  out.push_back(*unknown);
  return {};
}

void SpmTokenizer::append_piece(int32_t id, std::string& out) const { append_signed_piece(vocab(), id, out); }

}  // namespace

Result<std::unique_ptr<const Tokenizer>> make_spm_tokenizer(std::shared_ptr<const Vocab> vocab) {
  return std::make_unique<SpmTokenizer>(std::move(vocab));
}

}  // namespace tessera::text
