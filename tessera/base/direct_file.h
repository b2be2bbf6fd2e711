// Reads a file past the system's page cache, so that reads neither copy through it nor push other pages out of it. For
// large files of which parts are read again and again into memory of the process's own.
#pragma once

#include "tessera/base/file.h"

namespace tessera {

class DirectFile {
 public:
  /// Reads begin and end at multiples of this in the file and in memory.
  static constexpr size_t kAlignment = 4096;
  /// Bytes of staging memory beside the bytes that are read.
  static constexpr size_t kSlack = 2 * kAlignment;

  /// Opens an open file a second time. If its file system has no direct reads, reads go through the page cache. Errors:
  /// io.
  static Result<DirectFile> open(const File& file);
  DirectFile(DirectFile&& other) noexcept;
  DirectFile& operator=(DirectFile&&) = delete;
  ~DirectFile();

  /// Whether reads pass the page cache by.
  bool is_direct() const { return is_direct_; }

  /// Returns bytes [offset, offset + n), which lie in `staging`: n + kSlack bytes at a multiple of kAlignment. Several
  /// threads may call this. Errors: io; invalid_argument (staging is too small or not aligned).
  Result<std::span<const std::byte>> read(uint64_t offset, size_t n, std::span<std::byte> staging) const;

 private:
  static bool can_read(int fd);
  DirectFile(int fd, bool is_direct, std::string path) : fd_(fd), is_direct_(is_direct), path_(std::move(path)) {}

  int fd_;
  bool is_direct_;
  std::string path_;
};

}  // namespace tessera
