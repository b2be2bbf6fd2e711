// The directory of a zip archive whose entries are stored without compression, as PyTorch writes them. An entry is then
// a range of the file, and no byte of it is copied or unpacked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/file.h"

namespace tessera::convert {

inline constexpr uint64_t kMaxZipDirectory = uint64_t{256} << 20;
inline constexpr size_t kMaxZipEntries = size_t{1} << 20;

struct ZipEntry {
  std::string name{};
  uint64_t offset = 0;  // of its first byte in the file
  uint64_t n_bytes = 0;
};

class ZipDirectory {
 public:
  /// Reads the directory, with the extensions for large files (zip64), and compares it with the heads of the entries.
  /// Errors: format (no archive, or one that contradicts itself: an entry outside of the file, two at the same place,
  /// two names); unsupported (compression, encryption, several volumes); limit; io.
  static Result<ZipDirectory> read(const File& file);

  /// Sorted by name.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(std::string_view name) const;

 private:
  std::vector<ZipEntry> entries_;
};

}  // namespace tessera::convert
