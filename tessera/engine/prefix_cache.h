// The prefix cache of a session: what sequences have computed stays in retained blocks, and later sequences with the
// same start continue from it. The server's scheduler uses it, on the thread of the session.
//
// Results have the same bits as without the cache. Tokens are compared, not hashes, and a root separates what must not
// be shared. Positions begin at 0 and are never shifted: drop() a sequence before it is changed otherwise than by
// decode().
//
// The life of a sequence:
//   attach(s, root, prompt)    the sequence is empty; continue at the returned position
//   make_room(batch)           before each decode(): blocks that nobody uses become free
//   insert(s, tokens)          after each decode(): full blocks enter the cache
//   insert(s, tokens, mark)    instead, at positions where later requests may resume, such as the end of a message
//   insert(s, tokens, end)     the last block enters as well, although it is not full
//   drop(s)                    before Session::remove()
//
// A sequence of n tokens needs ceil(n / 64) - match.n_tokens / 64 new blocks of group 0. It can have
// n_available_blocks() - match.n_idle_blocks.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/engine/prefix_tree.h"
#include "tessera/engine/session.h"

namespace tessera {

/// Sequences share blocks only if their roots are the same.
struct PrefixRoot {
  std::string salt{};                    // separates clients that must not learn of one another's prompts
  std::vector<AdapterScale> adapters{};  // with which the sequence is computed, as in Session::set_adapters()

  friend bool operator==(const PrefixRoot&, const PrefixRoot&) = default;
};

/// The cached start of certain tokens.
struct PrefixMatch {
  int32_t n_tokens = 0;       // need not be computed: always fewer than there are
  int64_t n_blocks = 0;       // blocks of group 0 that it would share, the last one perhaps in part
  int64_t n_idle_blocks = 0;  // of these, the ones that no sequence uses: they are no longer room for others
};

/// Counts since the creation of the cache, and present sizes.
struct PrefixCounters {
  int64_t n_lookups = 0, n_hits = 0;  // attach(): all, and those that reused tokens
  int64_t n_tokens_asked = 0, n_tokens_reused = 0;
  int64_t n_evicted_blocks = 0, n_evicted_marks = 0;
  int64_t n_blocks = 0, n_blocks_in_use = 0;  // nodes of the tree, and those on the path of a sequence
  int64_t n_marks = 0;
};

class PrefixCache {
 public:
  /// Most marks on the path of a sequence; beyond it the densest go.
  static constexpr int32_t kBranchMarks = 32;

  /// The session must outlive the cache. Errors: those of Session::require_retainable(); invalid_argument.
  static Result<std::unique_ptr<PrefixCache>> create(Session& session, int32_t n_branch_marks = kBranchMarks);
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;
  ~PrefixCache() { clear(); }

  /// Without effect on the cache. Takes time linear in the matched tokens, as attach() does.
  PrefixMatch match(const PrefixRoot& root, std::span<const int32_t> tokens) const;
  /// The whole blocks of the longest cached start of `tokens`, as the session numbers them. The last token is no
  /// exception here. Without effect on the cache; time is linear in the tokens.
  std::vector<int32_t> blocks_of(const PrefixRoot& root, std::span<const int32_t> tokens) const;
  /// The positions of the marks that the cache has in `tokens`, also at their end. Likewise without effect.
  std::vector<int32_t> marks_of(const PrefixRoot& root, std::span<const int32_t> tokens) const;
  /// The mark at the end of `tokens`. Null: there is none. It stays until the cache changes.
  struct HeldMark {
    const Mark* mark = nullptr;
    int32_t block = -1;  // of group 0, the last one
  };
  HeldMark mark_at(const PrefixRoot& root, std::span<const int32_t> tokens) const;
  /// Gives an empty sequence the longest cached start of `tokens`, but not the last token. In a model with windows or
  /// recurrent states it ends at a mark. The sequence is known to the cache until drop(). Errors: invalid_argument (no
  /// such sequence, it is not empty, or its adapters are not those of the root); then it is not known.
  Result<PrefixMatch> attach(int32_t sequence, const PrefixRoot& root, std::span<const int32_t> tokens);
  /// Makes a sequence known without reusing anything. It may store tokens from position 0 on, such as a restored one.
  /// Errors: as attach(), but it need not be empty.
  Result<> begin(int32_t sequence, const PrefixRoot& root);
  /// `to`, which the cache does not know yet, continues like `from`. Call it after Session::copy() of all positions.
  Result<> fork(int32_t from, int32_t to);

