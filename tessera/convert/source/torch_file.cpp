#include "tessera/convert/source/torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/convert/source/pickle.h"
#include "tessera/convert/source/zip_directory.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr std::string_view kPickleName = "data.pkl";
constexpr std::string_view kZipMagic = "PK\x03\x04";
// The number 0x1950a86a20f9469cfc6c, the lowest byte first, and its beginning as a pickle.
constexpr std::string_view kLegacyMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
constexpr std::string_view kLegacyBegin("\x80\x02\x8a\x0a", 4);
constexpr int64_t kLegacyProtocol = 1001;

using Kind = Pickle::Kind;

// The place of a storage's bytes in the file.
struct StoredBytes {
  uint64_t offset = 0, n_bytes = 0;
};
using StoragePlaces = std::map<std::string_view, StoredBytes>;

Result<std::vector<std::byte>> read_bytes(const File& file, uint64_t offset, uint64_t n) {
  std::vector<std::byte> bytes(to_size(n));
  TESSERA_TRY(file.read_at(offset, bytes));
  return bytes;
}

// --- the state dictionary

std::optional<PickleId> member(const Pickle& pickle, PickleId dictionary, std::string_view name) {
  for (const auto& [key, value] : pickle.members(dictionary))
    if (pickle.kind(key) == Kind::text && pickle.text(key) == name) return value;
  return std::nullopt;
}

Result<PickleId> state_dictionary(const Pickle& pickle) {
  const PickleId root = pickle.root();
  if (pickle.kind(root) != Kind::dictionary) return fail(ErrorCode::format, "the pickle is no dictionary of tensors");
  for (const std::string_view name : {"model", "state_dict", "module"})
    if (const auto inner = member(pickle, root, name); inner && pickle.kind(*inner) == Kind::dictionary) return *inner;
  return root;
}

// Checks that all elements are in the storage. The highest index is computed in 128 bits.
Result<> require_inside(const PickledTensor& tensor, const PickledStorage& storage) {
  if (tensor.strides.size() != tensor.shape.size())
    return fail(ErrorCode::format, "{} dimensions, {} strides", tensor.shape.size(), tensor.strides.size());
  TESSERA_ASSIGN(const int64_t n_elements, count_elements(tensor.shape));
  if (n_elements == 0) return {};
  __int128 last = tensor.offset;
  bool is_positive = tensor.offset >= 0;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    is_positive = is_positive && tensor.strides[i] >= 0;
    last += static_cast<__int128>(tensor.shape[i] - 1) * tensor.strides[i];
  }
  if (!is_positive || last >= storage.n_elements)
    return fail(ErrorCode::format, "elements outside of its storage of {}", storage.n_elements);
  return {};
}

Result<StoredTensor> stored_tensor(const Pickle& pickle, const PickledTensor& tensor, const StoragePlaces& places) {
  const PickledStorage& storage = pickle.storages()[tensor.storage];
  TESSERA_TRY(require_inside(tensor, storage));
  const size_t width = element_bytes(storage.type);
  const auto place = places.find(storage.key);
  if (place == places.end())
    return fail(ErrorCode::format, "no bytes of its storage {}", text::quote_text(storage.key));
  const auto n_bytes = checked_mul<uint64_t>(static_cast<uint64_t>(storage.n_elements), width);
  if (!n_bytes || *n_bytes > place->second.n_bytes)
    return fail(ErrorCode::format, "a storage of {} elements in {} bytes", storage.n_elements, place->second.n_bytes);
  const bool is_contiguous = tensor.strides == contiguous_strides(tensor.shape);
  return StoredTensor{
      .type = storage.type,
      .shape = tensor.shape,
      .strides = is_contiguous ? std::vector<int64_t>() : tensor.strides,
      .offset = place->second.offset + static_cast<uint64_t>(std::max<int64_t>(tensor.offset, 0)) * width};
}

