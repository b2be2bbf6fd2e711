// SentencePiece's greedy merging (Kudo and Richardson 2018): spaces become U+2581, the text starts as code
// points, and of all adjacent pairs that make a token the one with the best score is merged, the leftmost on
// ties, until none is left. What is no token then is spelled in byte tokens.
// A pair of adjacent bytes that occurs inside no token can never be merged across, so the text is first cut
// there (8 KiB table); in prose that leaves words, and the queue stays in the first-level cache. A segment of
// n code points takes 28 n bytes (symbols and queue) before the vectors' slack, and n log n time.
#include "tessera/text/spm.h"

#include <algorithm>
#include <bitset>
#include <optional>
#include <utility>

#include "tessera/text/utf8.h"

namespace tessera::text {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581, what SentencePiece writes for ' '
constexpr uint32_t kNone = UINT32_MAX;

// Part of a segment, in a list in text order. A symbol that was merged into its left neighbour has no bytes.
struct Symbol {
  uint32_t begin;
  uint32_t n_bytes;
  uint32_t previous;
  uint32_t next;
};

// A merge of symbols[left] with its next one, valid while the two still span n_bytes: symbols only grow.
struct Merge {
  float score;
  uint32_t left;
  uint32_t n_bytes;
};

// For a max-heap: the best score on top, then the leftmost.
bool is_worse(const Merge& a, const Merge& b) { return a.score != b.score ? a.score < b.score : a.left > b.left; }

struct Workspace {
  std::vector<Symbol> symbols;
  std::vector<Merge> queue;
};

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
  void propose(std::string_view segment, Workspace& work, uint32_t left) const;
  void merge_all(std::string_view segment, Workspace& work) const;
  Result<> emit(std::string_view symbol, std::vector<int32_t>& out) const;

  std::bitset<65536> joined_;  // pairs of adjacent bytes inside any textual token
  size_t max_token_bytes_ = 0;
};

SpmTokenizer::SpmTokenizer(std::shared_ptr<const Vocab> vocab) : Tokenizer(std::move(vocab)) {
  for (size_t i = 0; i < this->vocab().n_tokens(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (!is_textual(this->vocab().type(id))) continue;
    const std::string_view text = this->vocab().text(id);
    max_token_bytes_ = std::max(max_token_bytes_, text.size());
    for (size_t k = 1; k < text.size(); ++k) joined_.set(pair_index(text[k - 1], text[k]));
  }
}

std::optional<int32_t> SpmTokenizer::find_textual(std::string_view text) const {
  if (text.size() > max_token_bytes_) return std::nullopt;
  const auto id = vocab().find(text);
  return id && is_textual(vocab().type(*id)) ? id : std::nullopt;
}

/// The first boundary of code points after `begin` that no token spans.
size_t SpmTokenizer::segment_end(std::string_view text, size_t begin) const {
  size_t end = begin;
  do {
    end += symbol_bytes(text.substr(end));
  } while (end < text.size() && joined_[pair_index(text[end - 1], text[end])]);
  return end;
}

void SpmTokenizer::propose(std::string_view segment, Workspace& work, uint32_t left) const {
  const Symbol& symbol = work.symbols[left];
  if (symbol.next == kNone) return;
  const uint32_t n_bytes = symbol.n_bytes + work.symbols[symbol.next].n_bytes;
  const auto id = find_textual(segment.substr(symbol.begin, n_bytes));
  if (!id) return;
  work.queue.push_back({vocab().score(*id), left, n_bytes});
  std::push_heap(work.queue.begin(), work.queue.end(), is_worse);
}

void SpmTokenizer::merge_all(std::string_view segment, Workspace& work) const {
  auto& [symbols, queue] = work;
  symbols.clear();
  queue.clear();
  for (size_t begin = 0; begin < segment.size();) {
    const size_t n_bytes = symbol_bytes(segment.substr(begin));
    const auto i = static_cast<uint32_t>(symbols.size());
    const bool is_last = begin + n_bytes == segment.size();
    symbols.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(n_bytes), i == 0 ? kNone : i - 1,
                       is_last ? kNone : i + 1});
    begin += n_bytes;
  }
  for (uint32_t i = 0; i < symbols.size(); ++i) propose(segment, work, i);

  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), is_worse);
    const Merge merge = queue.back();
    queue.pop_back();
    Symbol& left = symbols[merge.left];
    if (left.n_bytes == 0 || left.next == kNone) continue;
    Symbol& right = symbols[left.next];
    if (left.n_bytes + right.n_bytes != merge.n_bytes) continue;
    left.n_bytes = merge.n_bytes;
    left.next = right.next;
    right.n_bytes = 0;
    if (left.next != kNone) symbols[left.next].previous = merge.left;
    if (left.previous != kNone) propose(segment, work, left.previous);
    propose(segment, work, merge.left);
  }
}

Result<> SpmTokenizer::encode(std::string_view text, bool after_special, std::vector<int32_t>& out) const {
  std::string escaped;
  escaped.reserve(text.size() + kSpace.size());
  if (after_special && vocab().add_space_prefix()) escaped += kSpace;
  for (const char c : text) {
    if (c == ' ') {
      escaped += kSpace;
    } else {
      escaped += c;
    }
  }
  const std::string_view all = escaped;
  Workspace work;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = segment_end(all, begin);
    const std::string_view segment = all.substr(begin, end - begin);
    merge_all(segment, work);
    for (uint32_t i = 0; i != kNone; i = work.symbols[i].next)
      TESSERA_TRY(emit(segment.substr(work.symbols[i].begin, work.symbols[i].n_bytes), out));
    begin = end;
  }
  return {};
}

/// The token of a symbol; a code point that is none in bytes, or unknown if the bytes are not all there.
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

void SpmTokenizer::append_piece(int32_t id, std::string& out) const {
  const std::string_view text = vocab().text(id);
  if (vocab().type(id) == TokenType::byte) {
    out += static_cast<char>(vocab().byte_value(id));
    return;
  }
  if (!is_textual(vocab().type(id))) {
    out += text;
    return;
  }
  for (size_t begin = 0; begin < text.size();) {
    const size_t space = std::min(text.find(kSpace, begin), text.size());
    out += text.substr(begin, space - begin);
    if (space < text.size()) out += ' ';
    begin = space + kSpace.size();
  }
}

}  // namespace

std::unique_ptr<const Tokenizer> make_spm_tokenizer(std::shared_ptr<const Vocab> vocab) {
  return std::make_unique<SpmTokenizer>(std::move(vocab));
}

}  // namespace tessera::text
