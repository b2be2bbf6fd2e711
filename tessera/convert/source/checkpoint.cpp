#include "tessera/convert/source/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "tessera/base/folder.h"
#include "tessera/convert/source/ggml_file.h"
#include "tessera/convert/source/hub_config.h"
#include "tessera/convert/source/llama2c_file.h"
#include "tessera/convert/source/meta_parts.h"
#include "tessera/convert/source/safetensors.h"
#include "tessera/convert/source/torch_file.h"
#include "tessera/json/reader.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr uint64_t kMaxJsonBytes = 100'000'000;
constexpr size_t kMaxFolderEntries = 100'000;
constexpr uint64_t kMaxTokenBytes = uint64_t{256} << 20;
constexpr const char* kLlama2cTokens = "tokenizer.bin";
constexpr const char* kMetaParams = "params.json";

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
  TESSERA_ASSIGN(std::vector<std::string> names, names_in_folder(folder, kMaxFolderEntries));
  std::ranges::sort(names);
  return names;
}

bool is_meta_part(std::string_view name) { return name.starts_with("consolidated.") && name.ends_with(".pth"); }

Result<std::vector<StoredTensor>> read_tensors(const File& file, Container container) {
  if (container == Container::torch) return read_torch_file(file);
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

Result<JsonTree> read_hub_json(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return nullptr;
  TESSERA_ASSIGN(const std::string text, read_file(path, kMaxJsonBytes));
  auto json = read_json_tree(text, kFileLimits);
  if (!json) return forward_error(json, path);
  return json;
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
    TESSERA_ASSIGN(const JsonTree index, read_json_file(set.index));
    if (index) return add_indexed(set.index, *index);
    for (const std::string& name : names)
      if (name.starts_with(set.begin) && name.ends_with(set.end)) TESSERA_TRY(add_file(folder_ + "/" + name));
    if (!parts_.empty()) return {};
  }
  for (const char* const name : kAdapterTensorFiles)
    if (std::ranges::binary_search(names, name)) return add_file(folder_ + "/" + name);
  std::vector<std::string> meta_parts;
  std::ranges::copy_if(names, std::back_inserter(meta_parts), is_meta_part);
  if (!meta_parts.empty()) return add_meta_parts(meta_parts);
  return add_only_model(names);
}

// A folder with one file of a model that has no config.json.
Result<> Checkpoint::add_only_model(const std::vector<std::string>& names) {
  std::optional<std::string> model;
  for (const std::string& name : names) {
    if (!name.ends_with(".bin")) continue;
    TESSERA_ASSIGN(const File file, File::open(folder_ + "/" + name));
    TESSERA_ASSIGN(const Container container, container_of(file));
    if (container != Container::ggml && container != Container::llama2c) continue;
    if (model) return fail(ErrorCode::mismatch, "{}: two models, {} and {}", folder_, *model, name);
    model = name;
  }
  if (model) return add_file(folder_ + "/" + *model);
  return fail(ErrorCode::not_found,
              "{}: no tensors: neither model*.safetensors nor pytorch_model*.bin nor consolidated.*.pth nor "
              "adapter_model.safetensors",
              folder_);
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
                  text::quote_text(part.is_string() ? part.get_ref<const std::string&>() : part.type_name()));
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
  TESSERA_ASSIGN(const Container container, container_of(file));
  if (container == Container::none)
    return fail(ErrorCode::format, "{}: neither safetensors nor a PyTorch, GGJT or llama2.c file", path);
  if (container == Container::ggml || container == Container::llama2c) return add_bare_file(std::move(file), container);
  TESSERA_ASSIGN(std::vector<StoredTensor> tensors, read_tensors(file, container));
  return add_part(std::move(file), std::move(tensors));
}

Result<> Checkpoint::add_part(File file, std::vector<StoredTensor> tensors) {
  TESSERA_ASSIGN(auto map, MappedFile::map(file));
  parts_.push_back({std::move(file), std::move(map)});
  return add_tensors(std::move(tensors), parts_.size() - 1);
}