Result<std::vector<StoredTensor>> stored_tensors(const Pickle& pickle, const StoragePlaces& places) {
  TESSERA_ASSIGN(const PickleId dictionary, state_dictionary(pickle));
  std::vector<StoredTensor> tensors;
  for (const auto& [key, value] : pickle.members(dictionary)) {
    if (pickle.kind(key) != Kind::text || pickle.kind(value) != Kind::tensor) continue;
    const std::string_view name = pickle.text(key);
    const std::string shown = fmt::format("tensor {}", text::quote_text(name));
    if (!text::is_valid_utf8(name)) return fail(ErrorCode::format, "{}: a name that is not UTF-8", shown);
    if (tensors.size() == kMaxStoredTensors) return fail(ErrorCode::limit, "more than {} tensors", kMaxStoredTensors);
    auto tensor = stored_tensor(pickle, pickle.tensor(value), places);
    if (!tensor) return forward_error(tensor, shown);
    tensor->name = name;
    tensors.push_back(std::move(*tensor));
  }
  if (tensors.empty()) return fail(ErrorCode::format, "the pickle has no tensors");
  std::vector<std::string_view> names;
  for (const StoredTensor& tensor : tensors) names.push_back(tensor.name);
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    return fail(ErrorCode::format, "two tensors {}", text::quote_text(*twice));
  return tensors;
}

// --- the archive

// PyTorch puts all entries into one folder, whose name is free.
Result<std::string> archive_folder(const ZipDirectory& directory) {
  std::optional<std::string> folder;
  for (const ZipEntry& entry : directory.entries()) {
    const size_t slash = entry.name.find('/');
    if (slash == std::string::npos || entry.name.substr(slash + 1) != kPickleName) continue;
    if (folder) return fail(ErrorCode::format, "two pickles, in {} and {}", *folder, entry.name.substr(0, slash + 1));
    folder = entry.name.substr(0, slash + 1);
  }
  if (!folder) return fail(ErrorCode::format, "an archive without {}", kPickleName);
  return *folder;
}

Result<> require_little_endian(const File& file, const ZipDirectory& directory, const std::string& folder) {
  const ZipEntry* entry = directory.find(folder + "byteorder");
  if (entry == nullptr) return {};
  constexpr std::string_view kLittle = "little";
  TESSERA_ASSIGN(const auto bytes, read_bytes(file, entry->offset, std::min<uint64_t>(entry->n_bytes, kLittle.size())));
  if (entry->n_bytes == kLittle.size() && std::memcmp(bytes.data(), kLittle.data(), kLittle.size()) == 0) return {};
  return fail(ErrorCode::unsupported, "numbers are not stored with their lowest byte first");
}

Result<std::vector<StoredTensor>> read_archive(const File& file) {
  TESSERA_ASSIGN(const ZipDirectory directory, ZipDirectory::read(file));
  TESSERA_ASSIGN(const std::string folder, archive_folder(directory));
  TESSERA_TRY(require_little_endian(file, directory, folder));
  const ZipEntry* entry = directory.find(folder + std::string(kPickleName));
  const PickleLimits limits;
  if (entry->n_bytes > limits.max_bytes)
    return fail(ErrorCode::limit, "a pickle of {} bytes, limit {}", entry->n_bytes, limits.max_bytes);
  TESSERA_ASSIGN(const auto bytes, read_bytes(file, entry->offset, entry->n_bytes));
  TESSERA_ASSIGN(const Pickle pickle, Pickle::read(bytes, limits));
  StoragePlaces places;
  for (const PickledStorage& storage : pickle.storages())
    if (const ZipEntry* data = directory.find(fmt::format("{}data/{}", folder, storage.key)))
      places[storage.key] = {.offset = data->offset, .n_bytes = data->n_bytes};
  return stored_tensors(pickle, places);
}

// --- the form before version 1.6

