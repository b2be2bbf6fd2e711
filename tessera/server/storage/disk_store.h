// The files of the disk tier: one per part, DIR/<root>/<first byte>/<digest> (BlockKey::path()). All functions but
// contains(), is_empty() and counters() are for the disk thread.
//
// Two processes may share a directory: equal names have equal contents, files appear complete, and a file that the
// other process has removed is only missing. Files of the other process are found when names are read again.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "tessera/server/storage/block_file.h"
#include "tessera/server/storage/directory.h"

namespace tessera::server {

struct DiskCounters {
  uint64_t n_damaged_files = 0;  // found since the start, and removed
  uint64_t n_errors = 0;         // of the system, while writing
  uint64_t n_evicted_files = 0;
  uint64_t n_bytes = 0;  // of all files now
};

class DiskStore {
 public:
  /// Makes the directory if it is missing, and reads the names in it. Errors: those of Directory::open_private().
  static Result<std::unique_ptr<DiskStore>> open(const std::string& path, uint64_t limit_bytes);

  /// Whether there was a file of a block lately. From any thread.
  bool contains(const Digest& digest) const;
  /// Whether there was no file lately. From any thread.
  bool is_empty() const;
  DiskCounters counters() const;

  /// The payload of a block, and marks its file as used. Errors: not_found; io; format (the file is damaged: it is
  /// removed and counted). After any error contains() is false.
  Result<std::vector<std::byte>> read(const BlockKey& key, uint64_t n_payload_bytes);
  /// Writes a file, after removing the least recently used ones if there is no room. `used`: its time of use. Errors:
  /// limit (larger than all of the room); io.
  Result<> write(const BlockKey& key, std::span<const std::byte> payload, FileTime used);
  void mark_used(const BlockKey& key, FileTime used);
  /// Reads the names again if that was not done for half a minute.
  void refresh();
  /// Removes the files of all models. Returns their number.
  uint64_t clear();

 private:
  struct File {
    std::string path;
    Digest digest{};
    uint64_t n_bytes = 0;
    FileTime used{};
  };
  struct DigestHash {
    size_t operator()(const Digest& digest) const;
  };

  DiskStore(Directory directory, uint64_t limit_bytes) : directory_(std::move(directory)), limit_bytes_(limit_bytes) {}
  std::vector<File> find_files() const;
  void scan_folder(const std::string& folder, std::vector<File>& files) const;
  void set_files(const std::vector<File>& files);
  void make_room(uint64_t n_bytes);
  void remove(const File& file);
  void forget(const Digest& digest);

  Directory directory_;
  const uint64_t limit_bytes_;
  std::chrono::steady_clock::time_point last_scan_{};
  std::atomic<uint64_t> n_bytes_{0}, n_damaged_{0}, n_errors_{0}, n_evicted_{0};
  mutable std::mutex mutex_;
  std::unordered_set<Digest, DigestHash> known_;
};

}  // namespace tessera::server
