#include "tessera/gguf/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <new>

#include "tessera/base/index.h"
#include "tessera/gguf/keys.h"
#include "tessera/gguf/limits.h"
#include "tessera/gguf/printable.h"
#include "tessera/gguf/weight_name.h"

namespace tessera {

namespace {

constexpr std::string_view kSuffixPattern = "-00001-of-00005.gguf";
constexpr size_t kDigits = 5;
constexpr size_t kNoAt = 1;
constexpr size_t kCountAt = kNoAt + kDigits + 4;  // after "-of-"

constexpr auto kBytesAlignment = std::align_val_t(64);  // so that tensors can be used in place, as in a mapped file
constexpr size_t kReadBytes = size_t{16} << 20;         // of one piece

std::optional<uint32_t> parse_digits(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string split_path(std::string_view prefix, uint32_t no, uint32_t count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, no + 1, count);
}

std::optional<SplitName> parse_split_path(std::string_view path) {
  if (path.size() <= kSuffixPattern.size()) return std::nullopt;
  const std::string_view prefix = path.substr(0, path.size() - kSuffixPattern.size());
  const std::string_view suffix = path.substr(prefix.size());
  const auto no = parse_digits(suffix.substr(kNoAt, kDigits));
  const auto count = parse_digits(suffix.substr(kCountAt, kDigits));
  if (!no || !count || *no < 1 || *no > *count) return std::nullopt;
  if (path != split_path(prefix, *no - 1, *count)) return std::nullopt;
  return SplitName{.prefix = std::string(prefix), .no = *no - 1, .count = *count};
}

Result<std::unique_ptr<ModelFiles>> ModelFiles::open(const std::string& path) {
  std::unique_ptr<ModelFiles> model(new ModelFiles);
  TESSERA_TRY(model->open_parts(path));
  TESSERA_TRY(model->merge_tensors());
  return model;
}

Result<std::unique_ptr<ModelFiles>> ModelFiles::blueprint(std::span<const std::byte> bytes, std::string name,
                                                          std::vector<std::string> optional) {
  std::unique_ptr<ModelFiles> model(new ModelFiles);
  TESSERA_ASSIGN(std::unique_ptr<GgufFile> file, GgufFile::parse(bytes, std::move(name)));
  model->files_.push_back(std::move(file));
  model->is_blueprint_ = true;
  model->optional_ = std::move(optional);
  return model;
}

bool ModelFiles::wants(std::string_view tensor) const {
  return std::ranges::find(optional_, parse_weight_name(tensor).within_layer) != optional_.end();
}

Result<> ModelFiles::parse_only_file(std::span<const std::byte> bytes, std::string name) {
  TESSERA_ASSIGN(std::unique_ptr<GgufFile> file, GgufFile::parse(bytes, std::move(name)));
  files_.push_back(std::move(file));
  TESSERA_ASSIGN(const uint64_t n_parts, metadata().get_or<uint64_t>(keys::kSplitCount, 0));
  if (n_parts > 1)
    return fail(ErrorCode::invalid_argument, "{}: is one of {} parts, and in memory there is but one", this->name(),
                n_parts);
  return merge_tensors();
}

Result<std::unique_ptr<ModelFiles>> ModelFiles::parse(std::span<const std::byte> bytes, std::string name) {
  std::unique_ptr<ModelFiles> model(new ModelFiles);
  TESSERA_TRY(model->parse_only_file(bytes, std::move(name)));
  return model;
}

void ModelFiles::FreeBytes::operator()(std::byte* bytes) const { ::operator delete(bytes, kBytesAlignment); }

Result<std::unique_ptr<ModelFiles>> ModelFiles::read(uint64_t n_bytes, ReadBytes read, std::string name) {
  std::unique_ptr<ModelFiles> model(new ModelFiles);
  if (n_bytes <= PTRDIFF_MAX)
    model->bytes_.reset(static_cast<std::byte*>(::operator new(to_size(n_bytes), kBytesAlignment, std::nothrow)));
  if (!model->bytes_) return fail(ErrorCode::out_of_memory, "{}: {} bytes cannot be allocated", name, n_bytes);
  const std::span<std::byte> bytes(model->bytes_.get(), to_size(n_bytes));
  for (size_t offset = 0; offset < bytes.size(); offset += kReadBytes) {
    const auto piece = bytes.subspan(offset, std::min(kReadBytes, bytes.size() - offset));
    if (auto done = read(offset, piece); !done) return forward_error(done, name);
  }
  TESSERA_TRY(model->parse_only_file(bytes, std::move(name)));
  return model;
}

Result<std::unique_ptr<ModelFiles>> ModelFiles::parse_header(std::span<const std::byte> bytes, std::string name) {
  std::unique_ptr<ModelFiles> model(new ModelFiles);
  TESSERA_ASSIGN(std::unique_ptr<GgufFile> file, GgufFile::parse_header(bytes, std::move(name)));
  model->files_.push_back(std::move(file));
  TESSERA_TRY(model->merge_tensors());
  return model;
}

Result<> ModelFiles::open_parts(const std::string& first_path) {
  TESSERA_ASSIGN(std::unique_ptr<GgufFile> first, GgufFile::open(first_path));
  files_.push_back(std::move(first));
  TESSERA_ASSIGN(const uint64_t count, metadata().get_or<uint64_t>(keys::kSplitCount, 0));
  if (count <= 1) return {};  // merging tools leave 0
  if (count > kGgufMaxSplitCount)
    return fail(ErrorCode::limit, "{}: {}, got {}, limit {}", first_path, keys::kSplitCount, count, kGgufMaxSplitCount);

  const auto n_parts = static_cast<uint32_t>(count);
  const std::optional<SplitName> split_name = parse_split_path(first_path);
  const std::string prefix = split_name ? split_name->prefix : "PREFIX";
  TESSERA_ASSIGN(const uint64_t no, metadata().get_or<uint64_t>(keys::kSplitNo, 0));
  if (no != 0)
    return fail(ErrorCode::invalid_argument, "{}: is part {} of {} of a split model: open its first part, {}",
                first_path, no + 1, n_parts, split_path(prefix, 0, n_parts));
  if (!split_name || split_name->no != 0 || split_name->count != n_parts)
    return fail(ErrorCode::mismatch, "{}: is the first of {} parts, so its name must be {} for the others to be found",
                first_path, n_parts, split_path(prefix, 0, n_parts));
  for (uint32_t i = 1; i < n_parts; ++i) {
    Result<std::unique_ptr<GgufFile>> part = GgufFile::open(split_path(prefix, i, n_parts));
    if (!part) return forward_error(part, fmt::format("part {} of {}", i + 1, n_parts));
    TESSERA_TRY(check_part(**part, i, n_parts));
    files_.push_back(std::move(*part));
  }
  return {};
}

// Checks that a file found by its name is that part of this model.
Result<> ModelFiles::check_part(const GgufFile& part, uint32_t no, uint32_t count) const {
  TESSERA_ASSIGN(const uint64_t part_no, part.metadata().get<uint64_t>(keys::kSplitNo));
  TESSERA_ASSIGN(const uint64_t part_count, part.metadata().get<uint64_t>(keys::kSplitCount));
  if (part_no != no || part_count != count)
    return fail(ErrorCode::mismatch, "{}: {} {} and {} {}, want {} and {}", part.name(), keys::kSplitNo, part_no,
                keys::kSplitCount, part_count, no, count);
  for (const std::string_view key : {keys::kArchitecture, keys::kName, keys::kSplitTensorsCount}) {
    const GgufValue* ours = metadata().find(key);
    const GgufValue* theirs = part.metadata().find(key);
    if (ours == nullptr || theirs == nullptr || to_string(*ours) == to_string(*theirs)) continue;
    return fail(ErrorCode::mismatch, "{}: is a part of another model: {} is {}, the first part's is {}", part.name(),
                key, to_string(*theirs), to_string(*ours));
  }
  return {};
}

Result<> ModelFiles::merge_tensors() {
  std::vector<NameIndex::Entry> names;
  for (uint32_t i = 0; i < files_.size(); ++i) {
    for (const GgufTensor& tensor : files_[i]->tensors()) {
      names.push_back({tensor.name, static_cast<uint32_t>(tensors_.size())});
      tensors_.push_back({.file = i, .info = tensor});
      n_tensor_bytes_ += tensor.n_bytes;  // cannot overflow: each tensor is inside a file
    }
  }
  index_ = NameIndex(std::move(names));
  if (const auto twice = index_.duplicate())
    return fail(ErrorCode::mismatch, "{}: tensor {} is also in {}: these are not parts of one model",
                files_[tensors_[twice->second].file]->name(), quote_name(tensors_[twice->first].info.name),
                files_[tensors_[twice->first].file]->name());
  if (files_.size() == 1) return {};  // GgufFile has checked the count
  TESSERA_ASSIGN(const uint64_t n_stated, metadata().get_or<uint64_t>(keys::kSplitTensorsCount, tensors_.size()));
  if (n_stated != tensors_.size())
    return fail(ErrorCode::mismatch, "{}: {}, got {}, but the {} parts hold {} tensors", name(),
                keys::kSplitTensorsCount, n_stated, files_.size(), tensors_.size());
  return {};
}

const ModelFiles::Tensor* ModelFiles::find_tensor(std::string_view name) const {
  const auto position = index_.find(name);
  return position ? &tensors_[*position] : nullptr;
}

}  // namespace tessera
