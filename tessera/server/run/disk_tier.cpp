#include "tessera/server/run/disk_tier.h"

#include <algorithm>
#include <new>
#include <utility>

namespace tessera::server {

namespace {

constexpr auto kErrorPause = std::chrono::seconds(10);   // after a write that failed, as on a full disk
constexpr size_t kMostChains = 64;                       // that wait to be written; older ones go
constexpr size_t kMostInFlight = 4;                      // parts that the disk thread has
constexpr size_t kReadBytes = size_t{4} << 20;           // read at once: what a step waits for when it stores them
constexpr size_t kReadFiles = 256;                       // likewise
constexpr double kFileUnits = 64 << 10;                  // bytes whose reading takes as long as opening a file
constexpr double kReadAverage = 0.2;                     // of the last read in the average
constexpr auto kPartAge = std::chrono::microseconds(1);  // a later part of a chain counts as used earlier
constexpr int64_t kMostSearched = 160;                   // blocks in which a mark is searched: more than their spacing

constexpr auto kBlockRows = static_cast<int32_t>(kKvBlockTokens);

double read_units(size_t n_bytes) { return kFileUnits + static_cast<double>(n_bytes); }

}  // namespace

std::unique_ptr<DiskTier> DiskTier::create(Session& session, Slots& slots, std::shared_ptr<Storage> storage,
                                           const Digest& digest, Hooks hooks) {
  if (!storage || storage->cache() == nullptr) return nullptr;
  return std::unique_ptr<DiskTier>(new DiskTier(session, slots, std::move(storage), digest, std::move(hooks)));
}

Digest DiskTier::digest_of(const PrefixRoot& root) const {
  return root_digest(digest_, root.salt, adapter_keys(session_, root.adapters));
}

// --- reading

bool DiskTier::contains(PrefixKeys& keys, const SavedPart& part) const {
  return storage_->cache()->contains(keys.digest(part));
}

// The last parts are looked up first, because only marks have them.
bool DiskTier::has_mark(PrefixKeys& keys, int64_t position) const {
  std::vector<SavedPart> parts = session_.parts_of_mark(static_cast<int32_t>(position));
  return std::ranges::all_of(parts.rbegin(), parts.rend(), [&](const SavedPart& part) { return contains(keys, part); });
}

// The last mark after n_held and not after n_most that the first blocks lead to; 0: there is none.
int64_t DiskTier::find_mark(PrefixKeys& keys, int64_t n_blocks, int64_t n_held, int64_t n_most) const {
  const int64_t lowest = std::max(n_held, (n_blocks - kMostSearched) * kKvBlockTokens);
  for (int64_t block = n_blocks; block >= 0; --block) {
    const int64_t begin = block * kKvBlockTokens;
    for (int64_t rows = std::min<int64_t>(n_most - begin, kKvBlockTokens - 1); rows >= 0; --rows) {
      if (begin + rows <= lowest) return 0;
      const SavedPart last{.logical = block, .end_row = static_cast<int32_t>(rows)};
      if ((rows == 0 || contains(keys, last)) && has_mark(keys, begin + rows)) return begin + rows;
    }
  }
  return 0;
}

// The blocks on the disk that follow those of a slot without a gap, and the other parts of the last mark after them.
// The last token is always computed.
Result<std::vector<DiskTier::StoredPart>> DiskTier::missing_parts(const Slot& slot) const {
  std::vector<StoredPart> missing;
  const std::span<const int32_t> tokens = slot.sequence->reusable_tokens();
  const int64_t n_most = std::ssize(tokens) - 1, n_held = slot.n_computed;
  if (storage_->cache()->is_empty()) return missing;
  PrefixKeys keys(digest_of(root_of(*slot.sequence)), tokens);
  const auto add = [&](const SavedPart& part) -> Result<> {
    TESSERA_ASSIGN(const size_t n_bytes, session_.part_bytes(part));
    missing.push_back({.part = part, .key = keys.key(part), .n_bytes = n_bytes});
    return {};
  };
  const int64_t first = n_held / kKvBlockTokens;
  int64_t n_blocks = first;
  while ((n_blocks + 1) * kKvBlockTokens <= n_most && contains(keys, {.logical = n_blocks})) ++n_blocks;
  const bool needs_marks = session_.needs_marks();
  const int64_t mark = needs_marks ? find_mark(keys, n_blocks, n_held, n_most) : 0;
  if (needs_marks && mark == 0) return missing;
  if (needs_marks) n_blocks = mark / kKvBlockTokens;
  for (int64_t block = first; block < n_blocks; ++block) TESSERA_TRY(add({.logical = block}));
  for (const SavedPart& part : session_.parts_of_mark(static_cast<int32_t>(mark))) TESSERA_TRY(add(part));
  return missing;
}

bool DiskTier::begin_restore(Slot& slot, bool always) {
  const Sequence& sequence = *slot.sequence;
  if (!sequence.shares_cache() || sequence.spec().slot >= 0)
    return false;  // a request for a slot uses what the slot holds
  auto missing = missing_parts(slot);
  if (!missing || missing->empty()) return false;
  double units = 0;
  int64_t n_after = 0;
  for (const StoredPart& part : *missing) {
    units += read_units(part.n_bytes);
    n_after = std::max(n_after, part.part.end());
  }
  if (!always && read_ms_ * units > hooks_.compute_ms(n_after - slot.n_computed, slot.n_computed)) return false;
  if (!slots_.begin_restore(slot, slot.n_computed / kKvBlockTokens * kKvBlockTokens)) {
    slots_.attach_again(slot);
    return false;
  }
  slot.is_restoring = true;
  restores_[slot.id] = {.id = ++n_restores_, .always = always, .parts = std::move(*missing)};
  read_next(slot);
  return true;
}

void DiskTier::read_next(const Slot& slot) {
  const Restore& restore = restores_[slot.id];
  std::vector<StoredPart> parts;
  size_t n_bytes = 0;
  for (size_t i = restore.n_done; i < restore.parts.size() && parts.size() < kReadFiles; ++i) {
    n_bytes += restore.parts[i].n_bytes;
    if (!parts.empty() && n_bytes > kReadBytes) break;
    parts.push_back(restore.parts[i]);
  }
  ++n_jobs_;
  storage_->post(DiskThread::Lane::urgent, [this, slot = slot.id, id = restore.id, parts = std::move(parts)] {
    auto read = std::make_shared<ReadParts>();
    const auto begin = Clock::now();
    try {
      for (const StoredPart& part : parts) {
        auto payload = storage_->cache()->read(part.key, part.n_bytes);
        if (!payload) break;
        read->payloads.push_back(std::move(*payload));
      }
    } catch (const std::bad_alloc&) {  // the rest is computed
      read->lacks_memory = true;
    }
    read->ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    hooks_.post([this, slot, id, read] { take_parts(slot, id, *read); });
  });
}

void DiskTier::take_parts(int32_t id, uint64_t restore_id, const ReadParts& read) {
  --n_jobs_;
  double units = 0;
  for (const std::vector<std::byte>& payload : read.payloads) units += read_units(payload.size());
  if (units > 0) read_ms_ += (read_ms_ == 0 ? 1 : kReadAverage) * (read.ms / units - read_ms_);
  Slot& slot = slots_.at(id);
  const auto found = restores_.find(id);
  if (!slot.is_restoring || found == restores_.end() || found->second.id != restore_id) return;
  Restore& restore = found->second;
  for (const std::vector<std::byte>& payload : read.payloads) {
    if (!slots_.restore_part(slot, restore.parts[restore.n_done].part, payload)) return give_up(slot, false);
    ++restore.n_done;
  }
  if (restore.n_done == restore.parts.size()) {
    if (session_.needs_marks()) slots_.end_restore(slot);
    return finish(slot);
  }
  if (read.payloads.empty()) return give_up(slot, !read.lacks_memory);
  read_next(slot);
}

// A part is missing or damaged, or there is no room. Without marks the blocks before it are of use. With them the slot
// begins anew, and may find an earlier mark: the store has forgotten the part, so this ends.
void DiskTier::give_up(Slot& slot, bool tries_again) {
  if (!session_.needs_marks()) return finish(slot);
  const bool always = restores_[slot.id].always;
  slots_.attach_again(slot);
  if (!tries_again || !begin_restore(slot, always)) finish(slot);
}

void DiskTier::finish(Slot& slot) {
  restores_.erase(slot.id);
  slot.is_restoring = false;
  hooks_.on_restored(slot);
}

// --- writing

void DiskTier::note_tokens(std::span<const int32_t> tokens, const PrefixRoot& of, Clock::time_point now) {
  if (tokens.empty()) return;
  if (chains_.size() >= kMostChains) chains_.pop_front();
  const auto used = std::chrono::time_point_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now());
  chains_.push_back({.tokens = {tokens.begin(), tokens.end()},
                     .of = of,
                     .due = now + hooks_.write_delay,
                     .used = used,
                     .root = digest_of(of)});
}

