#include "tessera/server/run/disk_tier.h"

#include <algorithm>
#include <new>
#include <utility>

namespace tessera::server {

namespace {

constexpr auto kWriteDelay = std::chrono::seconds(1);
constexpr auto kErrorPause = std::chrono::seconds(10);    // after a write that failed, as on a full disk
constexpr size_t kMostChains = 64;                        // that wait to be written; older ones go
constexpr size_t kMostInFlight = 4;                       // blocks that the disk thread has
constexpr size_t kReadBytes = size_t{4} << 20;            // read at once: what a step waits for when it stores them
constexpr double kReadAverage = 0.2;                      // of the last read in the average
constexpr auto kBlockAge = std::chrono::microseconds(1);  // a later block of a chain counts as used earlier

constexpr auto kBlock = static_cast<size_t>(kKvBlockTokens);

std::span<const int32_t> block_tokens(std::span<const int32_t> tokens, size_t i) {
  return tokens.subspan(i * kBlock, kBlock);
}

}  // namespace

std::unique_ptr<DiskTier> DiskTier::create(Session& session, Slots& slots, std::shared_ptr<Storage> storage,
                                           const Digest& digest, Hooks hooks) {
  if (!storage || storage->cache() == nullptr) return nullptr;
  const auto block_bytes = session.saved_block_bytes();
  if (!block_bytes) return nullptr;
  return std::unique_ptr<DiskTier>(
      new DiskTier(session, slots, std::move(storage), digest, *block_bytes, std::move(hooks)));
}

Digest DiskTier::digest_of(const PrefixRoot& root) const {
  return root_digest(digest_, root.salt, adapter_keys(session_, root.adapters));
}

// --- reading

// The blocks on the disk that follow those of a slot without a gap. The last token is always computed.
std::vector<BlockKey> DiskTier::missing_keys(const Slot& slot) const {
  const std::span<const int32_t> tokens = slot.sequence->reusable_tokens();
  if (tokens.empty()) return {};
  const size_t n_blocks = (tokens.size() - 1) / kBlock, n_held = static_cast<size_t>(slot.n_computed) / kBlock;
  std::vector<BlockKey> keys;
  if (n_held >= n_blocks) return keys;
  const Digest root = digest_of(root_of(*slot.sequence));
  Digest parent = root;
  for (size_t i = 0; i < n_blocks; ++i) {
    const Digest digest = block_digest(parent, block_tokens(tokens, i));
    if (i >= n_held) {
      if (!storage_->cache()->contains(digest)) break;
      const auto of_block = block_tokens(tokens, i);
      keys.push_back({.root = root, .parent = parent, .digest = digest, .tokens = {of_block.begin(), of_block.end()}});
    }
    parent = digest;
  }
  return keys;
}

bool DiskTier::begin_restore(Slot& slot, bool always) {
  const Sequence& sequence = *slot.sequence;
  if (!sequence.shares_cache() || sequence.spec().slot >= 0)
    return false;  // a request for a slot uses what the slot holds
  Restore restore{.id = ++n_restores_, .keys = missing_keys(slot)};
  if (restore.keys.empty()) return false;
  const int64_t n_before = slot.n_computed / kKvBlockTokens * kKvBlockTokens;
  const int64_t n_after = n_before + std::ssize(restore.keys) * kKvBlockTokens;
  const double read_ms = read_ms_ * static_cast<double>(restore.keys.size());
  if (!always && read_ms > hooks_.compute_ms(n_after - slot.n_computed, slot.n_computed)) return false;
  if (!slots_.shorten(slot, n_before)) return false;
  slot.is_restoring = true;
  restores_[slot.id] = std::move(restore);
  read_next(slot);
  return true;
}

void DiskTier::read_next(const Slot& slot) {
  const Restore& restore = restores_[slot.id];
  const size_t n =
      std::clamp<size_t>(kReadBytes / std::max<size_t>(block_bytes_, 1), 1, restore.keys.size() - restore.n_done);
  const auto first = restore.keys.begin() + static_cast<ptrdiff_t>(restore.n_done);
  ++n_jobs_;
  storage_->post(DiskThread::Lane::urgent,
                 [this, slot = slot.id, id = restore.id, keys = std::vector(first, first + static_cast<ptrdiff_t>(n))] {
                   auto read = std::make_shared<ReadBlocks>();
                   const auto begin = Clock::now();
                   try {
                     for (const BlockKey& key : keys) {
                       auto payload = storage_->cache()->read(key, block_bytes_);
                       if (!payload) break;
                       read->payloads.push_back(std::move(*payload));
                     }
                   } catch (const std::bad_alloc&) {  // the rest is computed
                   }
                   read->ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
                   hooks_.post([this, slot, id, read] { take_blocks(slot, id, *read); });
                 });
}

void DiskTier::take_blocks(int32_t id, uint64_t restore_id, const ReadBlocks& read) {
  --n_jobs_;
  const size_t n_read = read.payloads.size();
  if (n_read > 0) {
    const double ms = read.ms / static_cast<double>(n_read);
    read_ms_ += (read_ms_ == 0 ? 1 : kReadAverage) * (ms - read_ms_);
  }
  Slot& slot = slots_.at(id);
  const auto found = restores_.find(id);
  if (!slot.is_restoring || found == restores_.end() || found->second.id != restore_id) return;
  Restore& restore = found->second;
  for (const std::vector<std::byte>& payload : read.payloads) {
    if (!slots_.append_block(slot, payload)) return finish(slot);
    ++restore.n_done;
  }
  if (n_read == 0 || restore.n_done == restore.keys.size()) return finish(slot);
  read_next(slot);
}

void DiskTier::finish(Slot& slot) {
  restores_.erase(slot.id);
  slot.is_restoring = false;
  hooks_.on_restored(slot);
}

// --- writing

void DiskTier::note_tokens(std::span<const int32_t> tokens, const PrefixRoot& of, Clock::time_point now) {
  const size_t n_blocks = tokens.size() / kBlock;
  if (n_blocks == 0) return;
  if (chains_.size() >= kMostChains) chains_.pop_front();
  const Digest root = digest_of(of);
  const auto used = std::chrono::time_point_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now());
  chains_.push_back({.tokens = {tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n_blocks * kBlock)},
                     .of = of,
                     .due = now + kWriteDelay,
                     .used = used,
                     .root = root,
                     .parent = root});
}

