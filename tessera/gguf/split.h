// The files of a model as one: a single GGUF file, or the parts PREFIX-00001-of-00005.gguf and so on of a split model.
// The engine, inspect, quantize and merge open models through it. All parts have been checked for consistency.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/function_ref.h"
#include "tessera/base/result.h"
#include "tessera/gguf/name_index.h"
#include "tessera/gguf/reader.h"

namespace tessera {

/// The components of a part's file name. no counts from 0, but the number in the file name counts from 1.
struct SplitName {
  std::string prefix;
  uint32_t no = 0;
  uint32_t count = 0;
};

/// "PREFIX-00001-of-00005.gguf" for no = 0, count = 5.
std::string split_path(std::string_view prefix, uint32_t no, uint32_t count);

/// The reverse of split_path(). Returns nothing if the path does not have that form.
std::optional<SplitName> parse_split_path(std::string_view path);

class ModelFiles {
 public:
  struct Tensor {
    uint32_t file = 0;  // position in files()
    GgufTensor info;
  };

  /// Opens a model by its only file or by its first part; the other parts must be beside it. Errors: as
  /// GgufFile::open(); invalid_argument (not the first part; names the first); not_found (a part, by its path);
  /// mismatch (a part of another model or with another number, a tensor in two parts, a number of tensors that differs
  /// from the stated one).
  static Result<std::unique_ptr<ModelFiles>> open(const std::string& path);
  /// Parses a model of one file in memory. The bytes must outlive the result. Errors: as GgufFile::parse();
  /// invalid_argument (a part of a split model).
  static Result<std::unique_ptr<ModelFiles>> parse(std::span<const std::byte> bytes, std::string name);

  /// Fills `into` with the bytes of a file from `offset` on.
  using ReadBytes = FunctionRef<Result<>(uint64_t offset, std::span<std::byte> into)>;
  /// Reads a model of one file of n_bytes, which need not be a file of this system. The result owns the bytes. `read`
  /// is called for pieces in order. Errors: as parse(); those of `read`; out_of_memory.
  static Result<std::unique_ptr<ModelFiles>> read(uint64_t n_bytes, ReadBytes read, std::string name);

  /// Parses the header of a model whose tensors' bytes are elsewhere. The bytes must outlive the result. Errors: as
  /// GgufFile::parse_header().
  static Result<std::unique_ptr<ModelFiles>> parse_header(std::span<const std::byte> bytes, std::string name);

  /// Creates a model without tensors, which is yet to be initialized. bytes are a GGUF file with its keys and must
  /// outlive the result. Some tensors of an architecture may be absent or have several names. The model will have those
  /// listed in `optional`, by names without the "blk.N." of a layer. Errors: as GgufFile::parse().
  static Result<std::unique_ptr<ModelFiles>> blueprint(std::span<const std::byte> bytes, std::string name,
                                                       std::vector<std::string> optional);
  bool is_blueprint() const { return is_blueprint_; }
  /// For a blueprint: true if this optional tensor will be created.
  bool wants(std::string_view tensor) const;

  /// The metadata of the first part, which describes the whole model.
  const Metadata& metadata() const { return files_[0]->metadata(); }
  const std::string& name() const { return files_[0]->name(); }
  std::span<const std::unique_ptr<GgufFile>> files() const { return files_; }

  /// The tensors of all parts, in order of (part, position in the part).
  std::span<const Tensor> tensors() const { return tensors_; }
  const Tensor* find_tensor(std::string_view name) const;
  std::span<const std::byte> data(const Tensor& tensor) const { return files_[tensor.file]->data(tensor.info); }
  /// Sum over all tensors, without padding.
  uint64_t n_tensor_bytes() const { return n_tensor_bytes_; }

 private:
  ModelFiles() = default;
  Result<> open_parts(const std::string& first_path);
  Result<> parse_only_file(std::span<const std::byte> bytes, std::string name);
  Result<> check_part(const GgufFile& part, uint32_t no, uint32_t count) const;
  Result<> merge_tensors();

  struct FreeBytes {
    void operator()(std::byte* bytes) const;
  };
  std::unique_ptr<std::byte, FreeBytes> bytes_;  // after read(); the files are in it
  std::vector<std::unique_ptr<GgufFile>> files_;
  std::vector<Tensor> tensors_;
  NameIndex index_;
  uint64_t n_tensor_bytes_ = 0;
  bool is_blueprint_ = false;
  std::vector<std::string> optional_;  // of a blueprint
};

}  // namespace tessera