std::optional<Clock::time_point> DiskTier::next_write() const {
  if (chains_.empty() || in_flight_.size() >= kMostInFlight) return std::nullopt;
  if (is_flushing_) return Clock::time_point::min();
  return std::max(chains_.front().due, paused_until_);
}

void DiskTier::write_some(Clock::time_point now) {
  try {
    for (auto due = next_write(); due && now >= *due; due = next_write()) {
      if (write_next(chains_.front())) return;
      end_chain();
    }
  } catch (const std::bad_alloc&) {
    chains_.clear();  // the disk tier keeps less, which is no error
  }
}

void DiskTier::begin_flush() {
  is_flushing_ = true;
  std::ranges::reverse(chains_);
}

DiskThread::Lane DiskTier::write_lane() const {
  return is_flushing_ ? DiskThread::Lane::urgent : DiskThread::Lane::background;
}

// Blocks after the last mark are of no use to models that need marks.
void DiskTier::plan_chain(Chain& chain) const {
  chain.keys.emplace(chain.root, chain.tokens);
  int64_t n = 0;
  const auto add_blocks = [&](int64_t n_blocks) {
    for (; n < n_blocks; ++n) chain.parts.push_back({.part = {.logical = n}});
  };
  if (!session_.needs_marks()) return add_blocks(std::ssize(chain.tokens) / kKvBlockTokens);
  for (const int32_t mark : slots_.marks_of(chain.tokens, chain.of)) {
    add_blocks(mark / kKvBlockTokens);
    for (const SavedPart& part : session_.parts_of_mark(mark)) chain.parts.push_back({.part = part, .mark = mark});
  }
}