  /// The fate of the tokens after the last full block of a sequence.
  enum class Tail : uint8_t {
    open,  // the sequence goes on: only full blocks enter the cache
    mark,  // a later request may resume here. Only models that need_marks() keep it
    end,   // the sequence ends, or pauses: the last block enters as well
  };
  /// Adds a sequence's tokens from position 0 on, of which the earlier ones were added before. Of blocks that are
  /// cached already the sequence gets the cached ones, and its own become free. A sequence that is not known is left
  /// alone. Time is linear in the new tokens. With a mark or an end, `tokens` must be all that the sequence stores.
  /// Errors: invalid_argument (fewer tokens than before, or tokens that it does not store).
  Result<> insert(int32_t sequence, std::span<const int32_t> tokens, Tail tail = Tail::open);
  /// The sequence is no longer known, and its blocks may be evicted.
  void drop(int32_t sequence);

  /// Evicts what was least recently used until the batch fits: blocks of leaves, and marks if a group with a window is
  /// full. Errors: limit (it cannot fit). Evicts nothing if not even all idle blocks are enough.
  Result<> make_room(std::span<const BatchToken> tokens);
  /// Likewise until groups have these numbers of free blocks.
  Result<> make_room(std::span<const int64_t> n_blocks);
  /// Releases everything. Sequences keep their blocks and are no longer known.
  void clear();

  PrefixCounters counters() const;
  /// Blocks of a group that make_room() can provide: the free ones, and those that only the cache keeps.
  int64_t n_available_blocks(size_t group = 0) const;

 private:
  // The mark of a node. The node has another serial if it was removed.
  struct BranchMark {
    PrefixNode* node;
    uint64_t serial;
    int32_t position;
  };
  // A sequence on its way down the tree.
  struct Cursor {
    PrefixNode* node = nullptr;       // of its last full block; null: the sequence is not known
    std::vector<BranchMark> marks{};  // of its path, ascending; some may be gone
  };
  struct Found {
    PrefixNode* node = nullptr;     // of the last full block, or the root; null: no such root
    PrefixNode* partial = nullptr;  // the child of which the last block is used in part; null: none
    int32_t n_tokens = 0;
  };

  explicit PrefixCache(Session& session) : session_(&session) {}
  const KvGroup& blocks() const { return session_->cache().groups()[0]; }
  Result<> require_sequence(int32_t sequence) const;
  Result<> require_adapters(int32_t sequence, const PrefixRoot& root) const;
  void start(int32_t sequence, PrefixNode* node);
  bool stores(int32_t sequence, int64_t position) const;
  Found find(const std::string& key, std::span<const int32_t> tokens) const;
  Found find_mark(PrefixNode* node, std::span<const int32_t> rest) const;
  PrefixMatch summary(const Found& found) const;
  std::vector<BranchMark> marks_to(PrefixNode* node) const;
  PrefixNode* descend(const PrefixRoot& root, std::span<const int32_t>& tokens) const;
  Result<> insert_block(int32_t sequence, Cursor& cursor, std::span<const int32_t> tokens);
  Result<> replace_prefixes(int32_t sequence, PrefixNode* node);
  Result<> insert_partial(int32_t sequence, PrefixNode* parent, std::span<const int32_t> tokens);
  Result<> insert_mark(int32_t sequence, Cursor& cursor, std::span<const int32_t> rest);
  void thin_marks(Cursor& cursor);
  bool may_have_room(std::span<const int64_t> n_blocks, int64_t n_fewer) const;
  Result<> evict_for(std::span<const int64_t> n_blocks);
  void release_mark(PrefixNode* node);
  void remove_leaf(PrefixNode* node);
  void prune(PrefixNode* node);

  Session* session_;
  PrefixTree tree_;
  std::vector<Cursor> cursors_;  // by sequence
  size_t n_branch_marks_ = kBranchMarks;
  PrefixCounters counters_;  // without sizes
};

}  // namespace tessera
