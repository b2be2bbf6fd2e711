// The segmentation of least cost, in whole numbers. A token of score s costs -round(10000 s). A code point may also be
// spelled in byte tokens, which together cost 10,000,000. Dynamic programming goes from the end of the text to its
// start. Of the tokens that begin at a place and lead to equal costs, the longest wins, and byte tokens come last.
// The costs are those of PLaMo's own code (tokenization_plamo.py of the checkpoints). One pass needs 16 bytes per byte
// of text, and at most kMaxMatchBytes steps for each.
#include "tessera/text/plamo2.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/text/token_trie.h"
#include "tessera/text/utf8.h"

namespace tessera::text {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // U+FEFF
constexpr double kCostPerScore = 1e4;
constexpr int32_t kSpelledCost = 10'000'000;   // of a code point in byte tokens
constexpr int32_t kTooExpensive = 20'000'000;  // a token of this cost is never used
constexpr int32_t kSpelled = -1;

static_assert(kMaxTextBytes <= size_t{1} << 30);  // sums of 2^30 costs of 32 bits stay within 2^61

// The best segmentation from a byte to the end of the text: its cost and its first token.
struct CheapestRest {
  int64_t cost = 0;
  int32_t id = kSpelled;
  uint32_t n_bytes = 0;  // of the first token; 0 at the later bytes of a code point
};

/// Nothing for a token that is never used. Scores may be infinite, but are not NaN.
std::optional<int32_t> cost_of_score(float score) {
  const double cost = -std::round(double{score} * kCostPerScore);
  if (!std::isfinite(cost) || cost >= kTooExpensive) return std::nullopt;
  return static_cast<int32_t>(std::max(cost, double{std::numeric_limits<int32_t>::min()}));
}

class Plamo2Tokenizer final : public Tokenizer {
 public:
  explicit Plamo2Tokenizer(std::shared_ptr<const Vocab> vocab) : Tokenizer(std::move(vocab)) {}

  Result<> prepare();

  void append_piece(int32_t id, std::string& out) const override;
  bool adds_space_prefix() const override { return false; }

 protected:
  Result<> encode(std::string_view text, bool after_special, std::vector<int32_t>& out) const override;

 private:
  std::vector<CheapestRest> cheapest_rests(std::string_view text) const;

  std::array<int32_t, 256> byte_ids_{};
  std::vector<int32_t> costs_;  // by token
  TokenTrie trie_;
};

Result<> Plamo2Tokenizer::prepare() {
  for (size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const auto id = vocab().byte_token(static_cast<uint8_t>(byte));
    if (!id) return fail(ErrorCode::format, "tokenizer.ggml.tokens: no byte token <0x{:02X}>, want all 256", byte);
    byte_ids_[byte] = *id;
  }
  std::vector<TokenTrie::Entry> entries;
  costs_.resize(vocab().n_tokens());
  for (size_t i = 0; i < vocab().n_tokens(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (vocab().type(id) != TokenType::normal && vocab().type(id) != TokenType::user_defined) continue;
    const auto cost = cost_of_score(vocab().score(id));
    if (!cost) continue;
    costs_[i] = *cost;
    entries.push_back({vocab().text(id), id});
  }
  TESSERA_ASSIGN(trie_, TokenTrie::create(std::move(entries)));
  return {};
}

std::vector<CheapestRest> Plamo2Tokenizer::cheapest_rests(std::string_view text) const {
  std::vector<CheapestRest> rests(text.size() + 1);
  for (size_t i = 0; i < text.size(); i += rests[i].n_bytes)
    rests[i].n_bytes = static_cast<uint32_t>(next_utf8(text.substr(i)).n_bytes);
  for (size_t begin = text.size(); begin-- > 0;) {
    CheapestRest& best = rests[begin];
    if (best.n_bytes == 0) continue;
    best.cost = rests[begin + best.n_bytes].cost + kSpelledCost;
    uint32_t node = 0;
    for (size_t end = begin; end < text.size();) {
      node = trie_.child(node, text[end++]);
      if (node == 0) break;
      const int32_t id = trie_.id(node);
      const bool ends_inside = end < text.size() && rests[end].n_bytes == 0;
      if (id < 0 || ends_inside) continue;
      const int64_t cost = rests[end].cost + costs_[to_size(id)];
      if (cost <= best.cost) best = {cost, id, static_cast<uint32_t>(end - begin)};
    }
  }
  return rests;
}

// Bytes that are not UTF-8 are spelled like a code point, so that they come back.
Result<> Plamo2Tokenizer::encode(std::string_view text, bool /*after_special*/, std::vector<int32_t>& out) const {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const std::vector<CheapestRest> rests = cheapest_rests(text);
  for (size_t begin = 0; begin < text.size(); begin += rests[begin].n_bytes) {
    const CheapestRest& rest = rests[begin];
    if (rest.id != kSpelled) {
      out.push_back(rest.id);
      continue;
    }
    for (const char c : text.substr(begin, rest.n_bytes)) out.push_back(byte_ids_[static_cast<uint8_t>(c)]);
  }
  return {};
}

void Plamo2Tokenizer::append_piece(int32_t id, std::string& out) const {
  if (vocab().type(id) == TokenType::byte)
    out += static_cast<char>(vocab().byte_value(id));
  else
    out += vocab().text(id);
}

}  // namespace

Result<std::unique_ptr<const Tokenizer>> make_plamo2_tokenizer(std::shared_ptr<const Vocab> vocab) {
  auto tokenizer = std::make_unique<Plamo2Tokenizer>(std::move(vocab));
  TESSERA_TRY(tokenizer->prepare());
  return tokenizer;
}

}  // namespace tessera::text
