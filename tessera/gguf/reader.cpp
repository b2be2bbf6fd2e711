#include "tessera/gguf/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/gguf/keys.h"
#include "tessera/gguf/magic.h"
#include "tessera/gguf/printable.h"

namespace tessera {

namespace {

constexpr uint32_t swap_bytes(uint32_t v) { return v >> 24 | (v >> 8 & 0xFF00) | (v << 8 & 0xFF0000) | v << 24; }

Result<> check_version(uint32_t version, size_t at) {
  if (version >= kGgufOldestVersionRead && version <= kGgufVersionWritten) return {};
  if (const uint32_t swapped = swap_bytes(version); swapped >= 1 && swapped <= kGgufVersionWritten)
    return fail(ErrorCode::unsupported,
                "offset {}: big-endian file (version {}, byte-swapped), supported: little-endian versions {} and {}: "
                "convert it with gguf_convert_endian.py of llama.cpp",
                at, swapped, kGgufOldestVersionRead, kGgufVersionWritten);
  return fail(ErrorCode::unsupported, "offset {}: version, got {}, supported: {} and {}{}", at, version,
              kGgufOldestVersionRead, kGgufVersionWritten, version == 1 ? ": convert the original model again" : "");
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

Result<std::string_view> read_tensor_name(GgufDecoder& in, uint64_t i) {
  const size_t at = in.offset();
  TESSERA_ASSIGN(const std::string_view name, in.string(fmt::format("name of tensor {}", i), kGgufMaxTensorNameBytes));
  if (name.empty()) return fail(ErrorCode::format, "offset {}: name of tensor {} is empty", at, i);
  if (std::ranges::any_of(name, is_control))
    return fail(ErrorCode::format, "offset {}: name of tensor {}, got {}, want no control characters", at, i,
                quote_name(name));
  return name;
}

// Extents that the file omits are 1. Rank 0 is a scalar, which converters write for NumPy's 0-d arrays.
Result<Shape> read_shape(GgufDecoder& in, std::string_view what, int& n_extents) {
  const size_t at = in.offset();
  TESSERA_ASSIGN(const uint32_t rank, in.number<uint32_t>(what));
  if (rank > static_cast<uint32_t>(kMaxRank))
    return fail(ErrorCode::limit, "offset {}: rank of {}, got {}, limit {}", at, what, rank, kMaxRank);
  Shape shape;
  n_extents = static_cast<int>(rank);
  for (int i = 0; i < n_extents; ++i) {
    const size_t at_extent = in.offset();
    TESSERA_ASSIGN(shape[i], in.number<int64_t>(what));
    if (shape[i] < 1)
      return fail(ErrorCode::format, "offset {}: extent {} of {}, got {}, want at least 1", at_extent, i, what,
                  shape[i]);
  }
  return shape;
}

Result<GgufTensor> read_tensor_info(GgufDecoder& in, uint64_t i) {
  GgufTensor tensor;
  TESSERA_ASSIGN(tensor.name, read_tensor_name(in, i));
  const std::string what = "tensor " + quote_name(tensor.name);
  TESSERA_ASSIGN(tensor.shape, read_shape(in, what, tensor.rank));
  const std::string where = fmt::format("offset {}: {}", in.offset(), what);
  TESSERA_ASSIGN(const uint32_t type_id, in.number<uint32_t>(what));
  const Result<DType> dtype = dtype_from_gguf_id(type_id);
  if (!dtype) return std::unexpected(Error(dtype.error()).within(where));
  tensor.dtype = *dtype;
  const Result<size_t> n_bytes = nbytes(tensor.dtype, tensor.shape);
  if (!n_bytes) return std::unexpected(Error(n_bytes.error()).within(where));
  tensor.n_bytes = *n_bytes;
  TESSERA_ASSIGN(tensor.data_offset, in.number<uint64_t>(what));
  return tensor;
}

}  // namespace

Result<std::unique_ptr<GgufFile>> GgufFile::open(const std::string& path) {
  TESSERA_ASSIGN(File file, File::open(path));
  TESSERA_ASSIGN(std::unique_ptr<MappedFile> map, MappedFile::map(file));
  std::unique_ptr<GgufFile> gguf(new GgufFile(map->bytes(), path));
  gguf->file_ = std::move(file);
  gguf->map_ = std::move(map);
  return read(std::move(gguf));
}

Result<std::unique_ptr<GgufFile>> GgufFile::parse(std::span<const std::byte> bytes, std::string name) {
  return read(std::unique_ptr<GgufFile>(new GgufFile(bytes, std::move(name))));
}

Result<std::unique_ptr<GgufFile>> GgufFile::parse_header(std::span<const std::byte> bytes, std::string name) {
  std::unique_ptr<GgufFile> gguf(new GgufFile(bytes, std::move(name)));
  gguf->has_data_ = false;
  return read(std::move(gguf));
}

Result<std::unique_ptr<GgufFile>> GgufFile::read(std::unique_ptr<GgufFile> gguf) {
  Result<> outcome = gguf->read_sections();
  if (!outcome) return forward_error(outcome, gguf->name_);
  return gguf;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto position = index_.find(name);
  return position ? &tensors_[*position] : nullptr;
}

Result<> GgufFile::read_sections() {
  TESSERA_TRY(check_gguf_magic(bytes_));
  GgufDecoder in(bytes_);
  TESSERA_TRY(in.number<uint32_t>("magic"));
  TESSERA_ASSIGN(version_, in.number<uint32_t>("version"));
  TESSERA_TRY(check_version(version_, kGgufMagicBytes));
  TESSERA_ASSIGN(const uint64_t n_tensors, in.count("number of tensors", kGgufMinTensorBytes, kGgufMaxTensors));
  TESSERA_ASSIGN(const uint64_t n_keys, in.count("number of keys", kGgufMinKeyBytes, kGgufMaxKeys));
  TESSERA_ASSIGN(metadata_, Metadata::read(in, n_keys, name_));
  TESSERA_TRY(read_alignment());
  TESSERA_TRY(read_tensors(in, n_tensors));
  TESSERA_TRY(place_tensors(in.offset()));
  return check_disjoint();
}

Result<> GgufFile::read_alignment() {
  const GgufValue* value = metadata_.find(keys::kAlignment);
  if (value == nullptr) return {};
  const auto at = to_size(value->bytes().data() - bytes_.data());
  Result<uint64_t> alignment = value->as<uint64_t>();
  if (!alignment) return forward_error(alignment, fmt::format("offset {}: key '{}'", at, keys::kAlignment));
  if (!std::has_single_bit(*alignment) || *alignment < kGgufMinAlignment || *alignment > kGgufMaxAlignment)
    return fail(ErrorCode::limit, "offset {}: key '{}', got {}, want a power of two, {} to {}", at, keys::kAlignment,
                *alignment, kGgufMinAlignment, kGgufMaxAlignment);
  alignment_ = *alignment;
  return {};
}

Result<> GgufFile::read_tensors(GgufDecoder& in, uint64_t n_tensors) {
  std::vector<NameIndex::Entry> names;  // grows with the entries read, not with the count in the header
  for (uint64_t i = 0; i < n_tensors; ++i) {
    TESSERA_ASSIGN(const GgufTensor tensor, read_tensor_info(in, i));
    tensors_.push_back(tensor);
    names.push_back({tensor.name, static_cast<uint32_t>(i)});
  }
  index_ = NameIndex(std::move(names));
  if (const auto twice = index_.duplicate())
    return fail(ErrorCode::format, "offset {}: tensor {} appears twice, as tensors {} and {}",
                in.offset_of(tensors_[twice->second].name), quote_name(tensors_[twice->first].name), twice->first,
                twice->second);
  return {};
}

// Converts offsets in the data section to offsets in the file. The padding after the last tensor may be missing.
Result<> GgufFile::place_tensors(uint64_t infos_end) {
  data_offset_ = tensors_.empty() ? infos_end : round_up(infos_end, alignment_);
  for (GgufTensor& tensor : tensors_) {
    const auto at = to_size(reinterpret_cast<const std::byte*>(tensor.name.data()) - bytes_.data());
    if (tensor.data_offset % alignment_ != 0)
      return fail(ErrorCode::format, "offset {}: data offset of tensor {}, got {}, want a multiple of {}", at,
                  quote_name(tensor.name), tensor.data_offset, alignment_);
    const auto begin = checked_add(data_offset_, tensor.data_offset);
    const auto end = begin ? checked_add(*begin, tensor.n_bytes) : std::nullopt;
    if (!end || (has_data_ && *end > bytes_.size()))
      return fail(ErrorCode::format,
                  "offset {}: tensor {}: {} bytes of data at {} in the data section, which starts at byte {}: "
                  "damaged, or truncated at byte {}",
                  at, quote_name(tensor.name), tensor.n_bytes, tensor.data_offset, data_offset_, bytes_.size());
    tensor.file_offset = *begin;
  }
  return {};
}

Result<> GgufFile::check_disjoint() const {
  std::vector<uint32_t> order(tensors_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, [&](uint32_t i) { return tensors_[i].file_offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const GgufTensor& before = tensors_[order[i - 1]];
    const GgufTensor& after = tensors_[order[i]];
    if (before.file_offset + before.n_bytes > after.file_offset)
      return fail(ErrorCode::format, "offset {}: tensors {} and {} overlap: the first ends at byte {}",
                  after.file_offset, quote_name(before.name), quote_name(after.name),
                  before.file_offset + before.n_bytes);
  }
  return {};
}

}  // namespace tessera