Result<> Checkpoint::add_tensors(std::vector<StoredTensor> tensors, size_t part) {
  if (tensors_.size() + tensors.size() > kMaxStoredTensors)
    return fail(ErrorCode::limit, "{}: more than {} tensors", folder_, kMaxStoredTensors);
  for (StoredTensor& tensor : tensors) {
    const auto [other, is_new] = by_name_.emplace(tensor.name, tensors_.size());
    if (!is_new)
      return fail(ErrorCode::format, "{}: tensor {} is also in {}", parts_[part].file.path(),
                  text::quote_text(tensor.name), parts_[tensors_[other->second].file].file.path());
    tensors_.push_back({std::move(tensor), part});
  }
  return {};
}

// Tokens of llama2.c are in a file beside it, which may be missing.
Result<> Checkpoint::add_bare_file(File file, Container container) {
  const std::string path = file.path();
  if (!parts_.empty()) return fail(ErrorCode::mismatch, "{}: a whole model beside {}", path, parts_[0].file.path());
  TESSERA_ASSIGN(auto map, MappedFile::map(file));
  auto bare = container == Container::ggml ? read_ggml_file(map->bytes()) : read_llama2c_file(map->bytes());
  if (!bare) return forward_error(bare, path);
  parts_.push_back({std::move(file), std::move(map)});
  if (container == Container::llama2c) {
    TESSERA_ASSIGN(const auto tokens, read_text(kLlama2cTokens, kMaxTokenBytes));
    auto read = tokens ? read_llama2c_tokens(std::as_bytes(std::span(*tokens)), bare->model) : Result<>();
    if (!read) return forward_error(read, folder_ + "/" + kLlama2cTokens);
  }
  bare_model_ = std::make_shared<const BareModel>(std::move(bare->model));
  return add_tensors(std::move(bare->tensors), 0);
}

Result<> Checkpoint::add_meta_parts(const std::vector<std::string>& names) {
  const std::string path = folder_ + "/" + kMetaParams;
  TESSERA_ASSIGN(JsonTree json, read_json_file(kMetaParams));
  if (!json) return fail(ErrorCode::not_found, "{}: no {} beside {}", folder_, kMetaParams, names.front());
  TESSERA_ASSIGN(const HubConfig params, HubConfig::of(std::move(json), path));
  TESSERA_ASSIGN(const int64_t width, width_of_params(params));
  std::vector<FilePart> parts;
  for (const std::string& name : names) {
    TESSERA_ASSIGN(File file, File::open(folder_ + "/" + name));
    TESSERA_ASSIGN(std::vector<StoredTensor> tensors, read_torch_file(file));
    TESSERA_ASSIGN(auto map, MappedFile::map(file));
    parts.push_back({.tensors = std::move(tensors), .bytes = map->bytes(), .map = map.get()});
    parts_.push_back({std::move(file), std::move(map)});
  }
  auto tensors = parts.size() == 1 ? std::move(parts[0].tensors) : join_parts(parts, width);
  if (!tensors) return forward_error(tensors, folder_);
  TESSERA_ASSIGN(BareModel model, model_of_params(params, *tensors));
  bare_model_ = std::make_shared<const BareModel>(std::move(model));
  return add_tensors(std::move(*tensors), 0);
}

Result<JsonTree> Checkpoint::config() const {
  if (bare_model_ != nullptr) return JsonTree(new Json(bare_config(*bare_model_)));
  return read_json_file("config.json");
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
  read(tensor.tensor, tensor.file, first, into);
}

void Checkpoint::read(const StoredTensor& view, size_t file, int64_t first, std::span<std::byte> into) const {
  view.read(parts_[file].map->bytes(), first, into);
}

void Checkpoint::forget(const StoredTensor& view, size_t file, int64_t first, int64_t n) const {
  view.forget(*parts_[file].map, first, n);
}

Result<std::optional<std::string>> Checkpoint::read_text(const std::string& name, uint64_t max_bytes) const {
  const std::string path = folder_ + "/" + name;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  TESSERA_ASSIGN(std::string text, read_file(path, max_bytes));
  return text;
}

Result<JsonTree> Checkpoint::read_json_file(const std::string& name) const {
  return read_hub_json(folder_ + "/" + name);
}

}  // namespace tessera::convert