std::optional<Clock::time_point> DiskTier::next_write() const {
  if (chains_.empty() || in_flight_.size() >= kMostInFlight) return std::nullopt;
  return std::max(chains_.front().due, paused_until_);
}

void DiskTier::write_some(Clock::time_point now) {
  try {
    while (!chains_.empty() && in_flight_.size() < kMostInFlight &&
           now >= std::max(chains_.front().due, paused_until_)) {
      if (write_next(chains_.front())) return;
      end_chain();
    }
  } catch (const std::bad_alloc&) {
    chains_.clear();  // the disk tier keeps less, which is no error
  }
}

// Finds the next block of a chain that the disk has not, and gives it to the disk thread. False: there is none.
bool DiskTier::write_next(Chain& chain) {
  for (const size_t n_blocks = chain.tokens.size() / kBlock; chain.n_done < n_blocks;) {
    const auto tokens = block_tokens(chain.tokens, chain.n_done);
    BlockKey key{.root = chain.root, .parent = chain.parent, .digest = block_digest(chain.parent, tokens)};
    const FileTime used = chain.used - chain.n_done * kBlockAge;
    const size_t i = chain.n_done++;
    chain.parent = key.digest;
    if (in_flight_.contains(key.digest)) continue;
    if (storage_->cache()->contains(key.digest)) {
      chain.on_disk.emplace_back(std::move(key), used);
      continue;
    }
    const std::vector<int32_t> blocks = slots_.blocks_of(std::span(chain.tokens).first((i + 1) * kBlock), chain.of);
    if (blocks.size() <= i) return false;  // it has left memory
    key.tokens.assign(tokens.begin(), tokens.end());
    write_block(key, used, blocks[i]);
    return true;
  }
  return false;
}

void DiskTier::write_block(const BlockKey& key, FileTime used, int32_t block) {
  auto payload = session_.save_block(block);
  if (!payload) return;
  ++n_jobs_;
  in_flight_.insert(key.digest);
  storage_->post(DiskThread::Lane::background, [this, key, used, payload = std::move(*payload)] {
    bool is_written = false;
    try {
      is_written = storage_->cache()->write(key, payload, used).has_value();
    } catch (const std::bad_alloc&) {
    }
    hooks_.post([this, digest = key.digest, is_written] { end_write(digest, is_written); });
  });
}

void DiskTier::end_write(const Digest& digest, bool is_written) {
  --n_jobs_;
  in_flight_.erase(digest);
  if (is_written) return;
  paused_until_ = Clock::now() + kErrorPause;
  if (!chains_.empty()) chains_.pop_front();
}

// The files of a chain that were there already count as used now, later blocks a little earlier, so that the first
// block of a chain stays longest.
void DiskTier::end_chain() {
  ++n_jobs_;
  storage_->post(DiskThread::Lane::background, [this, files = std::move(chains_.front().on_disk)] {
    try {
      for (const auto& [key, used] : files) storage_->cache()->mark_used(key, used);
      storage_->cache()->refresh();
    } catch (const std::bad_alloc&) {
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
    } catch (const std::bad_alloc&) {
    }
    done(n_files);
    hooks_.post([this] { --n_jobs_; });
  });
}

}  // namespace tessera::server
