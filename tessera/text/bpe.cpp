// The pre-tokenizer cuts the text into words. A word starts as bytes (or as code points, if tokens are spelled in
// UTF-8), and the merges of the file are applied to it in their order. Symbols are token ids; symbols that only occur
// in merges get ids after those of the tokens. The merges are sorted by (left, right), so a lookup is a binary search
// among the merges of one left symbol. No file can make that slow.
#include "tessera/text/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "tessera/text/byte_signs.h"
#include "tessera/text/merge_list.h"
#include "tessera/text/pre_tokenizer.h"
#include "tessera/text/space_sign.h"
#include "tessera/text/unicode.h"
#include "tessera/text/utf8.h"

namespace tessera::text {
namespace {

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(std::shared_ptr<const Vocab> vocab, const PreRow& pre) : Tokenizer(std::move(vocab)), row_(pre) {}

  Result<> prepare();

  void append_piece(int32_t id, std::string& out) const override;

 protected:
  Result<> encode(std::string_view text, bool after_special, std::vector<int32_t>& out) const override;

 private:
  struct Merge {
    uint32_t left, right, rank, joined;
  };

  bool has(unsigned flag) const { return (row_.flags & flag) != 0; }
  bool is_token(uint32_t symbol) const {
    return symbol < vocab().n_tokens() && is_textual(vocab().type(static_cast<int32_t>(symbol)));
  }
  std::optional<int32_t> find_token(std::string_view text) const;
  std::optional<int32_t> find_whole(std::string_view word, std::string& spelled) const;
  std::optional<int32_t> find_byte(uint8_t byte) const;
  Result<> prepare_merges();
  Joined join(uint32_t left, uint32_t right) const;
  void encode_word(std::string_view word, MergeList& list, std::string& spelled, std::vector<int32_t>& out) const;
  void emit(uint32_t symbol, std::string_view bytes, std::vector<int32_t>& out) const;

  PreRow row_;
  PreTokenizer pre_;
  size_t max_token_bytes_ = 0;
  std::array<uint32_t, 256> byte_symbols_{};
  std::vector<uint32_t> first_;  // by left symbol: index of its first merge in merges_
  std::vector<Merge> merges_;
};

Result<> BpeTokenizer::prepare() {
  if (find_pre(vocab().pre()) == nullptr)
    warn(fmt::format("tokenizer.ggml.pre: {}; words are cut as by \"{}\", which the model may not expect",
                     vocab().pre().empty() ? "absent" : quote_text(vocab().pre()) + " is not known", row_.name));
  TESSERA_ASSIGN(pre_, PreTokenizer::create(row_.family));
  for (size_t i = 0; i < vocab().n_tokens(); ++i)
    max_token_bytes_ = std::max(max_token_bytes_, vocab().text(static_cast<int32_t>(i)).size());
  return prepare_merges();
}

/// Numbers every symbol of a merge or byte, and sorts the merges. If a pair has two merges, the first counts.
Result<> BpeTokenizer::prepare_merges() {
  std::map<std::string, uint32_t, std::less<>> others;
  const auto symbol_of = [&](std::string_view text) -> uint32_t {
    if (const auto id = vocab().find(text)) return static_cast<uint32_t>(*id);
    const auto next = static_cast<uint32_t>(vocab().n_tokens() + others.size());
    const auto found = others.find(text);
    return found != others.end() ? found->second : others.emplace(text, next).first->second;
  };
  for (uint32_t byte = 0; byte < 256; ++byte) {
    std::string sign;
    append_utf8(kByteSigns.sign[byte], sign);
    byte_symbols_[byte] = symbol_of(sign);
  }
  const StringPool& pool = vocab().merges();
  merges_.reserve(pool.size());
  std::string both;
  for (size_t i = 0; i < pool.size(); ++i) {
    const std::string_view merge = pool[i];
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size())
      return fail(ErrorCode::format, "tokenizer.ggml.merges[{}]: {}, want two symbols and a space between", i,
                  quote_text(merge));
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    both.assign(left).append(right);
    merges_.push_back({symbol_of(left), symbol_of(right), static_cast<uint32_t>(i), symbol_of(both)});
  }
  const auto pair_of = [](const Merge& m) { return std::tie(m.left, m.right); };
  std::stable_sort(merges_.begin(), merges_.end(),
                   [&](const Merge& a, const Merge& b) { return pair_of(a) < pair_of(b); });
  const auto same = [&](const Merge& a, const Merge& b) { return pair_of(a) == pair_of(b); };
  merges_.erase(std::unique(merges_.begin(), merges_.end(), same), merges_.end());
  first_.assign(vocab().n_tokens() + others.size() + 1, 0);
  for (const Merge& merge : merges_) ++first_[merge.left + 1];
  for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  return {};
}

Joined BpeTokenizer::join(uint32_t left, uint32_t right) const {
  if (left == kNoSymbol) return {};
  const auto end = merges_.begin() + first_[left + 1];
  const auto merge = std::lower_bound(merges_.begin() + first_[left], end, right,
                                      [](const Merge& m, uint32_t symbol) { return m.right < symbol; });
  if (merge == end || merge->right != right) return {};
  return {merge->rank, merge->joined};
}

