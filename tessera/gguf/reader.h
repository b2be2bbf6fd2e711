// An open GGUF file: metadata, tensor list, and the bytes of the tensors in place. The engine loads weights from it,
// and inspect, quantize, split and merge read it. After open() or parse() has succeeded, the range of every tensor is
// inside the file, aligned, and disjoint from the others. No value can be read out of bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/file.h"
#include "tessera/base/result.h"
#include "tessera/gguf/limits.h"
#include "tessera/gguf/metadata.h"
#include "tessera/gguf/name_index.h"
#include "tessera/tensor/dtype.h"
#include "tessera/tensor/shape.h"

namespace tessera {

struct GgufTensor {
  std::string_view name;  // borrowed from the file
  DType dtype = DType::f32;
  Shape shape;               // every extent at least 1
  int rank = 0;              // number of extents in the file; the last ones may be 1
  uint64_t data_offset = 0;  // from the start of the data section, as stored in the file
  uint64_t file_offset = 0;  // from the start of the file
  uint64_t n_bytes = 0;
};

class GgufFile {
 public:
  /// Maps and parses a file. Errors start with the path: not_found, io, and the errors of parse().
  static Result<std::unique_ptr<GgufFile>> open(const std::string& path);

  /// Parses bytes, which must outlive the result. Errors are one line "NAME: offset N: what, got X, limit Y": format
  /// (damaged, truncated, or another format), limit, unsupported (version, byte order, tensor type).
  static Result<std::unique_ptr<GgufFile>> parse(std::span<const std::byte> bytes, std::string name);

  /// The same for the part of a file before its data section. Such a file has no data().
  static Result<std::unique_ptr<GgufFile>> parse_header(std::span<const std::byte> bytes, std::string name);

  const std::string& name() const { return name_; }
  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  /// Start of the data section, in bytes from the start of the file.
  uint64_t data_offset() const { return data_offset_; }
  const Metadata& metadata() const { return metadata_; }

  /// All tensors in file order.
  std::span<const GgufTensor> tensors() const { return tensors_; }
  /// The tensor with this name, or nullptr.
  const GgufTensor* find_tensor(std::string_view name) const;

  /// The bytes of one of tensors(), in place; none after parse_header().
  std::span<const std::byte> data(const GgufTensor& tensor) const {
    return has_data_ ? bytes_.subspan(tensor.file_offset, tensor.n_bytes) : std::span<const std::byte>();
  }
  /// The whole file.
  std::span<const std::byte> bytes() const { return bytes_; }

  /// The open file and its map; nullptr after parse().
  const File* file() const { return file_ ? &*file_ : nullptr; }
  const MappedFile* map() const { return map_.get(); }

 private:
  GgufFile(std::span<const std::byte> bytes, std::string name) : name_(std::move(name)), bytes_(bytes) {}

  static Result<std::unique_ptr<GgufFile>> read(std::unique_ptr<GgufFile> gguf);
  Result<> read_sections();
  Result<> read_alignment();
  Result<> read_tensors(GgufDecoder& in, uint64_t n_tensors);
  Result<> place_tensors(uint64_t infos_end);
  Result<> check_disjoint() const;

  std::string name_;
  std::optional<File> file_;
  std::unique_ptr<MappedFile> map_;
  std::span<const std::byte> bytes_;
  bool has_data_ = true;
  uint32_t version_ = 0;
  uint64_t alignment_ = kGgufDefaultAlignment;
  uint64_t data_offset_ = 0;
  Metadata metadata_;
  std::vector<GgufTensor> tensors_;
  NameIndex index_;
};

}  // namespace tessera
