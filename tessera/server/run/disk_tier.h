// The disk tier of a model's prefix cache: the scheduler's side. Parts of sequences that have ended are written a
// little later, and missing parts of a new sequence are read while others run. Only the storage's thread touches
// files; all functions here are for the scheduler's thread.
//
// In a model without windows and recurrent states the parts are whole blocks, and any number of them is of use. Other
// models continue at marks only. The blocks up to a mark are of use if all other parts of the mark are there as well.
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
#include "tessera/server/storage/prefix_keys.h"
#include "tessera/server/storage/storage.h"

namespace tessera::server {

class DiskTier {
 public:
  struct Hooks {
    std::chrono::milliseconds write_delay{};  // after the end of a sequence
    /// Runs a command on the scheduler's thread soon. From any thread.
    std::function<void(std::function<void()>)> post{};
    /// The slot has all that the disk had, so its sequence can begin.
    std::function<void(Slot&)> on_restored{};
    /// The forecast time for computing n tokens after n_before others, in milliseconds.
    std::function<double(int64_t n, int64_t n_before)> compute_ms{};
  };

  /// digest: that of the session. Null if the storage has no disk tier.
  static std::unique_ptr<DiskTier> create(Session& session, Slots& slots, std::shared_ptr<Storage> storage,
                                          const Digest& digest, Hooks hooks);

  /// Begins to read the parts that follow what a slot has. Returns whether it does: on_restored() then follows, unless
  /// the slot loses its sequence before. It does not if computing them would take less time, unless `always`.
  bool begin_restore(Slot& slot, bool always);

  /// The tokens of a sequence that has ended, of which the prefix cache has blocks and marks.
  void note_tokens(std::span<const int32_t> tokens, const PrefixRoot& of, Clock::time_point now);
  /// When write_some() has something to do. A write that ends posts a command.
  std::optional<Clock::time_point> next_write() const;
  /// Gives at most one part to the disk thread, so that a step waits for one part only.
  void write_some(Clock::time_point now);

  /// From now on writing has neither delays nor pauses, and begins with the sequence that ended last. A part that
  /// cannot be written ends it.
  void begin_flush();

  /// Forgets what waits to be written, and removes all files. done: called on the disk thread with their number.
  void clear(std::function<void(uint64_t n_files)> done);

  /// Jobs of the disk thread that will post a command.
  int64_t n_jobs() const { return n_jobs_; }

 private:
  struct StoredPart {
    SavedPart part{};
    BlockKey key{};
    size_t n_bytes = 0;  // of the payload
  };
  // The missing parts of a slot, in the order in which it gets them.
  struct Restore {
    uint64_t id = 0;
    bool always = false;
    std::vector<StoredPart> parts{};
    size_t n_done = 0;
  };
  // A part of an ended sequence, and the mark that it belongs to.
  struct ChainPart {
    SavedPart part{};
    int32_t mark = 0;  // its position; 0: a whole block of group 0
  };
  // The parts of an ended sequence. Those before n_done are on the disk, or are gone.
  struct Chain {
    std::vector<int32_t> tokens{};
    PrefixRoot of{};
    Clock::time_point due{};
    FileTime used{};
    Digest root{};
    std::optional<PrefixKeys> keys{};  // from the first write on, as parts
    std::vector<ChainPart> parts{};
    size_t n_done = 0;
    std::vector<std::pair<BlockKey, FileTime>> on_disk{};  // without tokens
  };
  struct ReadParts {
    std::vector<std::vector<std::byte>> payloads{};
    double ms = 0;
    bool lacks_memory = false;
  };

  DiskTier(Session& session, Slots& slots, std::shared_ptr<Storage> storage, const Digest& digest, Hooks hooks)
      : session_(session), slots_(slots), storage_(std::move(storage)), digest_(digest), hooks_(std::move(hooks)) {}
  Digest digest_of(const PrefixRoot& root) const;
  bool contains(PrefixKeys& keys, const SavedPart& part) const;
  bool has_mark(PrefixKeys& keys, int64_t position) const;
  int64_t find_mark(PrefixKeys& keys, int64_t n_blocks, int64_t n_held, int64_t n_most) const;
  Result<std::vector<StoredPart>> missing_parts(const Slot& slot) const;
  void read_next(const Slot& slot);
  void take_parts(int32_t id, uint64_t restore_id, const ReadParts& read);
  void give_up(Slot& slot, bool tries_again);
  void finish(Slot& slot);
  void plan_chain(Chain& chain) const;
  bool write_next(Chain& chain);
  int32_t place_of(const Chain& chain, const ChainPart& of_chain) const;
  DiskThread::Lane write_lane() const;
  bool write_part(const StoredPart& stored, FileTime used, int32_t place);
  void end_write(const Digest& digest, bool is_written);
  void end_chain();

  Session& session_;
  Slots& slots_;
  std::shared_ptr<Storage> storage_;
  const Digest digest_;
  Hooks hooks_;
  int64_t n_jobs_ = 0;

  std::map<int32_t, Restore> restores_;  // by slot
  uint64_t n_restores_ = 0;
  double read_ms_ = 0;  // of a unit of read_units(), averaged; 0: not known yet

  std::deque<Chain> chains_;
  std::set<Digest> in_flight_;  // being written
  bool is_flushing_ = false;
  Clock::time_point paused_until_{};
};

}  // namespace tessera::server
