#include "tessera/convert/quantize.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/gguf/keys.h"
#include "tessera/gguf/printable.h"

namespace tessera::convert {

namespace {

// Number of values encoded between two writes. It gives some MB of output, so that synchronization is rare and little
// memory is used.
constexpr int64_t kBatchValues = int64_t{1} << 22;
// Number of values that a thread encodes at a time. Any encoder needs at least a millisecond for it.
constexpr int64_t kChunkValues = int64_t{1} << 14;

Result<> require_formats(const QuantizePlan& plan, const QuantizeOptions& options) {
  for (const PlannedTensor& tensor : plan.tensors) {
    if (tensor.is_copied()) continue;
    const std::string name = quote_name(tensor.source.info.name);
    if (find_decoder(tensor.source.info.dtype) == nullptr)
      return fail(ErrorCode::unsupported, "tensor {}: type {} has no decoder", name,
                  info(tensor.source.info.dtype).name);
    if (find_encoder(tensor.to, options.encoder) == nullptr)
      return fail(ErrorCode::unsupported, "tensor {}: type {} has no encoder", name, info(tensor.to).name);
  }
  return {};
}

// Processes the tensors of an output in order. All threads encode a batch of rows; the caller's thread first writes the
// previous batch.
class TensorStream {
 public:
  TensorStream(const ModelFiles& files, const QuantizePlan& plan, const QuantizeOptions& options,
               const WorkContext& context)
      : files_(files),
        options_(options),
        context_(context),
        n_bytes_total_(std::max<uint64_t>(1, plan.n_bytes_before())) {}

  Result<> write(const PlannedTensor& tensor, GgufWriter& writer) {
    TESSERA_ASSIGN(const TensorImportance importance, importance_of(options_.imatrix, tensor.source.info));
    const Shape& shape = tensor.source.info.shape;
    start(tensor, importance);
    const int64_t n_batch_rows = rows_of_values(kBatchValues);
    for (int64_t begin = 0; begin < shape.n_rows(); begin += n_batch_rows) {
      const int64_t n_rows = std::min(n_batch_rows, shape.n_rows() - begin);
      TESSERA_ASSIGN(const bool is_copied, copy(begin, n_rows, writer));
      if (!is_copied) {
        TESSERA_ASSIGN(const std::span<const std::byte> encoded, encode(begin, n_rows, writer));
        unwritten_ = encoded;
        if (!is_in_files() || !tensor.is_copied()) std::swap(batch_, written_);
      }
      forget(begin, n_rows);
      if (context_.cancel != nullptr && context_.cancel->cancelled()) return fail(ErrorCode::cancelled, "interrupted");
      const double share = static_cast<double>(n_bytes_done_) / static_cast<double>(n_bytes_total_);
      if (!context_.progress(static_cast<float>(share))) return fail(ErrorCode::cancelled, "interrupted");
    }
    return write_rest(writer);
  }

  /// Counts a tensor that is written already.
  void skip(const PlannedTensor& tensor) { n_bytes_done_ += tensor.source.info.n_bytes; }

 private:
  struct Fault {
    int64_t row = 0;
    RowFault what;
  };

  // Rows of about so many values that are read at once.
  int64_t rows_of_values(int64_t n_values) const {
    const int64_t n = std::max<int64_t>(1, n_values / tensor_->source.info.shape[0]);
    return is_in_files() ? n : round_up(n, options_.rows->rows_at_once(tensor_->source.info));
  }

  void start(const PlannedTensor& tensor, const TensorImportance& importance) {
    tensor_ = &tensor;
    importance_ = &importance;
    const int64_t n_rows = tensor.source.info.shape.n_rows();
    from_row_bytes_ = to_size(tensor.source.info.n_bytes) / to_size(n_rows);
    to_row_bytes_ = to_size(tensor.n_bytes) / to_size(n_rows);
    coders_.clear();
    chunks_.resize(to_size(context_.threads.size()));
    const quant::Format* from = find_decoder(tensor.source.info.dtype);
    const quant::Format* to = tensor.is_copied() ? nullptr : find_encoder(tensor.to, options_.encoder);
    const bool is_unchecked = to == nullptr && options_.mix.copy_all && !options_.checks_copies;
    if (from == nullptr || is_unchecked) return;
    for (int i = 0; i < context_.threads.size(); ++i)
      coders_.emplace_back(*from, to, tensor.to, tensor.source.info.shape[0], options_.encoder);
  }

  bool is_in_files() const { return options_.rows == nullptr; }

