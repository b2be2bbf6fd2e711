// Files: read-only maps of whole files, positioned reads, and output files that appear only when they are complete.
// Directories, pipes and devices are refused with a message that names their kind. Every error names its path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tessera/base/cancel.h"
#include "tessera/base/result.h"

namespace tessera {

/// A regular file opened for reading.
class File {
 public:
  static Result<File> open(const std::string& path);
  /// Opens a file of an open directory. A symbolic link is refused. directory_path: for errors.
  static Result<File> open_in(int directory, const std::string& name, const std::string& directory_path);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }
  int descriptor() const { return fd_; }

  /// Fills `into` with the bytes from `offset` on. Fails if the file ends too early.
  Result<> read_at(uint64_t offset, std::span<std::byte> into) const;

 private:
  static Result<File> of_descriptor(int fd, const std::string& path);
  File(int fd, uint64_t size, std::string path) : fd_(fd), size_(size), path_(std::move(path)) {}
  int fd_ = -1;
  uint64_t size_ = 0;
  std::string path_;
};

/// A whole file mapped read-only. If the file shrinks while it is mapped, a read raises SIGBUS. A signal handler can
/// then name the file (find_mapped_path()), or let the program go on (replace_lost_map()).
class MappedFile {
 public:
  static Result<std::unique_ptr<MappedFile>> map(const File& file);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

  /// Drops the pages of [offset, offset + n) from this process. A later access reads them again.
  void discard(uint64_t offset, uint64_t n) const;

  /// Whether replace_lost_map() has replaced the bytes.
  bool is_lost() const;

 private:
  MappedFile(const std::byte* data, size_t size, std::string path);
  const std::byte* data_;
  size_t size_;
  std::string path_;
};

/// Returns the path of the mapped file that contains this address, or nullptr. Async-signal-safe.
const char* find_mapped_path(const void* address);
/// Replaces the mapped file that contains this address by zeros, so that no read of it fails any more. Returns false if
/// there is no such file, or the system refuses. Async-signal-safe.
bool replace_lost_map(const void* address);

/// Reads a whole regular file or pipe (at most max_bytes) into a string. Returns the error `cancelled` if a signal
/// interrupts the wait for a pipe or terminal and `cancel` is set.
Result<std::string> read_file(const std::string& path, uint64_t max_bytes, const CancelToken* cancel = nullptr);

/// Writes to a temporary file beside `path`. commit() renames it into place; without commit() nothing is left behind.
class AtomicFile {
 public:
  static Result<AtomicFile> create(const std::string& path);
  /// Continues the temporary file of this name, or creates it. size() is what it has. keeps: without commit() it stays.
  /// Errors: io (another process writes it, or it is no regular file).
  static Result<AtomicFile> resume(const std::string& path, const std::string& temporary, bool keeps);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Result<> write(std::span<const std::byte> bytes);
  Result<> write_at(uint64_t offset, std::span<const std::byte> bytes);
  /// Writes n bytes of another file, without reading them into this process where the system can.
  Result<> write_from(const File& file, uint64_t offset, uint64_t n);
  /// Fills `into` with bytes that were written. Error: io (there are less).
  Result<> read_at(uint64_t offset, std::span<std::byte> into) const;
  /// Removes the bytes from number n on.
  Result<> truncate(uint64_t n);
  uint64_t size() const { return size_; }
  /// Writes the file to the disk and gives its descriptor back. Only commit() can follow.
  Result<> close();
  Result<> commit();

 private:
  AtomicFile(int fd, std::string path, std::string temporary);
  int fd_ = -1;
  uint64_t size_ = 0;
  std::string path_;
  std::string temporary_;
  bool keeps_ = false;
};

}  // namespace tessera