// The bytes of the storages follow the pickles: for each key a number of elements and the elements.
Result<StoragePlaces> places_after(const File& file, uint64_t offset, const Pickle& object, const Pickle& keys) {
  std::map<std::string_view, ElementType> types;
  for (const PickledStorage& storage : object.storages()) types[storage.key] = storage.type;
  if (keys.kind(keys.root()) != Kind::list) return fail(ErrorCode::format, "no list of storages after the tensors");
  StoragePlaces places;
  for (const PickleId id : keys.items(keys.root())) {
    if (keys.kind(id) != Kind::text) return fail(ErrorCode::format, "a storage without a name");
    const auto type = types.find(keys.text(id));
    if (type == types.end())
      return fail(ErrorCode::format, "the storage {} belongs to no tensor", text::quote_text(keys.text(id)));
    uint64_t n_elements = 0;
    TESSERA_TRY(file.read_at(offset, std::as_writable_bytes(std::span(&n_elements, 1))));
    offset += sizeof n_elements;
    const auto n_bytes = checked_mul<uint64_t>(n_elements, element_bytes(type->second));
    if (!n_bytes || *n_bytes > file.size() - offset)
      return fail(ErrorCode::format, "{} elements at byte {} in a file of {}", n_elements, offset, file.size());
    // The key in the tensors' pickle outlives the list of keys.
    places[type->first] = {.offset = offset, .n_bytes = *n_bytes};
    offset += *n_bytes;
  }
  return places;
}

Result<std::vector<StoredTensor>> read_legacy(const File& file) {
  const PickleLimits limits;
  TESSERA_ASSIGN(const auto bytes, read_bytes(file, 0, std::min<uint64_t>(file.size(), limits.max_bytes)));
  std::span<const std::byte> rest = bytes;
  const auto next = [&]() -> Result<Pickle> {
    auto pickle = Pickle::read(rest, limits);
    if (pickle) rest = rest.subspan(pickle->n_bytes());
    return pickle;
  };
  TESSERA_ASSIGN(const Pickle magic, next());
  TESSERA_ASSIGN(const Pickle protocol, next());
  if (magic.kind(magic.root()) != Kind::big_integer || magic.text(magic.root()) != kLegacyMagic ||
      protocol.kind(protocol.root()) != Kind::integer || protocol.integer(protocol.root()) != kLegacyProtocol)
    return fail(ErrorCode::format, "no PyTorch file");
  TESSERA_ASSIGN(const Pickle system, next());
  if (system.kind(system.root()) == Kind::dictionary) {
    const auto is_little = member(system, system.root(), "little_endian");
    if (is_little && system.kind(*is_little) == Kind::boolean && system.integer(*is_little) == 0)
      return fail(ErrorCode::unsupported, "numbers are not stored with their lowest byte first");
  }
  TESSERA_ASSIGN(const Pickle object, next());
  TESSERA_ASSIGN(const Pickle keys, next());
  TESSERA_ASSIGN(const StoragePlaces places, places_after(file, bytes.size() - rest.size(), object, keys));
  return stored_tensors(object, places);
}

bool begins_with(std::span<const std::byte> bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

}  // namespace

TorchForm torch_form(std::span<const std::byte> first_bytes) {
  if (begins_with(first_bytes, kZipMagic)) return TorchForm::zip;
  if (begins_with(first_bytes, kLegacyBegin) && begins_with(first_bytes.subspan(kLegacyBegin.size()), kLegacyMagic))
    return TorchForm::legacy;
  return TorchForm::none;
}

Result<std::vector<StoredTensor>> read_torch_file(const File& file) {
  std::array<std::byte, 16> first{};
  const auto read = [&]() -> Result<std::vector<StoredTensor>> {
    TESSERA_TRY(file.read_at(0, std::span(first).first(std::min<size_t>(first.size(), to_size(file.size())))));
    switch (torch_form(first)) {
      case TorchForm::zip:
        return read_archive(file);
      case TorchForm::legacy:
        return read_legacy(file);
      case TorchForm::none:
        break;
    }
    return fail(ErrorCode::format, "no PyTorch file");
  };
  auto tensors = read();
  if (!tensors) return forward_error(tensors, file.path());
  return tensors;
}

}  // namespace tessera::convert
