// Partial files of an output: a conversion that was interrupted goes on where it ended. The name of a partial file has
// a fingerprint of all that its bytes depend on, so that only a run of the same plan continues it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tessera/base/result.h"

namespace tessera::convert {

/// A hash of texts and numbers (FNV-1a, 64 bits), the same in every process.
class Fingerprint {
 public:
  Fingerprint& add(std::span<const std::byte> bytes);
  Fingerprint& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }
  Fingerprint& add(uint64_t number);
  /// The name of a file, its size and the time of its last change. A file that does not exist has a number of its own.
  Fingerprint& add_file(const std::string& path);
  uint64_t value() const { return hash_; }

 private:
  void mix(std::span<const std::byte> bytes);
  uint64_t hash_ = 0xcbf29ce484222325;
};

class PartialOutput {
 public:
  /// The partial files of an output. Removes those of other fingerprints, and all of them unless this run resumes, but
  /// none that another process writes. Error: io (the folder of the output cannot be read).
  static Result<PartialOutput> open(const std::string& path, uint64_t fingerprint, bool resumes);

  /// PATH.FINGERPRINT.part, or PATH.FINGERPRINT-00001.part of several.
  std::string path_of(uint32_t part, uint32_t n_parts) const;
  /// Whether the files stay after an error, for a later run.
  bool resumes() const { return resumes_; }
  /// Bytes of the files that this run continues.
  uint64_t n_bytes_found() const { return n_bytes_found_; }
  /// A removed partial file of another plan; empty if there was none.
  const std::string& other() const { return other_; }

  /// Tensors that this run need not write.
  size_t n_tensors_found() const { return n_tensors_found_; }
  void add_tensors_found(size_t n) { n_tensors_found_ += n; }

 private:
  PartialOutput(std::string path, uint64_t fingerprint, bool resumes)
      : path_(std::move(path)), fingerprint_(fingerprint), resumes_(resumes) {}

  std::string path_;
  uint64_t fingerprint_;
  bool resumes_;
  uint64_t n_bytes_found_ = 0;
  size_t n_tensors_found_ = 0;
  std::string other_;
};

}  // namespace tessera::convert