std::optional<int32_t> BpeTokenizer::find_token(std::string_view text) const {
  if (text.size() > max_token_bytes_) return std::nullopt;
  const auto id = vocab().find(text);
  return id && is_textual(vocab().type(*id)) ? id : std::nullopt;
}

/// The token that spells a whole word, if there is one; spelled is scratch memory.
std::optional<int32_t> BpeTokenizer::find_whole(std::string_view word, std::string& spelled) const {
  if (word.size() > max_token_bytes_) return std::nullopt;
  if (has(kRawUtf8)) return find_token(word);
  spelled.clear();
  for (const char c : word) append_utf8(kByteSigns.sign[static_cast<uint8_t>(c)], spelled);
  return find_token(spelled);
}

std::optional<int32_t> BpeTokenizer::find_byte(uint8_t byte) const {
  if (has(kRawUtf8)) return vocab().byte_token(byte);
  if (!is_token(byte_symbols_[byte])) return std::nullopt;
  return static_cast<int32_t>(byte_symbols_[byte]);
}

Result<> BpeTokenizer::encode(std::string_view text, bool after_special, std::vector<int32_t>& out) const {
  std::string escaped;
  if (has(kEscapeSpaces)) {
    if (after_special && vocab().add_space_prefix()) escaped += kSpaceSign;
    append_with_signs(text, escaped);
    text = escaped;
  }
  MergeList list;
  std::string spelled;
  PreTokenizer::Words words(pre_, text);
  for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
    if (has(kDropSpaces) && is_white_space(next_code_point(word).code_point)) continue;
    encode_word(word, list, spelled, out);
  }
  return {};
}

void BpeTokenizer::encode_word(std::string_view word, MergeList& list, std::string& spelled,
                               std::vector<int32_t>& out) const {
  const bool may_be_whole =
      has(kWholeWords) || (has(kWholeNewlines) && word.find_first_not_of('\n') == std::string_view::npos);
  if (may_be_whole) {
    if (const auto id = find_whole(word, spelled)) {
      out.push_back(*id);
      return;
    }
  }
  list.clear();
  for (size_t at = 0; at < word.size();) {
    if (has(kRawUtf8)) {
      const std::string_view sign = word.substr(at, next_code_point(word.substr(at)).n_bytes);
      const auto id = vocab().find(sign);
      list.add(at, id ? static_cast<uint32_t>(*id) : kNoSymbol);
      at += sign.size();
    } else {
      list.add(at, byte_symbols_[static_cast<uint8_t>(word[at])]);
      ++at;
    }
  }
  list.merge(word.size(), [this](const MergeSymbol& left, const MergeSymbol& right, size_t) {
    return join(left.value, right.value);
  });
  // The visitor cannot fail.
  static_cast<void>(list.for_each([&](const MergeSymbol& symbol, size_t end) -> Result<> {
    emit(symbol.value, word.substr(symbol.begin, end - symbol.begin), out);
    return {};
  }));
}

/// Appends the token of a symbol. A symbol that is not a token becomes its byte tokens. If some of these are missing,
/// it becomes the unknown token, or the existing byte tokens if the vocabulary has no unknown token.
void BpeTokenizer::emit(uint32_t symbol, std::string_view bytes, std::vector<int32_t>& out) const {
  if (is_token(symbol)) {
    out.push_back(static_cast<int32_t>(symbol));
    return;
  }
  const size_t n_before = out.size();
  for (const char c : bytes)
    if (const auto id = find_byte(static_cast<uint8_t>(c))) out.push_back(*id);
  const auto unknown = vocab().special(SpecialToken::unknown);
  if (out.size() - n_before == bytes.size() || !unknown) return;
  out.resize(n_before);
  out.push_back(*unknown);
}

void BpeTokenizer::append_piece(int32_t id, std::string& out) const {
  std::string_view text = vocab().text(id);
  const TokenType type = vocab().type(id);
  if (has(kEscapeSpaces) || type == TokenType::byte) return append_signed_piece(vocab(), id, out);
  if (has(kRawUtf8) || !is_textual(type) || type == TokenType::user_defined) {
    out += text;
    return;
  }
  while (!text.empty()) {
    const CodePointStep step = next_code_point(text);
    if (const auto byte = byte_of_sign(step.code_point)) {
      out += static_cast<char>(*byte);
    } else {
      out += text.substr(0, step.n_bytes);
    }
    text.remove_prefix(step.n_bytes);
  }
}

}  // namespace

Result<std::unique_ptr<const Tokenizer>> make_bpe_tokenizer(std::shared_ptr<const Vocab> vocab) {
  const PreRow* pre = find_pre(vocab->pre());
  auto tokenizer = std::make_unique<BpeTokenizer>(std::move(vocab), pre != nullptr ? *pre : fallback_pre());
  TESSERA_TRY(tokenizer->prepare());
  return tokenizer;
}

}  // namespace tessera::text
