#include "tessera/server/models/grammar_cache.h"

namespace tessera::server {

namespace {

// With the entries of maps and lists, and the reserve of vectors that grow by doubling.
constexpr size_t kFixedBytes = 128 << 10;  // the arena's table of derivatives, and the objects
constexpr size_t kExpressionBytes = 2 * (96 + 16 * sizeof(uint32_t));  // a node and the most parts of n_nodes()
constexpr size_t kLexemeStateBytes = 1024;                             // a row, classes of 256 bytes twice, tags
constexpr size_t kEdgeBytes = 2 * sizeof(text::grammar::Edge);
constexpr size_t kRuleStateBytes = 256;
constexpr size_t kRuleBytes = 512;

}  // namespace

size_t GrammarCache::bytes_of(const text::grammar::Grammar& grammar) {
  const text::grammar::Rules& rules = grammar.rules();
  return kFixedBytes + kExpressionBytes * grammar.expressions().n_nodes() +
         kLexemeStateBytes * grammar.lexemes().size() + kEdgeBytes * rules.n_edges() +
         kRuleStateBytes * rules.n_states() + kRuleBytes * rules.n_rules();
}

size_t GrammarCache::n_bytes() const {
  const std::lock_guard lock(mutex_);
  return n_bytes_;
}

std::shared_ptr<const text::grammar::Grammar> GrammarCache::find(const Digest& key) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(key);
  if (place == places_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, place->second);
  return place->second->grammar;
}

// Another thread may have compiled the same text meanwhile. Then its grammar stays.
void GrammarCache::keep(const Digest& key, const std::shared_ptr<const text::grammar::Grammar>& grammar) {
  const size_t n_bytes = bytes_of(*grammar);
  if (n_bytes > limit_bytes_) return;
  const std::lock_guard lock(mutex_);
  if (places_.contains(key)) return;
  while (n_bytes_ + n_bytes > limit_bytes_) {
    n_bytes_ -= entries_.back().n_bytes;
    places_.erase(entries_.back().key);
    entries_.pop_back();
  }
  entries_.push_front({.key = key, .grammar = grammar, .n_bytes = n_bytes});
  places_.emplace(key, entries_.begin());
  n_bytes_ += n_bytes;
  metrics_.grammar_bytes = static_cast<int64_t>(n_bytes_);
}

text::grammar::GrammarResult GrammarCache::get(Kind kind, std::string_view text,
                                               const std::function<text::grammar::GrammarResult()>& compile) {
  const Digest key = Sha256().add(static_cast<uint64_t>(kind)).add_text(text).finish();
  if (auto known = find(key)) {
    ++metrics_.grammar_hits;
    return known;
  }
  auto compiled = compile();
  ++metrics_.grammars_compiled;
  if (compiled) keep(key, *compiled);
  return compiled;
}

}  // namespace tessera::server