  std::span<const std::byte> rows_in_files(int64_t begin, int64_t n) const {
    return files_.data(tensor_->source).subspan(to_size(begin) * from_row_bytes_, to_size(n) * from_row_bytes_);
  }

  // Rows [at, at + n) of the batch that starts at row begin. Rows that are copied are read to their place in the
  // output.
  const std::byte* rows_of_chunk(size_t thread, int64_t begin, int64_t at, int64_t n) {
    if (is_in_files()) return rows_in_files(begin + at, n).data();
    std::span<std::byte> into = batch_;
    if (tensor_->is_copied()) {
      into = into.subspan(to_size(at) * from_row_bytes_, to_size(n) * from_row_bytes_);
    } else {
      chunks_[thread].resize(to_size(n) * from_row_bytes_);
      into = chunks_[thread];
    }
    options_.rows->read(tensor_->source.info, begin + at, n, into);
    return into.data();
  }

  Result<> write_rest(GgufWriter& writer) {
    const std::span<const std::byte> rest = std::exchange(unwritten_, {});
    return rest.empty() ? Result<>() : writer.append(rest);
  }

  // Copies rows from file to file. Returns whether this was possible.
  Result<bool> copy(int64_t begin, int64_t n, GgufWriter& writer) {
    if (is_in_files() || !tensor_->is_copied() || !coders_.empty()) return false;
    const std::vector<FileRange> ranges = options_.rows->stored(tensor_->source.info, begin, n);
    if (ranges.empty()) return false;
    TESSERA_TRY(write_rest(writer));
    for (const FileRange& range : ranges) TESSERA_TRY(writer.append_from(*range.file, range.offset, range.n_bytes));
    return true;
  }

  // Returns the output bytes of n rows, valid until the call after the next. Writes the bytes of the previous call.
  Result<std::span<const std::byte>> encode(int64_t begin, int64_t n, GgufWriter& writer) {
    const bool stays_in_files = is_in_files() && tensor_->is_copied();
    if (stays_in_files && coders_.empty()) {
      TESSERA_TRY(write_rest(writer));
      return rows_in_files(begin, n);
    }
    if (!stays_in_files) batch_.resize(to_size(n) * to_row_bytes_);
    std::vector<std::optional<Fault>> faults(chunks_.size());
    const int64_t n_chunk_rows = rows_of_values(kChunkValues);
    Result<> written;
    const auto encode_chunks = [&](ThreadContext& thread) {
      const auto index = to_size(thread.index);
      if (index == 0) written = write_rest(writer);
      for (int64_t at = thread.next_chunk() * n_chunk_rows; at < n; at = thread.next_chunk() * n_chunk_rows) {
        if (thread.cancelled()) return;
        const int64_t n_here = std::min(n_chunk_rows, n - at);
        const std::byte* rows = rows_of_chunk(index, begin, at, n_here);
        for (int64_t row = at; row < at + n_here && !coders_.empty(); ++row, rows += from_row_bytes_) {
          const auto fault = encode_row(coders_[index], rows, begin, row);
          // The first fault of the batch is reported, whichever thread finds it.
          if (fault && (!faults[index] || begin + row < faults[index]->row)) faults[index] = {begin + row, *fault};
        }
      }
    };
    std::atomic<bool> is_out_of_memory{false};
    const auto work = [&](ThreadContext& thread) {
      try {
        encode_chunks(thread);
      } catch (const std::bad_alloc&) {  // an exception must not leave the work of a pool
        is_out_of_memory = true;
      }
    };
    context_.threads.run(work, {.cancel = context_.cancel});
    TESSERA_TRY(std::move(written));
    if (is_out_of_memory) return fail(ErrorCode::out_of_memory, "out of memory");
    std::optional<Fault> first;
    for (const auto& fault : faults)
      if (fault && (!first || fault->row < first->row)) first = fault;
    if (first) return std::unexpected(to_error(first->what, files_, *tensor_, first->row));
    if (stays_in_files) return rows_in_files(begin, n);
    return std::span<const std::byte>(batch_);
  }

  std::optional<RowFault> encode_row(RowCoder& coder, const std::byte* source, int64_t begin, int64_t row) {
    if (auto fault = coder.read(source)) return fault;
    if (tensor_->is_copied()) return std::nullopt;
    if (tensor_->is_edited) {
      const auto edit = [&](std::span<float> values) {
        options_.edit->edit(tensor_->source.info.name, begin + row, values);
      };
      if (auto fault = coder.edit(edit)) return fault;
    }
    return coder.write(*importance_, begin + row, batch_.data() + to_size(row) * to_row_bytes_);
  }

