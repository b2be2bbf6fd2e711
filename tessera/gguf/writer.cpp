#include "tessera/gguf/writer.h"

#include <algorithm>
#include <array>

#include "tessera/base/checked.h"
#include "tessera/gguf/keys.h"
#include "tessera/gguf/limits.h"
#include "tessera/gguf/magic.h"
#include "tessera/gguf/printable.h"

namespace tessera {

namespace {

constexpr std::array<std::byte, kGgufDefaultAlignment> kZeros{};

template <class T>
void append_number(std::vector<std::byte>& out, T value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof(T));
}

void append_bytes(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

std::span<const std::byte> padding_after(uint64_t n_bytes) {
  return std::span(kZeros).first(round_up(n_bytes, kGgufDefaultAlignment) - n_bytes);
}

Result<> check_key(std::string_view key) {
  if (key.empty() || key.size() > kGgufMaxKeyBytes)
    return fail(ErrorCode::invalid_argument, "key {}: {} bytes, want 1 to {}", quote_name(key), key.size(),
                kGgufMaxKeyBytes);
  if (std::ranges::any_of(key, [](char c) { return c < 0x20 || c > 0x7e; }))
    return fail(ErrorCode::invalid_argument, "key {}: want printable ASCII", quote_name(key));
  if (key == keys::kAlignment)
    return fail(ErrorCode::invalid_argument, "key {} cannot be set: the alignment is always {}", key,
                kGgufDefaultAlignment);
  return {};
}

Result<> check_names_differ(std::span<const GgufBuilder::TensorEntry> tensors) {
  std::vector<NameIndex::Entry> names;
  for (const GgufBuilder::TensorEntry& tensor : tensors)
    names.push_back({tensor.name, static_cast<uint32_t>(names.size())});
  const auto twice = NameIndex(std::move(names)).duplicate();
  if (twice)
    return fail(ErrorCode::invalid_argument, "tensor {} was added twice", quote_name(tensors[twice->first].name));
  return {};
}

int rank_of(const Shape& shape) {
  int rank = kMaxRank;
  while (rank > 1 && shape[rank - 1] == 1) --rank;
  return rank;
}

}  // namespace

Result<> GgufBuilder::set_value(std::string_view key, const GgufValue& value) {
  if (value.is_array() && value.element_type() == GgufType::array)
    return fail(ErrorCode::unsupported, "key {}: an array of arrays is not written", quote_name(key));
  std::vector<std::byte> encoded;
  if (value.is_array()) encoded = array_header(value.element_type(), value.size());
  if (value.type() == GgufType::string) append_number<uint64_t>(encoded, value.bytes().size());
  append_bytes(encoded, value.bytes());
  put({std::string(key), value.type(), std::move(encoded)});
  return {};
}

Result<> GgufBuilder::set_all(const Metadata& metadata) {
  for (const Metadata::Entry& entry : metadata.entries())
    if (entry.key != keys::kAlignment) TESSERA_TRY(set_value(entry.key, entry.value));
  return {};
}

void GgufBuilder::remove(std::string_view key) {
  std::erase_if(keys_, [&](const KeyEntry& entry) { return entry.key == key; });
}

void GgufBuilder::put(KeyEntry entry) {
  const auto at = std::ranges::find(keys_, entry.key, &KeyEntry::key);
  if (at == keys_.end())
    keys_.push_back(std::move(entry));
  else
    *at = std::move(entry);
}

Result<> GgufBuilder::add_tensor(std::string_view name, DType dtype, const Shape& shape, int min_rank) {
  if (name.empty() || name.size() > kGgufMaxTensorNameBytes)
    return fail(ErrorCode::invalid_argument, "tensor {}: name of {} bytes, want 1 to {}", quote_name(name), name.size(),
                kGgufMaxTensorNameBytes);
  if (std::ranges::any_of(shape.ne, [](int64_t extent) { return extent < 1; }))
    return fail(ErrorCode::invalid_argument, "tensor {}: shape {}, want extents of at least 1", quote_name(name),
                to_string(shape));
  Result<size_t> n_bytes = nbytes(dtype, shape);
  if (!n_bytes) return forward_error(n_bytes, "tensor " + quote_name(name));
  const auto padded = checked_round_up<uint64_t>(*n_bytes, kGgufDefaultAlignment);
  const auto n_data_bytes = padded ? checked_add(n_data_bytes_, *padded) : std::nullopt;
  if (!n_data_bytes) return fail(ErrorCode::limit, "tensor {}: the file passes 2^64 bytes", quote_name(name));
  const int rank = std::clamp(min_rank, rank_of(shape), kMaxRank);
  tensors_.push_back({std::string(name), dtype, shape, rank, n_data_bytes_, *n_bytes});
  n_data_bytes_ = *n_data_bytes;
  return {};
}

void GgufBuilder::append_string(std::vector<std::byte>& out, std::string_view text) {
  append_number<uint64_t>(out, text.size());
  append_bytes(out, std::as_bytes(std::span(text)));
}

std::vector<std::byte> GgufBuilder::array_header(GgufType element_type, uint64_t n_elements) {
  std::vector<std::byte> encoded;
  append_number<uint32_t>(encoded, static_cast<uint32_t>(element_type));
  append_number(encoded, n_elements);
  return encoded;
}

Result<std::vector<std::byte>> GgufBuilder::header() const {
  TESSERA_TRY(check_names_differ(tensors_));
  std::vector<std::byte> out;
  append_bytes(out, std::as_bytes(std::span(kGgufMagic)));
  append_number(out, kGgufVersionWritten);
  append_number<uint64_t>(out, tensors_.size());
  append_number<uint64_t>(out, keys_.size());
  for (const KeyEntry& entry : keys_) {
    TESSERA_TRY(check_key(entry.key));
    append_string(out, entry.key);
    append_number<uint32_t>(out, static_cast<uint32_t>(entry.type));
    append_bytes(out, entry.encoded);
  }
  for (const TensorEntry& tensor : tensors_) {
    append_string(out, tensor.name);
    append_number<uint32_t>(out, static_cast<uint32_t>(tensor.rank));
    for (int i = 0; i < tensor.rank; ++i) append_number(out, tensor.shape[i]);
    append_number<uint32_t>(out, static_cast<uint32_t>(tensor.dtype));
    append_number(out, tensor.data_offset);
  }
  if (!tensors_.empty()) append_bytes(out, padding_after(out.size()));
  return out;
}

Result<GgufWriter> GgufWriter::create(const std::string& path, const GgufBuilder& builder) {
  TESSERA_ASSIGN(const std::vector<std::byte> header, builder.header());
  TESSERA_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TESSERA_TRY(file.write(header));
  const auto tensors = builder.tensors();
  return GgufWriter(std::move(file), path, {tensors.begin(), tensors.end()});
}

Result<GgufWriter> GgufWriter::resume(const std::string& path, const std::string& temporary, const GgufBuilder& builder,
                                      bool keeps) {
  TESSERA_ASSIGN(const std::vector<std::byte> header, builder.header());
  TESSERA_ASSIGN(AtomicFile file, AtomicFile::resume(path, temporary, keeps));
  std::vector<std::byte> found(std::min<uint64_t>(file.size(), header.size()));
  TESSERA_TRY(file.read_at(0, found));
  if (found != header) {
    TESSERA_TRY(file.truncate(0));
    TESSERA_TRY(file.write(header));
  }
  uint64_t end = header.size();
  size_t n_complete = 0;
  for (const GgufBuilder::TensorEntry& tensor : builder.tensors()) {
    const uint64_t next = end + round_up<uint64_t>(tensor.n_bytes, kGgufDefaultAlignment);
    if (next > file.size()) break;
    end = next;
    ++n_complete;
  }
  TESSERA_TRY(file.truncate(end));
  const auto tensors = builder.tensors();
  GgufWriter writer(std::move(file), path, {tensors.begin(), tensors.end()});
  writer.i_tensor_ = n_complete;
  return writer;
}

Result<> GgufWriter::append(std::span<const std::byte> bytes) {
  TESSERA_TRY(require_room(bytes.size()));
  TESSERA_TRY(file_.write(bytes));
  return advance(bytes.size());
}

Result<> GgufWriter::append_from(const File& file, uint64_t offset, uint64_t n_bytes) {
  TESSERA_TRY(require_room(n_bytes));
  TESSERA_TRY(file_.write_from(file, offset, n_bytes));
  return advance(n_bytes);
}

Result<> GgufWriter::require_room(uint64_t n_bytes) const {
  if (i_tensor_ == tensors_.size())
    return fail(ErrorCode::invalid_argument, "{}: {} bytes after the last tensor", path_, n_bytes);
  const GgufBuilder::TensorEntry& tensor = tensors_[i_tensor_];
  if (n_bytes > tensor.n_bytes - n_written_)
    return fail(ErrorCode::invalid_argument, "{}: tensor {}: {} bytes, want at most {} more of {}", path_,
                quote_name(tensor.name), n_bytes, tensor.n_bytes - n_written_, tensor.n_bytes);
  return {};
}

Result<> GgufWriter::advance(uint64_t n_bytes) {
  const GgufBuilder::TensorEntry& tensor = tensors_[i_tensor_];
  n_written_ += n_bytes;
  if (n_written_ < tensor.n_bytes) return {};
  TESSERA_TRY(file_.write(padding_after(tensor.n_bytes)));
  ++i_tensor_;
  n_written_ = 0;
  return {};
}

Result<> GgufWriter::write_tensor(std::string_view name, std::span<const std::byte> bytes) {
  if (i_tensor_ < tensors_.size()) {
    const GgufBuilder::TensorEntry& tensor = tensors_[i_tensor_];
    if (tensor.name != name || n_written_ != 0 || bytes.size() != tensor.n_bytes)
      return fail(ErrorCode::invalid_argument, "{}: {} bytes of tensor {}, want {} of {}", path_, bytes.size(),
                  quote_name(name), tensor.n_bytes - n_written_, quote_name(tensor.name));
  }
  return append(bytes);
}

Result<> GgufWriter::close() {
  if (i_tensor_ < tensors_.size())
    return fail(ErrorCode::invalid_argument, "{}: {} of {} tensors written, {} bytes of {} missing", path_, i_tensor_,
                tensors_.size(), tensors_[i_tensor_].n_bytes - n_written_, quote_name(tensors_[i_tensor_].name));
  return file_.close();
}

Result<> GgufWriter::finish() {
  TESSERA_TRY(close());
  return file_.commit();
}

Result<std::vector<std::byte>> gguf_to_bytes(const GgufBuilder& builder,
                                             std::span<const std::span<const std::byte>> data) {
  TESSERA_ASSIGN(std::vector<std::byte> out, builder.header());
  const auto tensors = builder.tensors();
  if (data.size() != tensors.size())
    return fail(ErrorCode::invalid_argument, "data of {} tensors, want {}", data.size(), tensors.size());
  for (size_t i = 0; i < data.size(); ++i) {
    if (data[i].size() != tensors[i].n_bytes)
      return fail(ErrorCode::invalid_argument, "tensor {}: {} bytes, want {}", quote_name(tensors[i].name),
                  data[i].size(), tensors[i].n_bytes);
    append_bytes(out, data[i]);
    append_bytes(out, padding_after(data[i].size()));
  }
  return out;
}

}  // namespace tessera
