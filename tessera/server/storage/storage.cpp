#include "tessera/server/storage/storage.h"

#include <system_error>
#include <utility>

namespace tessera::server {

namespace {

constexpr int kPauses = 3;  // times of the last background job until the next one

}  // namespace

// --- thread

Result<std::unique_ptr<DiskThread>> DiskThread::create() {
  std::unique_ptr<DiskThread> disk(new DiskThread);
  try {
    disk->thread_ = std::thread([self = disk.get()] { self->work(); });
  } catch (const std::system_error& e) {
    return fail(ErrorCode::out_of_memory, "cannot start the disk thread: {}", e.what());
  }
  return disk;
}

DiskThread::~DiskThread() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void DiskThread::post(Lane lane, std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    (lane == Lane::urgent ? urgent_ : background_).push_back(std::move(job));
  }
  changed_.notify_one();
}

// Waits for a job that may run now. No job: the thread ends.
std::function<void()> DiskThread::next(Lane& lane) {
  std::unique_lock lock(mutex_);
  while (true) {
    const bool may_be_background = is_closing_ || std::chrono::steady_clock::now() >= next_background_;
    lane = urgent_.empty() ? Lane::background : Lane::urgent;
    auto& jobs = urgent_.empty() ? background_ : urgent_;
    if (!jobs.empty() && (lane == Lane::urgent || may_be_background)) {
      std::function<void()> job = std::move(jobs.front());
      jobs.pop_front();
      return job;
    }
    if (jobs.empty() && is_closing_) return {};
    if (jobs.empty()) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, next_background_);
    }
  }
}

void DiskThread::work() {
  Lane lane = Lane::urgent;
  while (const std::function<void()> job = next(lane)) {
    const auto begin = std::chrono::steady_clock::now();
    job();
    if (lane != Lane::background) continue;
    const auto end = std::chrono::steady_clock::now();
    const std::lock_guard lock(mutex_);
    next_background_ = end + kPauses * (end - begin);
  }
}

// --- storage

Result<std::shared_ptr<Storage>> Storage::open(const StorageOptions& options) {
  std::shared_ptr<Storage> storage(new Storage);
  if (!options.slot_directory.empty()) {
    auto slots = Directory::open(options.slot_directory);
    if (!slots) return forward_error(slots, "--slot-save-path");
    storage->slots_ = std::move(*slots);
  }
  if (!options.cache_directory.empty()) {
    auto cache = DiskStore::open(options.cache_directory, options.cache_bytes);
    if (!cache) return forward_error(cache, "--cache-disk");
    storage->cache_ = std::move(*cache);
  }
  TESSERA_ASSIGN(storage->thread_, DiskThread::create());
  return storage;
}

}  // namespace tessera::server