  // Mapped pages of the input count as memory of this process, so they are released.
  void forget(int64_t begin, int64_t n) {
    const auto n_bytes = static_cast<uint64_t>(n) * from_row_bytes_;
    n_bytes_done_ += n_bytes;
    if (!is_in_files()) return options_.rows->forget(tensor_->source.info, begin, n);
    if (const MappedFile* map = files_.files()[tensor_->source.file]->map())
      map->discard(tensor_->source.info.file_offset + static_cast<uint64_t>(begin) * from_row_bytes_, n_bytes);
  }

  const ModelFiles& files_;
  const QuantizeOptions& options_;
  const WorkContext& context_;
  const uint64_t n_bytes_total_;
  uint64_t n_bytes_done_ = 0;
  const PlannedTensor* tensor_ = nullptr;
  const TensorImportance* importance_ = nullptr;
  size_t from_row_bytes_ = 0, to_row_bytes_ = 0;
  std::vector<RowCoder> coders_;                // one per thread; none if rows are copied without decoding
  std::vector<std::byte> batch_, written_;      // rows being encoded, rows being written
  std::vector<std::vector<std::byte>> chunks_;  // rows that are read and not copied, one chunk per thread
  std::span<const std::byte> unwritten_;        // part of written_ or of the input
};

struct PartNumber {
  uint32_t part, n_parts;
};

Result<GgufWriter> open_writer(const std::string& path, const GgufBuilder& builder, PartNumber number,
                               PartialOutput* partial) {
  if (partial == nullptr) return GgufWriter::create(path, builder);
  const std::string temporary = partial->path_of(number.part, number.n_parts);
  TESSERA_ASSIGN(GgufWriter writer, GgufWriter::resume(path, temporary, builder, partial->resumes()));
  partial->add_tensors_found(writer.n_complete());
  return writer;
}

// The first part appears last: where it is, the others are.
Result<> publish(std::span<GgufWriter> writers, std::span<const std::string> paths) {
  for (size_t part = writers.size(); part-- > 0;) {
    Result<> finished = writers[part].finish();
    if (finished) continue;
    for (size_t i = part + 1; i < writers.size(); ++i) ::unlink(paths[i].c_str());
    return forward_error(finished);
  }
  return {};
}

}  // namespace

std::optional<FileType> recorded_type(const ModelFiles& files) {
  const auto id = files.metadata().get<uint32_t>(keys::kFileType);
  return id ? file_type_from_id(*id) : std::nullopt;
}

uint64_t bytes_of_files(const ModelFiles& files) {
  uint64_t n = 0;
  for (const auto& file : files.files()) n += file->bytes().size();
  return n;
}

Result<> require_other_file(const ModelFiles& files, const std::string& output) {
  struct stat there {};
  if (::stat(output.c_str(), &there) != 0) return {};
  for (const auto& file : files.files()) {
    struct stat input {};
    if (file->file() == nullptr || ::fstat(file->file()->descriptor(), &input) != 0) continue;
    if (input.st_dev == there.st_dev && input.st_ino == there.st_ino)
      return fail(ErrorCode::invalid_argument, "{}: is the input, {}: give another output", output, file->name());
  }
  return {};
}

Result<> require_other_files(const ModelFiles& files, const QuantizePlan& plan, const std::string& path) {
  for (const std::string& part : output_paths(plan, path)) TESSERA_TRY(require_other_file(files, part));
  return {};
}

Result<> write_quantized(const ModelFiles& files, const QuantizePlan& plan, const QuantizeOptions& options,
                         const std::string& path, const WorkContext& context) {
  const std::vector<std::string> paths = output_paths(plan, path);
  TESSERA_TRY(require_other_files(files, plan, path));
  TESSERA_TRY(require_formats(plan, options));
  std::vector<GgufWriter> writers;
  TensorStream stream(files, plan, options, context);
  auto tensor = plan.tensors.begin();
  for (uint32_t part = 0; part < plan.n_parts; ++part) {
    TESSERA_ASSIGN(const GgufBuilder builder, describe_part(files, plan, options, part));
    TESSERA_ASSIGN(GgufWriter writer, open_writer(paths[part], builder, {part, plan.n_parts}, context.partial));
    size_t n_found = writer.n_complete();
    for (; tensor != plan.tensors.end() && tensor->part == part; ++tensor) {
      if (n_found > 0) {
        --n_found;
        stream.skip(*tensor);
      } else {
        TESSERA_TRY(stream.write(*tensor, writer));
      }
    }
    TESSERA_TRY(writer.close());
    writers.push_back(std::move(writer));
  }
  return publish(writers, paths);
}

}  // namespace tessera::convert