// The physical block or state slot of a part; -1: it has left memory.
int32_t DiskTier::place_of(const Chain& chain, const ChainPart& of_chain) const {
  const auto& [part, mark] = of_chain;
  const std::span<const int32_t> tokens = chain.tokens;
  if (mark == 0) {
    const auto n_blocks = static_cast<size_t>(part.logical) + 1;
    const std::vector<int32_t> blocks = slots_.blocks_of(tokens.first(n_blocks * kKvBlockTokens), chain.of);
    return blocks.size() == n_blocks ? blocks.back() : -1;
  }
  const PrefixCache::HeldMark held = slots_.mark_at(tokens.first(static_cast<size_t>(mark)), chain.of);
  if (held.mark == nullptr) return -1;
  return part.kind == SavedPart::Kind::block ? held.block : session_.place_of(part, *held.mark);
}

// Finds the next part of a chain that the disk has not, and gives it to the disk thread. False: there is none.
bool DiskTier::write_next(Chain& chain) {
  if (!chain.keys) plan_chain(chain);
  while (chain.n_done < chain.parts.size()) {
    const ChainPart& next = chain.parts[chain.n_done];
    const FileTime used = chain.used - chain.n_done * kPartAge;
    ++chain.n_done;
    StoredPart stored{.part = next.part, .key = chain.keys->key(next.part)};
    if (in_flight_.contains(stored.key.digest)) continue;
    if (storage_->cache()->contains(stored.key.digest)) {
      stored.key.tokens = {};
      chain.on_disk.emplace_back(std::move(stored.key), used);
      continue;
    }
    const int32_t place = place_of(chain, next);
    if (place < 0 && next.mark == 0) return false;  // all later ones have left memory as well
    if (place >= 0 && write_part(stored, used, place)) return true;
  }
  return false;
}

bool DiskTier::write_part(const StoredPart& stored, FileTime used, int32_t place) {
  auto payload = session_.save_part(stored.part, place);
  if (!payload) return false;
  ++n_jobs_;
  in_flight_.insert(stored.key.digest);
  storage_->post(write_lane(), [this, key = stored.key, used, payload = std::move(*payload)] {
    bool is_written = false;
    try {
      is_written = storage_->cache()->write(key, payload, used).has_value();
    } catch (const std::bad_alloc&) {  // it is not written
    }
    hooks_.post([this, digest = key.digest, is_written] { end_write(digest, is_written); });
  });
  return true;
}

void DiskTier::end_write(const Digest& digest, bool is_written) {
  --n_jobs_;
  in_flight_.erase(digest);
  if (is_written) return;
  paused_until_ = Clock::now() + kErrorPause;
  if (is_flushing_) return chains_.clear();
  if (!chains_.empty()) chains_.pop_front();
}

// The files of a chain that were there already count as used now, later parts a little earlier, so that the first
// block of a chain stays longest.
void DiskTier::end_chain() {
  ++n_jobs_;
  storage_->post(write_lane(), [this, files = std::move(chains_.front().on_disk)] {
    try {
      for (const auto& [key, used] : files) storage_->cache()->mark_used(key, used);
      storage_->cache()->refresh();
    } catch (const std::bad_alloc&) {  // the files count as used longer ago
    }
    hooks_.post([this] { --n_jobs_; });
  });
  chains_.pop_front();
}

void DiskTier::clear(std::function<void(uint64_t n_files)> done) {
  chains_.clear();
  ++n_jobs_;
  storage_->post(DiskThread::Lane::background, [this, done = std::move(done)] {
    uint64_t n_files = 0;
    try {
      n_files = storage_->cache()->clear();
    } catch (const std::bad_alloc&) {  // some files stay
    }
    done(n_files);
    hooks_.post([this] { --n_jobs_; });
  });
}

}  // namespace tessera::server
