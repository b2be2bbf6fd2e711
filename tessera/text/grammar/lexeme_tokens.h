// The tokens that fit a state of a lexeme, whatever is around the lexeme. They are found once for a vocabulary and
// shared by all grammars with such a lexeme.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "tessera/text/grammar/lexeme_states.h"
#include "tessera/text/grammar/token_row.h"
#include "tessera/text/grammar/vocab_tree.h"

namespace tessera::text::grammar {

class LexemeTokens {
 public:
  /// A state with nearly the same tokens.
  struct Base {
    LexemeStates::State state;
    bool is_clipped;        // the states differ only in bounds of repetitions
    size_t completion = 0;  // then: bytes by which the common length of their texts is that of their beginnings
  };
  /// The base of a state, if it has one beside itself.
  static std::optional<Base> base_of(LexemeStates::State state, LexemeStates& lexemes, ExpressionArena& arena);

  /// Finds the tokens, or what makes them differ from those of the base. tags: those of the lexemes that begin at the
  /// state.
  LexemeTokens(LexemeStates::State state, const std::optional<Base>& base, std::span<const uint32_t> tags,
               LexemeStates& lexemes, ExpressionArena& arena, const VocabTree& tree, size_t n_tokens);

  /// The end of a lexeme within tokens.
  struct Exit {
    std::vector<uint32_t> tags;   // of the lexemes that end, as places in the constructor's tags
    std::vector<int32_t> at_end;  // tokens that end with the lexeme and are not inside
    std::vector<uint32_t> nodes;  // of the vocabulary's tree, where the lexeme ends
    mutable std::map<uint8_t, std::unique_ptr<const VocabTree>> rests{};  // by their first byte, once they are needed
  };

  /// Tokens after which the lexeme goes on, beside those of the base.
  const TokenRow& inside() const { return inside_; }
  /// Tokens that the base has. This has them only if they are inside or if an exit leads to them.
  std::span<const int32_t> removed() const { return removed_; }
  /// Beside those of the base.
  std::span<const Exit> exits() const { return exits_; }

  /// The rests of tokens that go on with a byte after an exit, as a tree; null if there is none.
  const VocabTree* rests(const Exit& exit, uint8_t byte, const VocabTree& tree) const;

  size_t n_bytes() const;

 private:
  class Walk;

  TokenRow inside_;
  std::vector<int32_t> removed_;
  std::vector<Exit> exits_;
  mutable std::mutex mutex_;  // of the rests
};

/// Keeps the tokens that were used last, up to a number of bytes. Any number of threads may use it.
class LexemeTokensCache {
 public:
  using Key = std::vector<uint32_t>;  // ExpressionArena::structure()
  using Value = std::shared_ptr<const LexemeTokens>;

  explicit LexemeTokensCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  Value find(const Key& key);
  void insert(Key key, Value value);

 private:
  struct Entry {
    Key key;
    Value value;
    size_t n_bytes;
  };
  struct HashOfKey {
    size_t operator()(const Key& key) const;
  };

  size_t max_bytes_;
  size_t n_bytes_ = 0;
  std::mutex mutex_;
  std::list<Entry> entries_;  // the one that was used last is the first
  std::unordered_map<std::reference_wrapper<const Key>, std::list<Entry>::iterator, HashOfKey, std::equal_to<Key>>
      by_key_;
};

}  // namespace tessera::text::grammar
