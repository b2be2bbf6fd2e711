// The server's files and the thread that reads and writes them, so that no other thread waits for a disk: slots that
// clients save, and the disk tier of the prefix cache. All models of a server share one storage.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "tessera/server/storage/disk_store.h"

namespace tessera::server {

struct StorageOptions {
  std::string slot_directory{};               // of files that clients save slots to; empty: none
  std::string cache_directory{};              // of the disk tier; empty: none
  uint64_t cache_bytes = uint64_t{16} << 30;  // most bytes of the disk tier
};

/// A thread for jobs with files. Urgent jobs come first. Background jobs take at most a quarter of its time.
class DiskThread {
 public:
  /// Errors: out_of_memory (the system refuses a thread).
  static Result<std::unique_ptr<DiskThread>> create();
  /// Runs the jobs that wait, then joins the thread.
  ~DiskThread();

  enum class Lane : uint8_t { urgent, background };
  /// The job does not throw.
  void post(Lane lane, std::function<void()> job);

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;
  DiskThread() = default;
  void work();
  std::function<void()> next(Lane& lane);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> urgent_, background_;
  bool is_closing_ = false;
  SteadyTime next_background_{};
  std::thread thread_;
};

class Storage {
 public:
  /// Errors: those of Directory and DiskStore, with the flag's name; out_of_memory.
  static Result<std::shared_ptr<Storage>> open(const StorageOptions& options);

  /// Null without the option.
  const Directory* slots() const { return slots_ ? &*slots_ : nullptr; }
  DiskStore* cache() const { return cache_.get(); }
  void post(DiskThread::Lane lane, std::function<void()> job) { thread_->post(lane, std::move(job)); }

 private:
  Storage() = default;

  std::optional<Directory> slots_;
  std::unique_ptr<DiskStore> cache_;
  std::unique_ptr<DiskThread> thread_;  // destroyed first: its jobs use the others
};

}  // namespace tessera::server
