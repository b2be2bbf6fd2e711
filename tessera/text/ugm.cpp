// The text is normalised (character map of the file, white space, U+2581 for spaces). It is then cut into the tokens
// whose scores have the largest sum, by dynamic programming over its bytes. A code point that is not a token counts as
// unknown, with a score 10 below that of the worst token. One pass needs 16 bytes per byte of text.
#include "tessera/text/ugm.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tessera/text/charsmap.h"
#include "tessera/text/space_sign.h"
#include "tessera/text/token_trie.h"
#include "tessera/text/unicode.h"
#include "tessera/text/utf8.h"

namespace tessera::text {
namespace {

constexpr double kUnknownPenalty = 10.0;
constexpr int32_t kUnknown = -1;

// The best segmentation of the text up to a byte: its score, and its last token.
struct Best {
  double score = -std::numeric_limits<double>::infinity();
  int32_t id = kUnknown;
  uint32_t n_bytes = 0;
};

class UgmTokenizer final : public Tokenizer {
 public:
  explicit UgmTokenizer(std::shared_ptr<const Vocab> vocab) : Tokenizer(std::move(vocab)) {}

  Result<> prepare();

  void append_piece(int32_t id, std::string& out) const override;

 protected:
  Result<> encode(std::string_view text, bool after_special, std::vector<int32_t>& out) const override;

 private:
  Result<std::string> normalize(std::string_view text, bool after_special) const;
  std::vector<Best> best_ways(std::string_view text) const;
  Result<> emit_unknown(std::string_view text, std::vector<int32_t>& out) const;

  Charsmap charsmap_;
  TokenTrie trie_;
  double unknown_score_ = -kUnknownPenalty;
};

Result<> UgmTokenizer::prepare() {
  TESSERA_ASSIGN(charsmap_, Charsmap::create(vocab().charsmap()));
  std::vector<TokenTrie::Entry> entries;
  double worst = 0;
  for (size_t i = 0; i < vocab().n_tokens(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (vocab().type(id) != TokenType::normal && vocab().type(id) != TokenType::user_defined) continue;
    entries.push_back({vocab().text(id), id});
    worst = std::min(worst, double{vocab().score(id)});
  }
  unknown_score_ = worst - kUnknownPenalty;
  TESSERA_ASSIGN(trie_, TokenTrie::create(std::move(entries)));
  return {};
}

/// Replaces characters by the character map and spaces by U+2581. If the vocabulary removes extra white space, runs of
/// spaces become one, and spaces at both ends are dropped. If the vocabulary adds a space prefix, a space is added in
/// front.
Result<std::string> UgmTokenizer::normalize(std::string_view text, bool after_special) const {
  const bool removes = vocab().remove_extra_whitespaces();
  std::string out;
  bool wants_space = after_special && vocab().add_space_prefix();  // before the next character that is not a space
  const auto append = [&](std::string_view part) {
    for (const char c : part) {
      if (c == ' ' && removes) {
        wants_space = wants_space || !out.empty();
        continue;
      }
      if (std::exchange(wants_space, false)) out += kSpaceSign;
      if (c == ' ') {
        out += kSpaceSign;
      } else {
        out += c;
      }
    }
  };
  while (!text.empty()) {
    const Charsmap::Replacement replacement = charsmap_.find(text);
    if (replacement.n_bytes > 0) {
      append(replacement.text);
      text.remove_prefix(replacement.n_bytes);
    } else {
      const Utf8Step step = next_utf8(text);
      append(step.state == Utf8State::valid ? text.substr(0, step.n_bytes) : kReplacementCharacter);
      text.remove_prefix(step.n_bytes);
    }
    if (out.size() > kMaxTextBytes)
      return fail(ErrorCode::limit, "text to tokenize: over {} bytes once normalised", kMaxTextBytes);
  }
  return out;
}

/// best[i] is the best segmentation of the first i bytes. On equal scores, the one with the longest last token wins.
std::vector<Best> UgmTokenizer::best_ways(std::string_view text) const {
  std::vector<Best> best(text.size() + 1);
  best[0].score = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t n_first = next_code_point(text.substr(begin)).n_bytes;
    const double score = best[begin].score;
    const auto offer = [&](int32_t id, size_t n_bytes, double with) {
      Best& there = best[begin + n_bytes];
      if (there.n_bytes == 0 || with > there.score) there = {with, id, static_cast<uint32_t>(n_bytes)};
    };
    bool has_first = false;
    uint32_t node = 0;
    for (size_t i = begin; i < text.size(); ++i) {
      node = trie_.child(node, text[i]);
      if (node == 0) break;
      const int32_t id = trie_.id(node);
      if (id < 0) continue;
      offer(id, i + 1 - begin, score + double{vocab().score(id)});
      has_first = has_first || i + 1 - begin == n_first;
    }
    if (!has_first) offer(kUnknown, n_first, score + unknown_score_);
    begin += n_first;
  }
  return best;
}

Result<> UgmTokenizer::encode(std::string_view text, bool after_special, std::vector<int32_t>& out) const {
  TESSERA_ASSIGN(const std::string normalized, normalize(text, after_special));
  const std::vector<Best> best = best_ways(normalized);
  std::vector<uint32_t> ends;
  for (size_t end = normalized.size(); end > 0; end -= best[end].n_bytes) ends.push_back(static_cast<uint32_t>(end));
  size_t unknown_begin = 0;
  size_t n_unknown = 0;  // bytes: adjacent unknown code points form one unknown token
  for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
    const Best& step = best[*end];
    if (step.id == kUnknown) {
      if (n_unknown == 0) unknown_begin = *end - step.n_bytes;
      n_unknown += step.n_bytes;
      continue;
    }
    TESSERA_TRY(emit_unknown(std::string_view(normalized).substr(unknown_begin, std::exchange(n_unknown, 0)), out));
    out.push_back(step.id);
  }
  return emit_unknown(std::string_view(normalized).substr(unknown_begin, n_unknown), out);
}

/// Appends the byte tokens of text that no token spells, or one unknown token if some byte tokens are missing.
Result<> UgmTokenizer::emit_unknown(std::string_view text, std::vector<int32_t>& out) const {
  if (text.empty()) return {};
  const size_t n_before = out.size();
  for (const char c : text)
    if (const auto byte = vocab().byte_token(static_cast<uint8_t>(c))) out.push_back(*byte);
  if (out.size() - n_before == text.size()) return {};
  const auto unknown = vocab().special(SpecialToken::unknown);
  if (!unknown)
    return fail(ErrorCode::not_found, "text {}: no token, byte tokens or unknown token for it in the vocabulary",
                quote_text(text));
  out.resize(n_before);
  out.push_back(*unknown);
  return {};
}

void UgmTokenizer::append_piece(int32_t id, std::string& out) const { append_signed_piece(vocab(), id, out); }

}  // namespace

Result<std::unique_ptr<const Tokenizer>> make_ugm_tokenizer(std::shared_ptr<const Vocab> vocab) {
  auto tokenizer = std::make_unique<UgmTokenizer>(std::move(vocab));
  TESSERA_TRY(tokenizer->prepare());
  return tokenizer;
}

}  // namespace tessera::text
