// Quantizes a model file. plan_quantize() decides the type of every tensor, which determines the size of the output.
// write_quantized() streams the tensors through the encoders. Buffers need a few MB for any model. The output has the
// same bytes for any number of threads and appears only when it is complete.
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
#include "tessera/convert/partial_output.h"
#include "tessera/convert/row_coder.h"
#include "tessera/convert/shards.h"
#include "tessera/gguf/split.h"
#include "tessera/gguf/writer.h"

namespace tessera::convert {

/// Changes the values of weights between input and output.
class RowEdit {
 public:
  virtual ~RowEdit() = default;
  /// Changes row `row` of a tensor in place. Called from several threads at once.
  virtual void edit(std::string_view tensor, int64_t row, std::span<float> values) const = 0;
};

/// A part of a file.
struct FileRange {
  const File* file;
  uint64_t offset, n_bytes;
};

/// The rows of a model whose files have only its header, such as one that is being converted.
class RowSource {
 public:
  virtual ~RowSource() = default;
  /// Fills `into` with rows [begin, begin + n) of a tensor, in its type. Called from several threads at once.
  virtual void read(const GgufTensor& tensor, int64_t begin, int64_t n, std::span<std::byte> into) const = 0;
  /// Ranges of files that have rows [begin, begin + n), one after another. Empty: no file has them as they are.
  virtual std::vector<FileRange> stored(const GgufTensor& tensor, int64_t begin, int64_t n) const = 0;
  /// The number of rows that cost least when they are read at once.
  virtual int64_t rows_at_once(const GgufTensor& tensor) const = 0;
  /// Releases memory of rows [begin, begin + n), which were read.
  virtual void forget(const GgufTensor& tensor, int64_t begin, int64_t n) const = 0;
};

struct QuantizeOptions {
  MixOptions mix;
  EncoderOptions encoder;
  bool keep_split = false;           // one output per input part
  bool checks_copies = false;        // copied values must be finite even if all tensors are copied
  const Imatrix* imatrix = nullptr;  // borrowed
  const RowEdit* edit = nullptr;     // borrowed: edits the tensors that the plan marks as edited
  const RowSource* rows = nullptr;   // borrowed: the rows of all tensors; none: the files have them
  std::string imatrix_path;          // recorded in the output
  std::string program_version;       // recorded in the output, unless it is empty
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
  std::optional<FileType> file_type;   // of the output; none: the same as the input
  uint32_t n_parts = 1;

  uint64_t n_bytes_before() const;
  uint64_t n_bytes_after() const;
};

/// Chooses the type of each tensor by options.mix. Errors: inconsistent metadata; an importance matrix of another
/// model.
Result<QuantizePlan> plan_quantize(const ModelFiles& files, const QuantizeOptions& options);

/// Divides the output of a plan whose input is one file into parts within these limits, unless all tensors fit into one
/// part. name: of the output, for errors. Errors: those of plan_shards().
Result<> split_output(QuantizePlan& plan, const std::string& name, const ShardLimits& limits);

/// Returns warnings for the user: loss of quality, or an importance matrix that is missing or incomplete.
std::vector<std::string> warnings_of(const QuantizePlan& plan, const QuantizeOptions& options);

/// Returns the header of a part of the output. Errors: metadata that cannot be written.
Result<GgufBuilder> describe_part(const ModelFiles& files, const QuantizePlan& plan, const QuantizeOptions& options,
                                  uint32_t part);

/// Returns the total size of all output files of the plan. Errors: metadata that cannot be written.
Result<uint64_t> output_bytes(const ModelFiles& files, const QuantizePlan& plan, const QuantizeOptions& options);

/// The mix that a file names; none: it names none, or an unknown one.
std::optional<FileType> recorded_type(const ModelFiles& files);
/// Bytes of all files.
uint64_t bytes_of_files(const ModelFiles& files);

/// Returns the paths of the plan's parts for an output path.
std::vector<std::string> output_paths(const QuantizePlan& plan, const std::string& path);

/// Fails if an output is a file of the input, under whatever name.
Result<> require_other_file(const ModelFiles& files, const std::string& output);
/// Fails if an output of the plan is a file of the input, under whatever name.
Result<> require_other_files(const ModelFiles& files, const QuantizePlan& plan, const std::string& path);

struct WorkContext {
  ThreadPool& threads;
  const CancelToken* cancel = nullptr;
  FunctionRef<bool(float)> progress;  // called with the completed share of the work; returns false to stop
  PartialOutput* partial = nullptr;   // files that are continued; none: new ones that do not stay after an error
};

/// Writes the output. Errors: as require_other_files(); a value that is not finite; a type without encoder or decoder;
/// io; cancelled. After an error no output remains, but for partial files if context.partial resumes.
Result<> write_quantized(const ModelFiles& files, const QuantizePlan& plan, const QuantizeOptions& options,
                         const std::string& path, const WorkContext& context);

/// The importance of a tensor's columns; empty without an importance matrix or entry. Errors: mismatch.
Result<TensorImportance> importance_of(const Imatrix* imatrix, const GgufTensor& tensor);

/// The format of a type, or null if it has no decoder (first) or no encoder (second).
const quant::Format* find_decoder(DType dtype);
const quant::Format* find_encoder(DType dtype, const EncoderOptions& options);

/// Converts a fault in row i of a tensor to an error.
Error to_error(const RowFault& fault, const ModelFiles& files, const PlannedTensor& tensor, int64_t i);

}  // namespace tessera::convert
