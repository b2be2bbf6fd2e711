// A model's files as one: a single GGUF file, or the parts PREFIX-00001-of-00005.gguf and so on of a split
// one. The engine, inspect, quantize and merge open models through it. All parts have been checked against
// each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/gguf/name_index.h"
#include "tessera/gguf/reader.h"

namespace tessera {

/// A part's file name, taken apart. no counts from 0; the name in the file from 1.
struct SplitName {
  std::string prefix;
  uint32_t no = 0;
  uint32_t count = 0;
};

/// "PREFIX-00001-of-00005.gguf" for no = 0, count = 5.
std::string split_path(std::string_view prefix, uint32_t no, uint32_t count);

/// The reverse of split_path(), or nothing where the path does not have that form.
std::optional<SplitName> parse_split_path(std::string_view path);

class ModelFiles {
 public:
  struct Tensor {
    uint32_t file = 0;  // position in files()
    GgufTensor info;
  };

  /// Opens a model by its only file or by its first part; the other parts lie beside it. Errors: those of
  /// GgufFile::open(); invalid_argument (not the first part; names the first); not_found (a part, by its
  /// path); mismatch (a part of another model or place, a tensor in two parts, another number of tensors than
  /// stated).
  static Result<std::unique_ptr<ModelFiles>> open(const std::string& path);
  /// A model of one file that is in memory already; the bytes outlive the result. Errors: those of GgufFile::parse();
  /// invalid_argument (a part of a split model).
  static Result<std::unique_ptr<ModelFiles>> parse(std::span<const std::byte> bytes, std::string name);

  /// A model that is still to be made: keys and no tensors. bytes are those of a GGUF file and outlive the result.
  /// Of the tensors that an architecture may do without, or has under several names, it is to have those of `optional`,
  /// named without the "blk.N." of a layer. Errors: those of GgufFile::parse().
  static Result<std::unique_ptr<ModelFiles>> blueprint(std::span<const std::byte> bytes, std::string name,
                                                       std::vector<std::string> optional);
  bool is_blueprint() const { return is_blueprint_; }
  /// Of a blueprint: whether this tensor, which may be absent, is to be made.
  bool wants(std::string_view tensor) const;

  /// The metadata of the first part, which describes the model.
  const Metadata& metadata() const { return files_[0]->metadata(); }
  const std::string& name() const { return files_[0]->name(); }
  std::span<const std::unique_ptr<GgufFile>> files() const { return files_; }

  /// Those of all parts, in order of (part, position in the part).
  std::span<const Tensor> tensors() const { return tensors_; }
  const Tensor* find_tensor(std::string_view name) const;
  std::span<const std::byte> data(const Tensor& tensor) const { return files_[tensor.file]->data(tensor.info); }
  /// Sum over all tensors, without padding.
  uint64_t n_tensor_bytes() const { return n_tensor_bytes_; }

 private:
  ModelFiles() = default;
  Result<> open_parts(const std::string& first_path);
  Result<> check_part(const GgufFile& part, uint32_t no, uint32_t count) const;
  Result<> merge_tensors();

  std::vector<std::unique_ptr<GgufFile>> files_;
  std::vector<Tensor> tensors_;
  NameIndex index_;
  uint64_t n_tensor_bytes_ = 0;
  bool is_blueprint_ = false;
  std::vector<std::string> optional_;  // of a blueprint
};

}  // namespace tessera
