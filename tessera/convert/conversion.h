// A conversion of a checkpoint to a GGUF model. Its result is described by the header of a file whose rows are read
// from the checkpoint on demand, so everything that takes a model file takes a conversion: plan_quantize(), fit_size(),
// write_quantized(). A conversion to a quantized type is a quantization of the model in the source's own types.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/convert/converted_rows.h"
#include "tessera/convert/quantize.h"
#include "tessera/convert/source/checkpoint.h"
#include "tessera/convert/source/hub_config.h"
#include "tessera/convert/vocabulary_keys.h"
#include "tessera/gguf/split.h"

namespace tessera::convert {

struct ConversionOptions {
  VocabularySource vocabulary{};
  bool drops_later_layers = false;  // layers that predict further tokens are not part of the result
};

class Conversion {
 public:
  /// Reads a folder, or one file of tensors in it, and makes the whole header. Without a type, matrices have the type
  /// of 16 bits that most of them have in the source, or BF16. Errors: unsupported (a class of models, a tensor, a
  /// method of quantization); those of Checkpoint, HubConfig, draft_model() and create_model(): what is converted can
  /// be loaded.
  static Result<std::unique_ptr<Conversion>> open(const std::string& path, std::optional<FileType> file_type,
                                                  const ConversionOptions& options = {});

  /// Reads a LoRA adapter: a folder with adapter_config.json, or its file of tensors. Without a type, matrices have
  /// that of the adapter if all have the same of F32, F16 and BF16, else F32. base: the folder with the config.json of
  /// the model that the adapter is for. Errors: invalid_argument (another type); those of read_lora_settings() and
  /// draft_lora().
  static Result<std::unique_ptr<Conversion>> open_adapter(const std::string& path, const std::string& base,
                                                          std::optional<FileType> file_type);

  const Checkpoint& checkpoint() const { return checkpoint_; }
  const HubConfig& config() const { return config_; }
  const ModelFiles& files() const { return *files_; }
  const ConvertedRows& rows() const { return *rows_; }

  /// Whether the tensors have the wanted types already: they are written as they are, else quantized.
  bool is_unquantized() const { return is_unquantized_; }
  /// Facts that a user should know, such as an output layer that should be the token embedding and is not.
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// The options of a plan that writes this conversion.
  void apply_to(QuantizeOptions& options) const;

 private:
  Conversion(Checkpoint checkpoint, HubConfig config)
      : checkpoint_(std::move(checkpoint)), config_(std::move(config)) {}
  Result<> make_header(std::optional<FileType> file_type, const ConversionOptions& options);
  Result<> make_adapter_header(std::optional<FileType> file_type);
  Result<> untie(std::vector<ConvertedTensor>& tensors, bool is_tied_by_class);

  Checkpoint checkpoint_;
  HubConfig config_;
  std::vector<std::byte> header_;
  std::unique_ptr<ModelFiles> files_;
  std::unique_ptr<ConvertedRows> rows_;
  std::vector<std::string> warnings_;
  bool is_unquantized_ = true;
};

/// Fails if a file of the output is one of the checkpoint, or their disk has less space than n_bytes.
Result<> check_output(const Checkpoint& checkpoint, std::span<const std::string> paths, uint64_t n_bytes);

/// A fingerprint of all that the bytes of an output depend on: the headers, the files of the checkpoint by their sizes
/// and times, importance and options. Errors: metadata that cannot be written.
Result<uint64_t> fingerprint_of(const Conversion& conversion, const QuantizePlan& plan, const QuantizeOptions& options,
                                std::string_view program_version);

/// Bytes of the files of a checkpoint.
uint64_t bytes_of_files(const Checkpoint& checkpoint);

/// The output of a conversion.
struct OutputPlan {
  std::string path;
  uint64_t n_bytes = 0;  // of all files
  bool resumes = false;  // continue partial files of the same plan, and keep them after an error
  std::string_view program_version;
};

/// The partial files of an output, checked before any work. Errors: those of fingerprint_of(), PartialOutput::open()
/// and check_output().
Result<PartialOutput> open_output(const Conversion& conversion, const QuantizePlan& plan,
                                  const QuantizeOptions& options, const OutputPlan& output);

/// The type of a tensor: F32 for what is small and sensitive, else `matrices`.
DType type_in_gguf(std::string_view name, size_t rank, DType matrices);
/// The shape of a tensor, innermost extent first. Errors: limit (too many dimensions, or too long rows).
Result<Shape> shape_in_gguf(const ConvertedTensor& tensor);

}  // namespace tessera::convert
