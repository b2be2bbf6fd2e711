// Commands of the scheduler for slots and for the cache: erasing a slot, saving it to a file, restoring it from one,
// emptying the cache. A slot's state is read and written between two steps. The disk thread reads and writes the files.
#include <array>
#include <new>
#include <utility>

#include "tessera/server/run/scheduler.h"

namespace tessera::server {

namespace {

constexpr uint64_t kMostStateOverhead = 1 << 20;  // header and counts of a saved state
constexpr uint64_t kPositionBytes = 64;           // of a token in a saved state: its position in each group, and more

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

Error no_memory() { return {ErrorCode::out_of_memory, std::string(kOutOfMemory)}; }

// Calls f, which returns a Result, and turns an exception into an error.
template <class F>
auto guarded(F f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return std::unexpected(no_memory());
  }
}

Result<uint64_t> write_slot_bytes(const Directory& directory, const std::string& name, const SavedSlot& slot) {
  const std::vector<std::byte> front = slot_file_front(slot);
  const uint64_t checksum = slot_file_checksum(front, slot.state);
  const std::array<std::span<const std::byte>, 3> parts = {front, slot.state, std::as_bytes(std::span(&checksum, 1))};
  TESSERA_TRY(directory.write_file(name, parts));
  return front.size() + slot.state.size() + sizeof checksum;
}

}  // namespace

void Scheduler::set_storage() {
  const Digest digest = session_digest(session_);
  slot_file_limits_ = {.session = digest,
                       .n_tokens = options_.slot_context,
                       .n_vocab = session_.engine().model().info().n_vocab,
                       .n_state_bytes = kMostStateOverhead + kPositionBytes * static_cast<uint64_t>(session_.n_ctx())};
  for (const MemoryPart& part : session_.allocated_memory().parts)
    if (part.kind == MemoryPart::Kind::cache) slot_file_limits_.n_state_bytes += part.bytes;
  disk_ = DiskTier::create(session_, *slots_, options_.storage, digest,
                           {.write_delay = std::chrono::milliseconds(options_.disk_delay_ms),
                            .post = [this](std::function<void()> command) { mailbox().post(std::move(command)); },
                            .on_restored = [this](Slot& slot) { begin(slot); },
                            .compute_ms =
                                [this](int64_t n, int64_t n_before) {
                                  StepWork work;
                                  work.add_prefill(n_before, n);
                                  return forecast_.ms(work);
                                }});
}

// --- commands that wait for a slot

void Scheduler::when_idle(int32_t slot, SlotCommand command) {
  mailbox().post(
      [this, slot, command = std::move(command)]() mutable { slot_commands_.emplace_back(slot, std::move(command)); });
}

void Scheduler::run_slot_commands() {
  std::erase_if(slot_commands_, [this](auto& waiting) {
    Slot& slot = slots_->at(waiting.first);
    if (!slot.is_idle()) return false;
    waiting.second(slot);
    return true;
  });
}

void Scheduler::erase(int32_t slot, std::function<void(int64_t n_erased)> done) {
  when_idle(slot, [done = std::move(done)](Slot& of) {
    done(std::ssize(of.last_tokens));
    of.last_tokens.clear();
  });
}

// A job with a file counts as a task, so that the scheduler does not end before it. On the disk thread this is the last
// access to the scheduler.
void Scheduler::end_slot_job() {
  mailbox().post([this] { end_job(); });
}

// --- saving

void Scheduler::save_slot(int32_t slot, std::string file, SlotFileDone done) {
  if (!options_.storage || options_.storage->slots() == nullptr)
    return done(fail(ErrorCode::unsupported, "there is no directory for slots"));
  begin_job();
  when_idle(slot,
            [this, file = std::move(file), done = std::move(done)](Slot& of) { write_slot_file(of, file, done); });
}

void Scheduler::write_slot_file(const Slot& slot, const std::string& file, const SlotFileDone& done) {
  const auto begin = Clock::now();
  auto saved = guarded([&]() -> Result<std::shared_ptr<SavedSlot>> {
    TESSERA_ASSIGN(Slots::State state, slots_->save(slot));
    return std::make_shared<SavedSlot>(SavedSlot{.session = slot_file_limits_.session,
                                                 .salt = slot.last_root.salt,
                                                 .adapters = adapter_keys(session_, slot.last_root.adapters),
                                                 .tokens = std::move(state.tokens),
                                                 .state = std::move(state.bytes)});
  });
  if (!saved) {
    done(forward_error(saved));
    return end_slot_job();
  }
  options_.storage->post(DiskThread::Lane::urgent, [this, file, done, begin, slot = std::move(*saved)] {
    done(guarded([&]() -> Result<SlotFileReport> {
      TESSERA_ASSIGN(const uint64_t n_bytes, write_slot_bytes(*options_.storage->slots(), file, *slot));
      return SlotFileReport{.n_tokens = std::ssize(slot->tokens), .n_bytes = n_bytes, .ms = ms_since(begin)};
    }));
    end_slot_job();
  });
}

// --- restoring

Result<SavedSlot> Scheduler::read_slot_file(const std::string& name) const {
  TESSERA_ASSIGN(const File file, options_.storage->slots()->open_file(name));
  return server::read_slot_file(file, slot_file_limits_);
}

void Scheduler::restore_slot(int32_t slot, std::string file, SlotFileDone done) {
  if (!options_.storage || options_.storage->slots() == nullptr)
    return done(fail(ErrorCode::unsupported, "there is no directory for slots"));
  begin_job();
  options_.storage->post(DiskThread::Lane::urgent, [this, slot, file = std::move(file), done = std::move(done)] {
    const auto begin = Clock::now();
    auto read = guarded([&]() -> Result<std::shared_ptr<SavedSlot>> {
      TESSERA_ASSIGN(SavedSlot saved, read_slot_file(file));
      return std::make_shared<SavedSlot>(std::move(saved));
    });
    if (!read) {
      done(forward_error(read));
      return end_slot_job();
    }
    when_idle(slot, [this, done, begin, saved = std::move(*read)](Slot& of) {
      const uint64_t n_bytes = slot_file_front(*saved).size() + saved->state.size() + sizeof(uint64_t);
      const Slots::State state{.tokens = std::move(saved->tokens), .bytes = std::move(saved->state)};
      done(guarded([&]() -> Result<SlotFileReport> {
        TESSERA_ASSIGN(auto adapters, find_adapters(session_, saved->adapters));
        TESSERA_TRY(slots_->restore(of, state, {.salt = saved->salt, .adapters = std::move(adapters)}));
        return SlotFileReport{.n_tokens = std::ssize(state.tokens), .n_bytes = n_bytes, .ms = ms_since(begin)};
      }));
      end_job();
    });
  });
}

// --- the cache

void Scheduler::clear_cache(std::function<void(ClearedCache)> done) {
  mailbox().post([this, done = std::move(done)] {
    const int64_t n_blocks = slots_->cache().counters().n_blocks;
    slots_->clear();
    if (!disk_) return done({.n_blocks = n_blocks});
    disk_->clear([done, n_blocks](uint64_t n_files) { done({.n_blocks = n_blocks, .n_files = n_files}); });
  });
}

}  // namespace tessera::server
