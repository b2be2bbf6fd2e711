#include "tessera/convert/imatrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "tessera/base/bytes.h"
#include "tessera/base/checked.h"
#include "tessera/base/file.h"
#include "tessera/gguf/keys.h"
#include "tessera/gguf/limits.h"
#include "tessera/gguf/printable.h"
#include "tessera/gguf/reader.h"
#include "tessera/gguf/writer.h"

namespace tessera::convert {

namespace {

constexpr std::string_view kImatrixType = "imatrix";
constexpr std::string_view kDatasets = "imatrix.datasets";
constexpr std::string_view kChunkCount = "imatrix.chunk_count";
constexpr std::string_view kChunkSize = "imatrix.chunk_size";
constexpr std::string_view kSumsSuffix = ".in_sum2";
constexpr std::string_view kCountsSuffix = ".counts";
constexpr std::string_view kGgufMagic = "GGUF";

// Minimum size of an entry of the older format: two lengths, one letter, the count of calls, one value.
constexpr size_t kMinLegacyEntryBytes = 4 + 1 + 4 + 4 + 4;
constexpr uint32_t kMaxDatasetBytes = 1u << 16;

// Reads f32 values as doubles. Error: format, with the first value that cannot be a sum of squares.
Result<std::vector<double>> read_values(std::span<const std::byte> bytes) {
  std::vector<double> values(bytes.size() / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) {
    float value;
    std::memcpy(&value, bytes.data() + i * sizeof(float), sizeof(float));
    if (!std::isfinite(value) || value < 0)
      return fail(ErrorCode::format, "value {} is {}, want a finite number of at least 0", i, value);
    values[i] = static_cast<double>(value);
  }
  return values;
}

Result<std::vector<double>> read_tensor(const GgufFile& file, const GgufTensor& tensor) {
  if (tensor.dtype != DType::f32)
    return fail(ErrorCode::format, "tensor {}: type {}, want f32", quote_name(tensor.name), info(tensor.dtype).name);
  Result<std::vector<double>> values = read_values(file.data(tensor));
  if (!values) return forward_error(values, "tensor " + quote_name(tensor.name));
  return values;
}

// Reads the entry of the weight to which these sums belong.
Result<ImatrixEntry> read_entry(const GgufFile& file, const GgufTensor& sums, const std::string& weight) {
  const GgufTensor* counts = file.find_tensor(weight + std::string(kCountsSuffix));
  if (counts == nullptr)
    return fail(ErrorCode::format, "tensor {} has no counts: no tensor {}", quote_name(sums.name),
                quote_name(weight + std::string(kCountsSuffix)));
  const int64_t n_matrices = counts->shape.n_elements();
  if (sums.shape.n_elements() / sums.shape[0] != n_matrices)
    return fail(ErrorCode::format, "tensor {}: shape {}, but there are {} counts", quote_name(sums.name),
                to_string(sums.shape), n_matrices);
  ImatrixEntry entry;
  TESSERA_ASSIGN(entry.sums, read_tensor(file, sums));
  TESSERA_ASSIGN(entry.counts, read_tensor(file, *counts));
  for (double& count : entry.counts) count = std::round(count);
  return entry;
}

Result<Imatrix> parse_gguf(const GgufFile& file) {
  const Metadata& metadata = file.metadata();
  const std::string_view type = metadata.get<std::string_view>(keys::kType).value_or("");
  if (type != kImatrixType)
    return fail(ErrorCode::format, "{}: not an importance matrix: {} is {}, want '{}'", file.name(), keys::kType,
                quote_name(type), kImatrixType);
  Imatrix imatrix;
  TESSERA_ASSIGN(imatrix.n_chunks, metadata.get<uint32_t>(kChunkCount));
  TESSERA_ASSIGN(imatrix.chunk_size, metadata.get<uint32_t>(kChunkSize));
  TESSERA_ASSIGN(const std::vector<std::string_view> datasets, metadata.get_vector<std::string_view>(kDatasets));
  imatrix.datasets.assign(datasets.begin(), datasets.end());
  if (imatrix.chunk_size == 0)
    return fail(ErrorCode::format, "{}: key '{}' is 0, want at least 1", file.name(), kChunkSize);
  for (const GgufTensor& tensor : file.tensors()) {
    if (!tensor.name.ends_with(kSumsSuffix)) continue;
    const std::string weight(tensor.name.substr(0, tensor.name.size() - kSumsSuffix.size()));
    Result<ImatrixEntry> entry = read_entry(file, tensor, weight);
    if (!entry) return forward_error(entry, file.name());
    imatrix.entries.emplace(weight, std::move(*entry));
  }
  if (imatrix.entries.empty()) return fail(ErrorCode::format, "{}: holds no weight's sums", file.name());
  return imatrix;
}

// Reads a number of the older format. It is an i32 that must not be below `min`.
Result<uint32_t> read_count(ByteReader& in, std::string_view what, uint32_t min, uint64_t max) {
  const size_t at = in.offset();
  TESSERA_ASSIGN(const int32_t value, in.read<int32_t>());
  if (value < static_cast<int64_t>(min) || static_cast<uint64_t>(value) > max)
    return fail(ErrorCode::format, "offset {}: {}, got {}, want {} to {}: damaged, or not an importance matrix", at,
                what, value, min, max);
  return static_cast<uint32_t>(value);
}

Result<std::string> read_text(ByteReader& in, std::string_view what, uint32_t min_bytes, uint32_t max_bytes) {
  TESSERA_ASSIGN(const uint32_t n_bytes, read_count(in, what, min_bytes, max_bytes));
  TESSERA_ASSIGN(const auto bytes, in.take(n_bytes));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// Reads one entry of the older format: means times the number of calls. Counts are converted to tokens, with chunk_size
// tokens per chunk.
Result<uint32_t> read_legacy_entry(ByteReader& in, Imatrix& imatrix) {
  constexpr auto kMaxCount = static_cast<uint64_t>(std::numeric_limits<int32_t>::max());
  TESSERA_ASSIGN(std::string name, read_text(in, "bytes of a weight's name", 1, kGgufMaxTensorNameBytes));
  TESSERA_ASSIGN(const uint32_t n_calls, read_count(in, "number of calls", 0, kMaxCount));
  TESSERA_ASSIGN(const uint32_t n_values, read_count(in, "number of values", 1, kMaxCount));
  TESSERA_ASSIGN(const auto bytes, in.take(uint64_t{n_values} * sizeof(float)));
  ImatrixEntry entry;
  Result<std::vector<double>> values = read_values(bytes);
  if (!values) return forward_error(values, "weight " + quote_name(name));
  entry.sums = std::move(*values);
  if (n_calls > 0)
    for (double& sum : entry.sums) sum *= imatrix.chunk_size;
  // Without calls, the values are used unchanged.
  entry.counts = {n_calls > 0 ? static_cast<double>(n_calls) * imatrix.chunk_size : 1.0};
  const auto [at, is_new] = imatrix.entries.emplace(std::move(name), std::move(entry));
  if (!is_new) return fail(ErrorCode::format, "weight {} occurs twice", quote_name(at->first));
  return n_calls;
}

Result<Imatrix> parse_legacy(ByteReader in) {
  Imatrix imatrix;
  TESSERA_ASSIGN(const uint32_t n_entries,
                 read_count(in, "number of weights", 1, in.remaining() / kMinLegacyEntryBytes));
  for (uint32_t i = 0; i < n_entries; ++i) {
    Result<uint32_t> n_calls = read_legacy_entry(in, imatrix);
    if (!n_calls) return forward_error(n_calls, fmt::format("weight {} of {}", i + 1, n_entries));
    imatrix.n_chunks = std::max(imatrix.n_chunks, *n_calls);
  }
  if (in.remaining() == 0) return imatrix;  // the oldest programs write no more
  TESSERA_ASSIGN(imatrix.n_chunks, read_count(in, "number of chunks", 0, std::numeric_limits<int32_t>::max()));
  if (in.remaining() == 0) return imatrix;
  TESSERA_ASSIGN(std::string dataset, read_text(in, "bytes of the text's name", 0, kMaxDatasetBytes));
  if (!dataset.empty()) imatrix.datasets.push_back(std::move(dataset));
  if (in.remaining() != 0)
    return fail(ErrorCode::format, "offset {}: {} bytes after the end", in.offset(), in.remaining());
  return imatrix;
}

Result<> check_sizes(const std::string& name, const ImatrixEntry& entry) {
  if (!entry.sums.empty() && !entry.counts.empty() && entry.sums.size() % entry.counts.size() == 0) return {};
  return fail(ErrorCode::invalid_argument, "weight {}: {} sums of {} matrices", quote_name(name), entry.sums.size(),
              entry.counts.size());
}

Result<float> narrowed(double value) {
  if (value >= 0 && value <= static_cast<double>(std::numeric_limits<float>::max())) return static_cast<float>(value);
  return fail(ErrorCode::limit, "{} is not a finite f32 of at least 0", value);
}

Result<std::vector<float>> narrowed(std::span<const double> values) {
  std::vector<float> out;
  out.reserve(values.size());
  for (const double value : values) {
    TESSERA_ASSIGN(const float narrow, narrowed(value));
    out.push_back(narrow);
  }
  return out;
}

double largest_count(const ImatrixEntry& entry) { return *std::ranges::max_element(entry.counts); }

// The entry in the older format: one count, in chunks, and values of mean * count.
Result<std::vector<float>> legacy_values(const ImatrixEntry& entry, double n_calls) {
  std::vector<float> values;
  values.reserve(entry.sums.size());
  const size_t n_columns = entry.n_columns();
  for (size_t i = 0; i < entry.sums.size(); ++i) {
    const double count = entry.counts[i / n_columns];
    TESSERA_ASSIGN(const float value, narrowed(count > 0 ? entry.sums[i] / count * n_calls : n_calls));
    values.push_back(value);
  }
  return values;
}

template <class T>
void append_number(std::vector<std::byte>& out, T value) {
  const size_t at = out.size();
  out.resize(at + sizeof(T));
  std::memcpy(out.data() + at, &value, sizeof(T));
}

void append_bytes(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

Result<> append_text(std::vector<std::byte>& out, std::string_view text) {
  if (text.size() > kMaxDatasetBytes)
    return fail(ErrorCode::limit, "text of {} bytes, limit {}", text.size(), kMaxDatasetBytes);
  append_number(out, static_cast<int32_t>(text.size()));
  append_bytes(out, std::as_bytes(std::span(text)));
  return {};
}

Result<> append_legacy_entry(std::vector<std::byte>& out, const std::string& name, const ImatrixEntry& entry,
                             uint32_t chunk_size) {
  const double n_calls = std::ceil(largest_count(entry) / chunk_size);
  if (n_calls > std::numeric_limits<int32_t>::max() || !std::in_range<int32_t>(entry.sums.size()))
    return fail(ErrorCode::limit, "{} values of {} chunks do not fit this form", entry.sums.size(), n_calls);
  TESSERA_TRY(append_text(out, name));
  append_number(out, static_cast<int32_t>(n_calls));
  append_number(out, static_cast<int32_t>(entry.sums.size()));
  TESSERA_ASSIGN(const std::vector<float> values, legacy_values(entry, n_calls));
  append_bytes(out, std::as_bytes(std::span(values)));
  return {};
}

// True if the sizes of two entries of a weight allow their addition.
bool is_addable(const ImatrixEntry& a, const ImatrixEntry& b) {
  const size_t n = std::max(a.counts.size(), b.counts.size());
  return a.sums.size() == b.sums.size() && !a.counts.empty() && !b.counts.empty() && a.sums.size() % n == 0 &&
         (a.counts.size() == b.counts.size() || std::min(a.counts.size(), b.counts.size()) == 1);
}

void add_entry(ImatrixEntry& to, const ImatrixEntry& from) {
  for (size_t i = 0; i < to.sums.size(); ++i) to.sums[i] += from.sums[i];
  if (to.counts.size() < from.counts.size()) to.counts.assign(from.counts.size(), to.counts[0]);
  for (size_t i = 0; i < to.counts.size(); ++i) to.counts[i] += from.counts[from.counts.size() == 1 ? 0 : i];
}

}  // namespace

Result<Imatrix> Imatrix::load(const std::string& path) {
  TESSERA_ASSIGN(const File file, File::open(path));
  TESSERA_ASSIGN(const auto map, MappedFile::map(file));
  return parse(map->bytes(), path);
}

Result<Imatrix> Imatrix::parse(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() >= kGgufMagic.size() && std::memcmp(bytes.data(), kGgufMagic.data(), kGgufMagic.size()) == 0) {
    TESSERA_ASSIGN(const auto file, GgufFile::parse(bytes, name));
    return parse_gguf(*file);
  }
  Result<Imatrix> imatrix = parse_legacy(ByteReader(bytes));
  if (!imatrix) return forward_error(imatrix, name);
  return imatrix;
}

Result<> Imatrix::save(const std::string& path) const {
  GgufBuilder builder;
  builder.set(keys::kType, kImatrixType);
  builder.set_array(kDatasets, datasets);
  builder.set(kChunkCount, n_chunks);
  builder.set(kChunkSize, chunk_size);
  std::vector<std::vector<float>> data;
  for (const auto& [name, entry] : entries) {
    TESSERA_TRY(check_sizes(name, entry));
    const auto n_matrices = static_cast<int64_t>(entry.n_matrices());
    TESSERA_TRY(builder.add_tensor(name + std::string(kSumsSuffix), DType::f32,
                                   {static_cast<int64_t>(entry.n_columns()), n_matrices}));
    TESSERA_TRY(builder.add_tensor(name + std::string(kCountsSuffix), DType::f32, {1, n_matrices}));
    for (const std::vector<double>* values : {&entry.sums, &entry.counts}) {
      Result<std::vector<float>> narrow = narrowed(*values);
      if (!narrow) return forward_error(narrow, "weight " + quote_name(name));
      data.push_back(std::move(*narrow));
    }
  }
  TESSERA_ASSIGN(GgufWriter writer, GgufWriter::create(path, builder));
  for (const std::vector<float>& values : data) TESSERA_TRY(writer.append(std::as_bytes(std::span(values))));
  return writer.finish();
}

Result<> Imatrix::save_legacy(const std::string& path) const {
  std::vector<std::byte> out;
  int32_t n_written = 0;
  append_number(out, n_written);
  for (const auto& [name, entry] : entries) {
    TESSERA_TRY(check_sizes(name, entry));
    if (largest_count(entry) <= 0) continue;
    Result<> appended = append_legacy_entry(out, name, entry, chunk_size);
    if (!appended) return forward_error(appended, "weight " + quote_name(name));
    ++n_written;
  }
  if (n_written == 0) return fail(ErrorCode::invalid_argument, "{}: no weight has seen a token", path);
  std::memcpy(out.data(), &n_written, sizeof(n_written));
  append_number(out, n_chunks);
  TESSERA_TRY(append_text(out, datasets.empty() ? "" : datasets.back()));
  TESSERA_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TESSERA_TRY(file.write(out));
  return file.commit();
}

Result<> Imatrix::add(const Imatrix& other) {
  for (const auto& [name, theirs] : other.entries) {
    const auto ours = entries.find(name);
    if (ours == entries.end() || is_addable(ours->second, theirs)) continue;
    return fail(ErrorCode::mismatch, "weight {}: {} sums of {} matrices, the other has {} of {}", quote_name(name),
                ours->second.sums.size(), ours->second.counts.size(), theirs.sums.size(), theirs.counts.size());
  }
  double most_tokens = 0;
  for (const auto& [name, theirs] : other.entries) {
    const auto [at, is_new] = entries.try_emplace(name, theirs);
    if (!is_new) add_entry(at->second, theirs);
  }
  for (const auto& [name, entry] : entries)
    if (!entry.counts.empty()) most_tokens = std::max(most_tokens, largest_count(entry));
  constexpr double kMaxChunks = std::numeric_limits<uint32_t>::max();
  n_chunks = static_cast<uint32_t>(std::min(most_tokens / std::max(chunk_size, 1u), kMaxChunks));
  datasets.insert(datasets.end(), other.datasets.begin(), other.datasets.end());
  return {};
}

std::vector<float> importance_of(const ImatrixEntry& entry, size_t i) {
  return importance_of(entry, i, entry.n_matrices());
}

std::vector<float> importance_of(const ImatrixEntry& entry, size_t i, size_t n_matrices) {
  const size_t n_columns = entry.sums.size() / n_matrices;
  const double count = entry.counts[entry.counts.size() == 1 ? 0 : i];
  std::vector<float> importance(n_columns, 1.0f);
  if (count <= 0) return importance;
  constexpr double kMax = std::numeric_limits<float>::max();
  for (size_t j = 0; j < n_columns; ++j)
    importance[j] = static_cast<float>(std::min(entry.sums[i * n_columns + j] / count, kMax));
  return importance;
}

}  // namespace tessera::convert
