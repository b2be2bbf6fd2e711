// The disk tier of a model's prefix cache: the scheduler's side. Blocks of sequences that have ended are written a
// second later, and missing blocks of a new sequence are read while others run. Only the storage's thread touches
// files; all functions here are for the scheduler's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tessera/engine/session.h"
#include "tessera/server/run/slots.h"
#include "tessera/server/storage/storage.h"

namespace tessera::server {

class DiskTier {
 public:
  struct Hooks {
    /// Runs a command on the scheduler's thread soon. From any thread.
    std::function<void(std::function<void()>)> post{};
    /// The slot has all that the disk had, so its sequence can begin.
    std::function<void(Slot&)> on_restored{};
    /// The forecast time for computing n tokens after n_before others, in milliseconds.
    std::function<double(int64_t n, int64_t n_before)> compute_ms{};
  };

  /// session: its digest. Null if the storage has no disk tier, or if the model's blocks are not whole (windows,
  /// recurrent states).
  static std::unique_ptr<DiskTier> create(Session& session, Slots& slots, std::shared_ptr<Storage> storage,
                                          const Digest& digest, Hooks hooks);

  /// Begins to read the blocks that follow those that a slot has. Returns whether it does: on_restored() then follows,
  /// unless the slot loses its sequence before. It does not if computing them would take less time, unless `always`.
  bool begin_restore(Slot& slot, bool always);

  /// The tokens of a sequence that has ended, of which the prefix cache has the blocks.
  void note_tokens(std::span<const int32_t> tokens, const PrefixRoot& root, Clock::time_point now);
  /// When write_some() has something to do. A write that ends posts a command.
  std::optional<Clock::time_point> next_write() const;
  /// Gives at most one block to the disk thread, so that a step waits for one block only.
  void write_some(Clock::time_point now);

  /// Forgets what waits to be written, and removes all files. done: called on the disk thread with their number.
  void clear(std::function<void(uint64_t n_files)> done);

  /// Jobs of the disk thread that will post a command.
  int64_t n_jobs() const { return n_jobs_; }

 private:
  // The missing blocks of a slot.
  struct Restore {
    uint64_t id = 0;
    std::vector<BlockKey> keys{};
    size_t n_done = 0;
  };
  // The blocks of an ended sequence. Those before n_done are on the disk, or are gone.
  struct Chain {
    std::vector<int32_t> tokens{};
    PrefixRoot of{};
    Clock::time_point due{};
    FileTime used{};
    Digest root{}, parent{};
    size_t n_done = 0;
    std::vector<std::pair<BlockKey, FileTime>> on_disk{};  // without tokens
  };
  struct ReadBlocks {
    std::vector<std::vector<std::byte>> payloads{};
    double ms = 0;
  };

  DiskTier(Session& session, Slots& slots, std::shared_ptr<Storage> storage, const Digest& digest, size_t block_bytes,
           Hooks hooks)
      : session_(session),
        slots_(slots),
        storage_(std::move(storage)),
        digest_(digest),
        block_bytes_(block_bytes),
        hooks_(std::move(hooks)) {}
  Digest digest_of(const PrefixRoot& root) const;
  std::vector<BlockKey> missing_keys(const Slot& slot) const;
  void read_next(const Slot& slot);
  void take_blocks(int32_t slot, uint64_t restore, const ReadBlocks& read);
  void finish(Slot& slot);
  bool write_next(Chain& chain);
  void write_block(const BlockKey& key, FileTime used, int32_t block);
  void end_write(const Digest& digest, bool is_written);
  void end_chain();

  Session& session_;
  Slots& slots_;
  std::shared_ptr<Storage> storage_;
  const Digest digest_;
  const size_t block_bytes_;
  Hooks hooks_;
  int64_t n_jobs_ = 0;

  std::map<int32_t, Restore> restores_;  // by slot
  uint64_t n_restores_ = 0;
  double read_ms_ = 0;  // of a block, averaged; 0: not known yet

  std::deque<Chain> chains_;
  std::set<Digest> in_flight_;  // being written
  Clock::time_point paused_until_{};
};

}  // namespace tessera::server
