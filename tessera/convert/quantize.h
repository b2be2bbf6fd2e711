// Quantizes a model file: plan_quantize() decides the type of every tensor and knows the output's size,
// write_quantized() streams the tensors through the encoders. A few MB of buffers whatever the model; the same bytes
// for any number of threads; the output appears only when it is complete.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/cancel.h"
#include "tessera/base/function_ref.h"
#include "tessera/base/thread_pool.h"
#include "tessera/convert/imatrix.h"
#include "tessera/convert/mix.h"
#include "tessera/convert/row_coder.h"
#include "tessera/gguf/split.h"
#include "tessera/gguf/writer.h"

namespace tessera::convert {

/// Changes the values of weights on their way from the input to the output.
class RowEdit {
 public:
  virtual ~RowEdit() = default;
  /// Changes row `row` of a tensor in place; several threads call at once.
  virtual void edit(std::string_view tensor, int64_t row, std::span<float> values) const = 0;
};

struct QuantizeOptions {
  MixOptions mix;
  EncoderOptions encoder;
  bool keep_split = false;           // one output per input part
  const Imatrix* imatrix = nullptr;  // borrowed
  const RowEdit* edit = nullptr;     // borrowed: of the tensors that the plan says are edited
  std::string imatrix_path;          // for the record in the output
  std::string program_version;       // likewise
};

struct PlannedTensor {
  ModelFiles::Tensor source;
  DType to = DType::f32;
  MixReason reason = MixReason::kept;
  uint64_t n_bytes = 0;
  uint32_t part = 0;  // of the output
  bool is_edited = false;

  bool is_copied() const { return to == source.info.dtype && !is_edited; }
};

struct QuantizePlan {
  std::vector<PlannedTensor> tensors;  // in the order of the output
  std::optional<FileType> file_type;   // of the output; none: as in the input
  uint32_t n_parts = 1;

  uint64_t n_bytes_before() const;
  uint64_t n_bytes_after() const;
};

/// Which type each tensor gets by options.mix. Errors: metadata that no model has; a matrix of another model.
Result<QuantizePlan> plan_quantize(const ModelFiles& files, const QuantizeOptions& options);

/// What the user should know before: quality that is lost, an importance matrix that is missing or does not cover all.
std::vector<std::string> warnings_of(const QuantizePlan& plan, const QuantizeOptions& options);

/// What stands before the data of a part of the output. Errors: metadata that cannot be written.
Result<GgufBuilder> describe_part(const ModelFiles& files, const QuantizePlan& plan, const QuantizeOptions& options,
                                  uint32_t part);

/// The bytes of the files that the plan gives, all parts together. Errors: metadata that cannot be written.
Result<uint64_t> output_bytes(const ModelFiles& files, const QuantizePlan& plan, const QuantizeOptions& options);

/// The paths of the plan's parts, given that of the output.
std::vector<std::string> output_paths(const QuantizePlan& plan, const std::string& path);

/// Error: an output of the plan is a file of the input, whatever name it has.
Result<> want_other_files(const ModelFiles& files, const QuantizePlan& plan, const std::string& path);

struct WorkContext {
  ThreadPool& threads;
  const CancelToken* cancel = nullptr;
  FunctionRef<void(float)> progress;  // share of the work that is done
};

/// Writes the output. Errors: those of want_other_files(); a value that is not finite; a type without encoder or
/// decoder; io; cancelled. After an error nothing is left.
Result<> write_quantized(const ModelFiles& files, const QuantizePlan& plan, const QuantizeOptions& options,
                         const std::string& path, const WorkContext& context);

/// The importance of a tensor's columns; empty without an importance matrix or entry. Errors: mismatch.
Result<TensorImportance> importance_of(const Imatrix* imatrix, const GgufTensor& tensor);

/// The format of a type, or null where it cannot decode; where it cannot encode.
const quant::Format* find_decoder(DType dtype);
const quant::Format* find_encoder(DType dtype, const EncoderOptions& options);

/// The error that a fault in row i of a tensor is.
Error to_error(const RowFault& fault, const ModelFiles& files, const PlannedTensor& tensor, int64_t i);

}  // namespace tessera::convert
