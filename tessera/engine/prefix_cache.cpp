#include "tessera/engine/prefix_cache.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "tessera/base/index.h"

namespace tessera {

namespace {

using Tokens = std::span<const int32_t>;

constexpr auto kBlock = static_cast<size_t>(kKvBlockTokens);

// Adapters that are not 0, ascending; of repeated ones the last, as in AdapterSet::set().
std::vector<AdapterScale> canonical(std::vector<AdapterScale> scales) {
  std::ranges::reverse(scales);
  std::ranges::stable_sort(scales, {}, &AdapterScale::adapter);
  const auto repeats = std::ranges::unique(scales, {}, &AdapterScale::adapter);
  scales.erase(repeats.begin(), repeats.end());
  std::erase_if(scales, [](const AdapterScale& s) { return s.scale == 0; });
  return scales;
}

void append_number(std::string& key, uint64_t number) {
  for (int shift = 0; shift < 64; shift += 8) key.push_back(static_cast<char>(number >> shift & 255));
}

// The number of adapters in front keeps keys apart whatever the salt is.
std::string key_of(const PrefixRoot& root) {
  const std::vector<AdapterScale> adapters = canonical(root.adapters);
  std::string key;
  append_number(key, adapters.size());
  for (const auto& [adapter, scale] : adapters) {
    append_number(key, adapter);
    append_number(key, std::bit_cast<uint32_t>(scale));
  }
  return key + root.salt;
}

}  // namespace

Result<std::unique_ptr<PrefixCache>> PrefixCache::create(Session& session, int32_t n_branch_marks) {
  TESSERA_TRY(session.require_retainable());
  if (n_branch_marks < 1)
    return fail(ErrorCode::invalid_argument, "{} marks per branch, want at least 1", n_branch_marks);
  std::unique_ptr<PrefixCache> cache(new PrefixCache(session));
  cache->cursors_.resize(to_size(session.options().n_sequences));
  cache->n_branch_marks_ = to_size(n_branch_marks);
  return cache;
}

// --- finding

PrefixCache::Found PrefixCache::find(const std::string& key, Tokens tokens) const {
  PrefixNode* node = tree_.find_root(key);
  if (node == nullptr || tokens.empty()) return {};
  Tokens rest = tokens.first(tokens.size() - 1);  // the logits of the last token are wanted
  while (rest.size() >= kBlock) {
    PrefixNode* child = PrefixTree::find_child(*node, rest.first(kBlock));
    if (child == nullptr) break;
    node = child;
    rest = rest.subspan(kBlock);
  }
  rest = rest.first(std::min(rest.size(), kBlock));
  if (session_->needs_marks()) return find_mark(node, rest);
  const auto [child, n_common] = PrefixTree::longest_common(*node, rest);
  return {.node = node, .partial = child, .n_tokens = node->end + n_common};
}

// The last mark on the path to `node`, or after it within `rest`.
PrefixCache::Found PrefixCache::find_mark(PrefixNode* node, Tokens rest) const {
  while (true) {
    PrefixNode* partial = PrefixTree::longest_prefix(*node, rest);
    if (partial != nullptr) return {.node = node, .partial = partial, .n_tokens = partial->end};
    if (node->is_root() || node->mark) return {.node = node, .n_tokens = node->end};
    rest = node->tokens;
    node = node->parent;
  }
}

PrefixMatch PrefixCache::summary(const Found& found) const {
  PrefixMatch match{.n_tokens = found.n_tokens};
  const auto count = [&](const PrefixNode& node) {
    ++match.n_blocks;
    if (blocks().is_idle(node.block)) ++match.n_idle_blocks;
  };
  if (found.partial != nullptr) count(*found.partial);
  for (const PrefixNode* node = found.node; node != nullptr && !node->is_root(); node = node->parent) count(*node);
  return match;
}

PrefixMatch PrefixCache::match(const PrefixRoot& root, Tokens tokens) const {
  return summary(find(key_of(root), tokens));
}

std::vector<int32_t> PrefixCache::blocks_of(const PrefixRoot& root, Tokens tokens) const {
  std::vector<int32_t> found;
  const PrefixNode* node = tree_.find_root(key_of(root));
  for (; node != nullptr && tokens.size() >= kBlock; tokens = tokens.subspan(kBlock)) {
    node = PrefixTree::find_child(*node, tokens.first(kBlock));
    if (node != nullptr) found.push_back(node->block);
  }
  return found;
}

// All marks on the path to a node, also those inside its blocks.
std::vector<PrefixCache::BranchMark> PrefixCache::marks_to(PrefixNode* node) const {
  std::vector<BranchMark> marks;
  const auto add = [&](PrefixNode* n) { marks.push_back({n, n->serial, n->end}); };
  for (; !node->is_root(); node = node->parent) {
    if (node->mark) add(node);
    Tokens rest = node->tokens;
    while (PrefixNode* partial = PrefixTree::longest_prefix(*node->parent, rest)) {
      add(partial);
      rest = rest.first(partial->tokens.size() - 1);
    }
  }
  std::ranges::reverse(marks);
  return marks;
}

// The last node of a path of whole blocks, after which `tokens` are left. Null: no such root.
PrefixNode* PrefixCache::descend(const PrefixRoot& root, Tokens& tokens) const {
  PrefixNode* node = tree_.find_root(key_of(root));
  while (node != nullptr && tokens.size() >= kBlock) {
    PrefixNode* child = PrefixTree::find_child(*node, tokens.first(kBlock));
    if (child == nullptr) break;
    node = child;
    tokens = tokens.subspan(kBlock);
  }
  return node;
}

std::vector<int32_t> PrefixCache::marks_of(const PrefixRoot& root, Tokens tokens) const {
  PrefixNode* node = descend(root, tokens);
  if (node == nullptr) return {};
  std::vector<int32_t> positions;
  Tokens rest = tokens.first(std::min(tokens.size(), kBlock - 1));
  while (const PrefixNode* partial = PrefixTree::longest_prefix(*node, rest)) {
    if (partial->mark) positions.push_back(partial->end);
    rest = rest.first(partial->tokens.size() - 1);
  }
  std::vector<BranchMark> marks = marks_to(node);
  std::ranges::reverse(marks);
  for (const BranchMark& of_path : marks)
    if (of_path.node->mark) positions.push_back(of_path.position);
  std::ranges::reverse(positions);
  return positions;
}

PrefixCache::HeldMark PrefixCache::mark_at(const PrefixRoot& root, Tokens tokens) const {
  const PrefixNode* node = descend(root, tokens);
  if (node != nullptr && !tokens.empty()) node = PrefixTree::find_child(*node, tokens);
  if (node == nullptr || !node->mark) return {};
  return {.mark = &*node->mark, .block = node->block};
}

// --- sequences

Result<> PrefixCache::require_sequence(int32_t sequence) const {
  if (sequence >= 0 && sequence < std::ssize(cursors_)) return {};
  return fail(ErrorCode::invalid_argument, "sequence {}, want 0 to {}", sequence, cursors_.size() - 1);
}

Result<> PrefixCache::require_adapters(int32_t sequence, const PrefixRoot& root) const {
  const auto is_same = [](const AdapterScale& a, const AdapterScale& b) {
    return a.adapter == b.adapter && a.scale == b.scale;
  };
  if (std::ranges::equal(canonical(root.adapters), session_->adapters_of(sequence), is_same)) return {};
  return fail(ErrorCode::invalid_argument, "sequence {} has other adapters than the root", sequence);
}

void PrefixCache::start(int32_t sequence, PrefixNode* node) {
  tree_.use_path(node);
  cursors_[to_size(sequence)].node = node;
}

Result<> PrefixCache::begin(int32_t sequence, const PrefixRoot& root) {
  TESSERA_TRY(require_sequence(sequence));
  drop(sequence);
  TESSERA_TRY(require_adapters(sequence, root));
  start(sequence, tree_.add_root(key_of(root)));
  return {};
}

Result<PrefixMatch> PrefixCache::attach(int32_t sequence, const PrefixRoot& root, Tokens tokens) {
  TESSERA_TRY(require_sequence(sequence));
  drop(sequence);
  if (session_->max_position(sequence))
    return fail(ErrorCode::invalid_argument, "attach: sequence {} has positions already", sequence);
  TESSERA_TRY(require_adapters(sequence, root));
  const std::string key = key_of(root);
  Found found = find(key, tokens);
  const PrefixMatch match = summary(found);
  if (found.n_tokens > 0) {
    std::vector<int32_t> path;
    if (found.partial != nullptr) path.push_back(found.partial->block);
    for (const PrefixNode* node = found.node; !node->is_root(); node = node->parent) path.push_back(node->block);
    std::ranges::reverse(path);
    PrefixNode* last = found.partial != nullptr ? found.partial : found.node;
    TESSERA_TRY(session_->attach(sequence, path, found.n_tokens, last->mark.value_or(Mark{})));
    if (found.partial != nullptr) tree_.touch(found.partial);
    if (last->mark) tree_.touch_mark(last);
  }
  if (found.node == nullptr) found.node = tree_.add_root(key);
  start(sequence, found.node);
  if (session_->needs_marks()) {
    Cursor& cursor = cursors_[to_size(sequence)];
    cursor.marks = marks_to(found.node);
    if (found.partial != nullptr) cursor.marks.push_back({found.partial, found.partial->serial, found.partial->end});
  }
  ++counters_.n_lookups;
  if (match.n_tokens > 0) ++counters_.n_hits;
  counters_.n_tokens_asked += std::ssize(tokens);
  counters_.n_tokens_reused += match.n_tokens;
  return match;
}

Result<> PrefixCache::fork(int32_t from, int32_t to) {
  TESSERA_TRY(require_sequence(from));
  TESSERA_TRY(require_sequence(to));
  if (from == to) return {};
  drop(to);
  const Cursor& source = cursors_[to_size(from)];
  if (source.node == nullptr) return {};
  if (source.node->end > 0 && !stores(to, source.node->end - 1))
    return fail(ErrorCode::invalid_argument, "fork: sequence {} does not store position {}", to, source.node->end - 1);
  start(to, source.node);
  cursors_[to_size(to)].marks = source.marks;
  return {};
}

// --- adding

bool PrefixCache::stores(int32_t sequence, int64_t position) const {
  return position < session_->n_ctx() && blocks().holds(sequence, static_cast<int32_t>(position));
}

Result<> PrefixCache::insert(int32_t sequence, Tokens tokens, Tail tail) {
  TESSERA_TRY(require_sequence(sequence));
  Cursor& cursor = cursors_[to_size(sequence)];
  if (cursor.node == nullptr || tokens.empty()) return {};
  if (std::ssize(tokens) < cursor.node->end)
    return fail(ErrorCode::invalid_argument, "insert: {} tokens of sequence {}, want at least the {} of earlier calls",
                tokens.size(), sequence, cursor.node->end);
  const bool is_stored = stores(sequence, std::ssize(tokens) - 1);
  if (!is_stored || (tail != Tail::open && stores(sequence, std::ssize(tokens))))
    return fail(ErrorCode::invalid_argument, "insert: {} tokens, but sequence {} stores {}", tokens.size(), sequence,
                is_stored ? "more" : "fewer");
  Tokens rest = tokens.subspan(to_size(cursor.node->end));
  for (; rest.size() >= kBlock; rest = rest.subspan(kBlock))
    TESSERA_TRY(insert_block(sequence, cursor, rest.first(kBlock)));
  if (tail == Tail::open) return {};
  if (session_->needs_marks()) return insert_mark(sequence, cursor, rest);
  if (tail == Tail::mark || rest.empty()) return {};
  return insert_partial(sequence, cursor.node, rest);
}

Result<> PrefixCache::insert_block(int32_t sequence, Cursor& cursor, Tokens tokens) {
  const int64_t logical = cursor.node->end / kKvBlockTokens;
  PrefixNode* child = PrefixTree::find_child(*cursor.node, tokens);
  if (child != nullptr) {
    TESSERA_TRY(session_->merge_block(sequence, logical, child->block));
  } else {
    TESSERA_ASSIGN(const int32_t block, session_->retain_block(sequence, logical));
    child = tree_.add_child(cursor.node, tokens, block);
    TESSERA_TRY(replace_prefixes(sequence, child));
  }
  tree_.use_child(child);
  if (child->mark) cursor.marks.push_back({child, child->serial, child->end});
  cursor.node = child;
  return {};
}

// Partial siblings with which a new node begins are not needed any more. Those with a mark stay, in the node's block.
Result<> PrefixCache::replace_prefixes(int32_t sequence, PrefixNode* node) {
  Tokens rest = Tokens(node->tokens).first(node->tokens.size() - 1);
  while (PrefixNode* partial = PrefixTree::longest_prefix(*node->parent, rest)) {
    rest = rest.first(partial->tokens.size() - 1);
    if (!partial->mark) {
      remove_leaf(partial);
      continue;
    }
    TESSERA_ASSIGN(const int32_t block, session_->retain_block(sequence, node->parent->end / kKvBlockTokens));
    session_->release_block(std::exchange(partial->block, block));
  }
  return {};
}

Result<> PrefixCache::insert_partial(int32_t sequence, PrefixNode* parent, Tokens tokens) {
  const auto [child, n_common] = PrefixTree::longest_common(*parent, tokens);
  if (child != nullptr && to_size(n_common) == tokens.size()) {  // another sequence went on from here
    tree_.touch(child);
    return {};
  }
  TESSERA_ASSIGN(const int32_t block, session_->retain_block(sequence, parent->end / kKvBlockTokens));
  return replace_prefixes(sequence, tree_.add_child(parent, tokens, block));
}

Result<> PrefixCache::insert_mark(int32_t sequence, Cursor& cursor, Tokens rest) {
  PrefixNode* node = rest.empty() ? cursor.node : PrefixTree::find_child(*cursor.node, rest);
  if (node != nullptr && node->mark) {
    tree_.touch(node);
    tree_.touch_mark(node);
  } else {
    if (session_->n_free_marks() == 0) {
      if (tree_.oldest_mark() == nullptr) return {};  // no room at all
      release_mark(tree_.oldest_mark());
    }
    TESSERA_ASSIGN(Mark mark, session_->retain_mark(sequence));
    if (node == nullptr) {
      auto block = session_->retain_block(sequence, cursor.node->end / kKvBlockTokens);
      if (!block) {
        session_->release_mark(mark);
        return forward_error(block);
      }
      node = tree_.add_child(cursor.node, rest, *block);
    }
    tree_.set_mark(node, std::move(mark));
  }
  if (cursor.marks.empty() || cursor.marks.back().position < node->end)
    cursor.marks.push_back({node, node->serial, node->end});
  thin_marks(cursor);
  return {};
}

// The mark whose neighbours are nearest to one another goes, but never the last one.
void PrefixCache::thin_marks(Cursor& cursor) {
  std::vector<BranchMark>& marks = cursor.marks;
  std::erase_if(marks, [](const BranchMark& m) { return m.node->serial != m.serial || !m.node->mark; });
  while (marks.size() > n_branch_marks_) {
    const auto gap = [&](size_t i) { return marks[i + 1].position - (i == 0 ? 0 : marks[i - 1].position); };
    size_t densest = 0;
    for (size_t i = 1; i + 1 < marks.size(); ++i)
      if (gap(i) < gap(densest)) densest = i;
    release_mark(marks[densest].node);
    marks.erase(marks.begin() + static_cast<ptrdiff_t>(densest));
  }
}

void PrefixCache::drop(int32_t sequence) {
  if (sequence < 0 || sequence >= std::ssize(cursors_)) return;
  const Cursor cursor = std::exchange(cursors_[to_size(sequence)], {});
  if (cursor.node == nullptr) return;
  tree_.leave_path(cursor.node);
  prune(cursor.node);
}

// --- removing

void PrefixCache::release_mark(PrefixNode* node) {
  session_->release_mark(tree_.take_mark(node));
  ++counters_.n_evicted_marks;
  prune(node);
}

void PrefixCache::remove_leaf(PrefixNode* node) {
  if (node->mark) session_->release_mark(tree_.take_mark(node));
  session_->release_block(node->block);
  tree_.remove(node);
}

// In a model that needs marks, a leaf without a mark is of no use. Roots go with their last child.
void PrefixCache::prune(PrefixNode* node) {
  while (!node->is_root() && node->children.empty() && node->n_users == 0 && session_->needs_marks() && !node->mark) {
    PrefixNode* parent = node->parent;
    remove_leaf(node);
    node = parent;
  }
  if (node->is_root()) tree_.remove_unused_root(node);
}

// n_fewer: blocks that eviction may save beside the ones that it frees.
bool PrefixCache::may_have_room(std::span<const int64_t> n_blocks, int64_t n_fewer) const {
  const std::span<const KvGroup> groups = session_->cache().groups();
  for (size_t g = 0; g < std::min(groups.size(), n_blocks.size()); ++g)
    if (n_blocks[g] - n_fewer > n_available_blocks(g)) return false;
  return true;
}

Result<> PrefixCache::evict_for(std::span<const int64_t> n_blocks) {
  const std::span<const KvGroup> groups = session_->cache().groups();
  for (size_t g = 0; g < std::min(groups.size(), n_blocks.size()); ++g)
    while (groups[g].n_free_blocks() < n_blocks[g]) {
      PrefixNode* node = g == 0 ? tree_.oldest_leaf() : tree_.oldest_mark();
      if (node == nullptr) return groups[g].require_blocks(n_blocks[g]);
      if (g > 0) {
        release_mark(node);
        continue;
      }
      PrefixNode* parent = node->parent;
      counters_.n_evicted_marks += node->mark.has_value();
      ++counters_.n_evicted_blocks;
      remove_leaf(node);
      prune(parent);
    }
  return {};
}

Result<> PrefixCache::make_room(std::span<const int64_t> n_blocks) {
  if (may_have_room(n_blocks, 0)) return evict_for(n_blocks);
  for (size_t g = 0; g < n_blocks.size(); ++g) TESSERA_TRY(session_->cache().groups()[g].require_blocks(n_blocks[g]));
  return {};
}

// A sequence does not copy its last block before it writes if the cache no longer retains it. So eviction may need one
// block less per sequence.
Result<> PrefixCache::make_room(std::span<const BatchToken> tokens) {
  std::vector<int32_t> sequences;
  for (const BatchToken& t : tokens) sequences.push_back(t.sequence);
  std::ranges::sort(sequences);
  const auto n_sequences = std::ranges::unique(sequences).begin() - sequences.begin();
  const std::vector<int64_t> n_blocks = session_->cache().blocks_to_decode(tokens);
  if (!may_have_room(n_blocks, n_sequences)) return make_room(n_blocks);
  auto done = evict_for(n_blocks);
  return done ? done : evict_for(session_->cache().blocks_to_decode(tokens));
}

void PrefixCache::clear() {
  for (int32_t sequence = 0; sequence < std::ssize(cursors_); ++sequence) drop(sequence);
  while (PrefixNode* leaf = tree_.oldest_leaf()) {
    PrefixNode* parent = leaf->parent;
    remove_leaf(leaf);
    prune(parent);
  }
}

int64_t PrefixCache::n_available_blocks(size_t group) const {
  const KvGroup& of = session_->cache().groups()[group];
  return of.n_free_blocks() + of.n_idle_blocks();
}

PrefixCounters PrefixCache::counters() const {
  PrefixCounters counters = counters_;
  counters.n_blocks = tree_.n_nodes();
  counters.n_blocks_in_use = tree_.n_used();
  counters.n_marks = tree_.n_marks();
  return counters;
}

}  // namespace tessera
