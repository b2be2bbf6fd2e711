#include "tessera/convert/source/checkpoint.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "tessera/convert/source/safetensors.h"
#include "tessera/convert/source/torch_file.h"
#include "tessera/json/reader.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr uint64_t kMaxJsonBytes = 100'000'000;
constexpr size_t kMaxFolderEntries = 100'000;

// Names and values of hub files are read whole, so their trees may be large.
constexpr JsonLimits kFileLimits{.max_depth = 64,
                                 .max_values = size_t{1} << 25,
                                 .max_key_bytes = size_t{64} << 10,
                                 .tree_bytes = size_t{64} << 20,
                                 .tree_bytes_per_byte = 16};

/// The files of tensors of a folder: an index, or else all names that begin and end like this.
struct FileSet {
  const char* index;
  std::string_view begin, end;
};
constexpr FileSet kFileSets[] = {{"model.safetensors.index.json", "model", ".safetensors"},
                                 {"pytorch_model.bin.index.json", "pytorch_model", ".bin"}};

// The names of a folder's entries, sorted.
Result<std::vector<std::string>> names_of_folder(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (auto entry = std::filesystem::directory_iterator(folder, error); !error && entry != std::filesystem::end(entry);
       entry.increment(error)) {
    if (names.size() == kMaxFolderEntries)
      return fail(ErrorCode::limit, "{}: more than {} entries", folder, kMaxFolderEntries);
    names.push_back(entry->path().filename().string());
  }
  if (error) return fail(ErrorCode::io, "{}: {}", folder, error.message());
  std::ranges::sort(names);
  return names;
}

enum class Container : uint8_t { none, safetensors, torch };

Result<Container> container_of(const File& file) {
  std::array<std::byte, 16> first{};
  const std::span<std::byte> begin(first.data(), std::min<size_t>(first.size(), file.size()));
  TESSERA_TRY(file.read_at(0, begin));
  if (torch_form(begin) != TorchForm::none) return Container::torch;
  const std::string_view text(reinterpret_cast<const char*>(first.data()), begin.size());
  return is_safetensors(text, file.size()) ? Container::safetensors : Container::none;
}

Result<std::vector<StoredTensor>> read_tensors(const File& file) {
  TESSERA_ASSIGN(const Container container, container_of(file));
  if (container == Container::torch) return read_torch_file(file);
  if (container == Container::none)
    return fail(ErrorCode::format, "{}: neither safetensors nor a PyTorch file", file.path());
  TESSERA_ASSIGN(SafetensorsHeader header, read_safetensors_header(file));
  return std::move(header.tensors);
}

}  // namespace

bool is_checkpoint(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return true;
  const auto file = File::open(path);
  return file && container_of(*file).value_or(Container::none) != Container::none;
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

Result<Checkpoint> Checkpoint::open(const std::string& path) {
  Checkpoint checkpoint;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    checkpoint.folder_ = path;
    TESSERA_TRY(checkpoint.add_folder());
  } else {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    checkpoint.folder_ = folder.empty() ? "." : folder;
    TESSERA_TRY(checkpoint.add_file(path));
  }
  return checkpoint;
}

Result<> Checkpoint::add_folder() {
  TESSERA_ASSIGN(const std::vector<std::string> names, names_of_folder(folder_));
  for (const FileSet& set : kFileSets) {
    TESSERA_ASSIGN(const std::optional<Json> index, read_json_file(set.index));
    if (index) return add_indexed(set.index, *index);
    for (const std::string& name : names)
      if (name.starts_with(set.begin) && name.ends_with(set.end)) TESSERA_TRY(add_file(folder_ + "/" + name));
    if (!parts_.empty()) return {};
  }
  return fail(ErrorCode::not_found, "{}: no tensors: neither model*.safetensors nor pytorch_model*.bin", folder_);
}

Result<> Checkpoint::add_indexed(const std::string& index_name, const Json& index) {
  const std::string path = folder_ + "/" + index_name;
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object())
    return fail(ErrorCode::format, "{}: no object weight_map", path);
  std::set<std::string> names;
  for (const auto& [tensor, part] : map->items()) {
    if (!part.is_string() || !is_plain_name(part.get_ref<const std::string&>()))
      return fail(ErrorCode::format, "{}: {} is in {}, want the name of a file", path, text::quote_text(tensor),
                  text::quote_text(part.dump()));
    names.insert(part.get<std::string>());
  }
  for (const std::string& name : names) TESSERA_TRY(add_file(folder_ + "/" + name));
  for (const auto& [tensor, part] : map->items()) {
    const CheckpointTensor* const found = find(tensor);
    const std::string& name = part.get_ref<const std::string&>();
    if (found == nullptr || parts_[found->file].file.path() != folder_ + "/" + name)
      return fail(ErrorCode::format, "{}: tensor {} is not in {}", path, text::quote_text(tensor),
                  text::quote_text(name));
  }
  return {};
}

Result<> Checkpoint::add_file(const std::string& path) {
  TESSERA_ASSIGN(File file, File::open(path));
  TESSERA_ASSIGN(std::vector<StoredTensor> tensors, read_tensors(file));
  TESSERA_ASSIGN(auto map, MappedFile::map(file));
  if (tensors_.size() + tensors.size() > kMaxStoredTensors)
    return fail(ErrorCode::limit, "{}: more than {} tensors", folder_, kMaxStoredTensors);
  for (StoredTensor& tensor : tensors) {
    const auto [other, is_new] = by_name_.emplace(tensor.name, tensors_.size());
    if (!is_new)
      return fail(
          ErrorCode::format, "{}: tensor {} is also in {}", path, text::quote_text(tensor.name),
          parts_.size() == tensors_[other->second].file ? path : parts_[tensors_[other->second].file].file.path());
    tensors_.push_back({std::move(tensor), parts_.size()});
  }
  parts_.push_back({std::move(file), std::move(map)});
  return {};
}

std::vector<std::string> Checkpoint::paths() const {
  std::vector<std::string> paths;
  for (const Part& part : parts_) paths.push_back(part.file.path());
  return paths;
}

const CheckpointTensor* Checkpoint::find(std::string_view name) const {
  const auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

std::span<const std::byte> Checkpoint::file_bytes(const CheckpointTensor& tensor) const {
  return parts_[tensor.file].map->bytes();
}

Result<> Checkpoint::replace_tensors(std::vector<CheckpointTensor> tensors) {
  std::unordered_map<std::string, size_t> by_name;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!by_name.emplace(tensors[i].tensor.name, i).second)
      return fail(ErrorCode::format, "{}: two tensors {}", folder_, text::quote_text(tensors[i].tensor.name));
  tensors_ = std::move(tensors);
  by_name_ = std::move(by_name);
  return {};
}

void Checkpoint::read(const CheckpointTensor& tensor, int64_t first, std::span<std::byte> into) const {
  tensor.tensor.read(file_bytes(tensor), first, into);
}

Result<std::optional<std::string>> Checkpoint::read_text(const std::string& name, uint64_t max_bytes) const {
  const std::string path = folder_ + "/" + name;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  TESSERA_ASSIGN(std::string text, read_file(path, max_bytes));
  return text;
}

Result<std::optional<Json>> Checkpoint::read_json_file(const std::string& name) const {
  TESSERA_ASSIGN(const std::optional<std::string> text, read_text(name, kMaxJsonBytes));
  if (!text) return std::nullopt;
  auto json = read_json(*text, kFileLimits);
  if (!json) return forward_error(json, folder_ + "/" + name);
  return std::move(*json);
}

}  // namespace tessera::convert
