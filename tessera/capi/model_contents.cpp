// tessera.h: what the files of a model contain.
#include <algorithm>

#include "tessera/capi/boundary.h"
#include "tessera/capi/objects.h"
#include "tessera/engine/metadata_json.h"
#include "tessera/gguf/limits.h"
#include "tessera/gguf/printable.h"

using namespace tessera;
using capi::guarded;
using capi::guarded_value;

namespace {

constexpr tessera_tensor_info kNoTensor{};
static_assert(sizeof kNoTensor.name > kGgufMaxTensorNameBytes, "the name and its NUL fit");
static_assert(std::size(kNoTensor.extent) == kMaxRank);

// Writes a value as JSON to a buffer of a caller, without another copy: vocabularies are large.
Result<> write_value(const GgufValue& value, char* buffer, uint64_t room, uint64_t* needed) {
  uint64_t n = 1;  // the NUL
  TESSERA_TRY(write_json(value, [&](std::string_view piece) -> Result<> {
    n += piece.size();
    return {};
  }));
  if (needed != nullptr) *needed = n;
  if (n > room) return fail(ErrorCode::limit, "buffer: {} bytes are needed, room is for {}", n, room);
  TESSERA_TRY(capi::require_pointer(buffer, "buffer"));
  const char* const end = buffer + n - 1;
  char* at = buffer;
  TESSERA_TRY(write_json(value, [&](std::string_view piece) -> Result<> {
    // A file that is changed while it is mapped may have become longer texts.
    if (piece.size() > static_cast<size_t>(end - at)) return fail(ErrorCode::io, "the file changed while it was read");
    at = std::copy(piece.begin(), piece.end(), at);
    return {};
  }));
  *at = '\0';
  return {};
}

template <class T>
Result<T> element_of(std::span<const T> items, int64_t index, std::string_view noun) {
  if (index >= 0 && index < std::ssize(items)) return items[static_cast<size_t>(index)];
  return fail(ErrorCode::invalid_argument, "index: {}, there are {} {}", index, items.size(), noun);
}

}  // namespace

int64_t tessera_model_key_count(const tessera_model* model) {
  return capi::is_handle(model) ? std::ssize(model->engine->files().metadata().entries()) : 0;
}

tessera_status tessera_model_key_at(const tessera_model* model, int64_t index, char* buffer, uint64_t room,
                                    uint64_t* needed, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(model, "model"));
    TESSERA_ASSIGN(const auto entry, element_of(model->engine->files().metadata().entries(), index, "keys"));
    return capi::write_text(entry.key, buffer, room, needed);
  });
}

tessera_status tessera_model_key(const tessera_model* model, const char* key, char* buffer, uint64_t room,
                                 uint64_t* needed, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(model, "model"));
    TESSERA_TRY(capi::require_pointer(key, "key"));
    const ModelFiles& files = model->engine->files();
    const GgufValue* value = files.metadata().find(key);
    if (value == nullptr) return fail(ErrorCode::not_found, "{}: no key {}", files.name(), quote_name(key));
    return write_value(*value, buffer, room, needed);
  });
}

int64_t tessera_model_tensor_count(const tessera_model* model) {
  return capi::is_handle(model) ? std::ssize(model->engine->files().tensors()) : 0;
}

tessera_status tessera_model_tensor_info(const tessera_model* model, int64_t index, tessera_tensor_info* info,
                                         tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(model, "model"));
    TESSERA_TRY(capi::require_pointer(info, "info"));
    TESSERA_TRY(capi::require_size(info->size, "info"));
    const ModelFiles& files = model->engine->files();
    TESSERA_ASSIGN(const ModelFiles::Tensor tensor, element_of(files.tensors(), index, "tensors"));
    tessera_tensor_info out{};
    out.rank = tensor.info.rank;
    std::ranges::copy(tensor.info.shape.ne, out.extent);
    out.n_bytes = tensor.info.n_bytes;
    out.offset = tensor.info.file_offset;
    out.type = tessera::info(tensor.info.dtype).name.data();  // a literal, so a NUL follows
    out.file = files.files()[tensor.file]->name().c_str();
    out.file_index = static_cast<int32_t>(tensor.file);
    capi::copy_text(tensor.info.name, out.name);
    capi::write_sized(info, info->size, out);
    return {};
  });
}

const char* tessera_model_warning(const tessera_model* model, int64_t index) {
  if (!capi::is_handle(model)) return nullptr;
  const auto& warnings = model->engine->warnings();
  return index >= 0 && index < std::ssize(warnings) ? warnings[static_cast<size_t>(index)].c_str() : nullptr;
}

uint64_t tessera_model_fingerprint(const tessera_model* model) {
  return guarded_value<uint64_t>(0, [&] { return capi::is_handle(model) ? model->engine->fingerprint() : 0; });
}
