// A file that is not complete yet, and the hash of its beginning. Parts survive: a later run, of tessera or of the
// hub's own tools, continues them.
//
// blobs/NAME.incomplete never has a hole, as these tools expect. While several ranges are written at once, the file is
// NAME.ranges, and NAME.ranges.begin has the number of bytes before the first hole, for the case of a killed process.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "tessera/hub/content_hash.h"

namespace tessera::hub {

class PartFile {
 public:
  /// Opens the part of blobs/NAME, or begins one. The longest part of earlier runs is taken over, that of llama.cpp
  /// (NAME.downloadInProgress) too; the others are removed. Call it under the lock of the blob. Errors: io.
  static Result<PartFile> open(const std::string& blob_path, uint64_t size, HashKind kind);
  /// The bytes that open() would find, without any change.
  static uint64_t bytes_on_disk(const std::string& blob_path, uint64_t size);

  PartFile(PartFile&& other) noexcept;
  PartFile& operator=(PartFile&&) = delete;
  /// Keeps the part on disk, as far as it has been hashed.
  ~PartFile();

  /// Bytes from earlier runs.
  uint64_t n_found() const { return n_found_; }
  /// Bytes that are written and hashed.
  uint64_t n_hashed() const { return n_hashed_; }

  /// Writes bytes. They are hashed at once if they follow the hashed ones. Errors: io.
  Result<> write(uint64_t offset, std::span<const std::byte> bytes);
  /// Hashes written bytes up to `end`. `proceed` is called between pieces of 4 MiB. Errors: io; cancelled, if it
  /// returns false.
  Result<> hash_to(uint64_t end, const std::function<bool()>& proceed);

  /// From now on, bytes may be written behind holes. Errors: io.
  Result<> begin_ranges();
  /// Notes how far the file is without a hole, for a process that is killed. Errors: io.
  Result<> note_hashed();

  /// Returns the hash in hexadecimal digits.
  std::string hash() { return hash_.finish(); }
  /// Makes the complete file the blob. Errors: io.
  Result<> commit();
  /// Removes the part.
  void discard();

 private:
  PartFile(int fd, std::string blob_path, uint64_t n_found, ContentHash hash);
  void keep();

  int fd_;
  std::string blob_path_;
  bool has_ranges_ = false;
  int begin_fd_ = -1;
  uint64_t n_found_;
  uint64_t n_hashed_ = 0;
  ContentHash hash_;
};

/// Removes all parts of a blob.
void remove_parts(const std::string& blob_path);

/// Whether a file's name is that of a part, and of which blob. Returns the blob's name, or "".
std::string blob_of_part(const std::string& file_name);

}  // namespace tessera::hub
