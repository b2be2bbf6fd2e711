// A model as it is published: a folder with its tensors in one or several files, and small files beside them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/base/file.h"
#include "tessera/convert/source/bare_model.h"
#include "tessera/convert/source/container.h"
#include "tessera/convert/source/stored_tensor.h"
#include "tessera/json/json.h"

namespace tessera::convert {

/// A tensor and the number of its file.
struct CheckpointTensor {
  StoredTensor tensor;
  size_t file = 0;
};

class Checkpoint {
 public:
  /// Opens a folder, or one file of tensors in it. The tensors of a folder are in the first of these that it has:
  ///   model.safetensors.index.json        and the files that it names
  ///   model*.safetensors                  all of them
  ///   pytorch_model.bin.index.json        and the files that it names
  ///   pytorch_model*.bin                  all of them
  ///   consolidated.*.pth                  with params.json: parts of every matrix, which are joined
  ///   adapter_model.safetensors           an adapter
  ///   adapter_model.bin                   an adapter
  ///   *.bin                               one file of GGJT or llama2.c, with tokenizer.bin
  /// Errors: not_found (none of these); format (an index that names no plain file, or a tensor that its file lacks; two
  /// tensors of one name); limit; those of the files' readers.
  static Result<Checkpoint> open(const std::string& path);

  const std::string& folder() const { return folder_; }
  /// Paths of the files of tensors.
  std::vector<std::string> paths() const;

  /// The model of files that have no config.json; null for others.
  const BareModel* bare_model() const { return bare_model_.get(); }
  /// config.json, or the same made of bare_model(); null if there is neither. Errors: those of read_json_file().
  Result<JsonTree> config() const;

  /// In the order of the files and of their data.
  std::span<const CheckpointTensor> tensors() const { return tensors_; }
  /// Null if there is none of this name.
  const CheckpointTensor* find(std::string_view name) const;

  /// All bytes of the tensor's file.
  std::span<const std::byte> file_bytes(const CheckpointTensor& tensor) const { return file_of(tensor).bytes(); }
  const File& file(size_t i) const { return parts_[i].file; }
  const MappedFile& file_of(const CheckpointTensor& tensor) const { return *parts_[tensor.file].map; }

  /// Puts these tensors, which are in the files of this checkpoint or computed, in place of all others.
  /// Error: format (two of one name).
  Result<> replace_tensors(std::vector<CheckpointTensor> tensors);

  /// Copies elements in the order of the shape, as many as `into` has room for, from number `first` on.
  void read(const CheckpointTensor& tensor, int64_t first, std::span<std::byte> into) const;

  /// The same for a view of a tensor of this file.
  void read(const StoredTensor& view, size_t file, int64_t first, std::span<std::byte> into) const;
  /// Releases the memory of elements [first, first + n) of a view, which were read (StoredTensor::forget()). Reading
  /// them again is slower.
  void forget(const StoredTensor& view, size_t file, int64_t first, int64_t n) const;

  /// The text of a small file of the folder; nothing if it has none. Errors: limit (longer than max_bytes); io.
  Result<std::optional<std::string>> read_text(const std::string& name, uint64_t max_bytes) const;
  /// The same for a JSON file. Errors: those of read_hub_json().
  Result<JsonTree> read_json_file(const std::string& name) const;

 private:
  struct Part {
    File file;
    std::unique_ptr<MappedFile> map;
  };

  Checkpoint() = default;
  Result<> add_folder();
  Result<> add_indexed(const std::string& index_name, const Json& index);
  Result<> add_file(const std::string& path);
  Result<> add_only_model(const std::vector<std::string>& names);
  Result<> add_part(File file, std::vector<StoredTensor> tensors);
  Result<> add_tensors(std::vector<StoredTensor> tensors, size_t part);
  Result<> add_bare_file(File file, Container container);
  Result<> add_meta_parts(const std::vector<std::string>& names);

  std::string folder_;
  std::vector<Part> parts_;
  std::vector<CheckpointTensor> tensors_;
  std::unordered_map<std::string, size_t> by_name_;
  std::shared_ptr<const BareModel> bare_model_;
};

/// The files of a LoRA adapter in the form of the PEFT library: its settings, and its tensors in one of two containers.
inline constexpr const char* kAdapterConfigFile = "adapter_config.json";
inline constexpr const char* kAdapterTensorFiles[] = {"adapter_model.safetensors", "adapter_model.bin"};

/// A JSON file of a hub: at most 100 MB and 64 levels. Nothing if there is none. Errors: those of read_json(), with the
/// path; io.
Result<JsonTree> read_hub_json(const std::string& path);

/// Whether a path is a folder, or a file that begins like one of tensors. False if it cannot be read.
bool is_checkpoint(const std::string& path);

/// Whether a name is that of a file in the same folder: not empty, without '/' and NUL, and neither "." nor "..".
bool is_plain_name(std::string_view name);

}  // namespace tessera::convert
