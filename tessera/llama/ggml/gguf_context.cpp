// gguf.h: lists of keys and tensors.
#include <algorithm>
#include <cstring>

#include "tessera/base/checked.h"
#include "tessera/gguf/keys.h"
#include "tessera/llama/ggml/objects.h"

using namespace tessera;
using namespace tessera::llama;

namespace {

constexpr int64_t kNotFound = -1;
constexpr int32_t kNoTensorTypeId = -1;

int64_t index_or_none(std::optional<size_t> i) { return i ? static_cast<int64_t>(*i) : kNotFound; }

template <class Context>
auto tensor_at(Context* ctx, int64_t tensor_id) -> Result<decltype(ctx->tensors.data())> {
  TESSERA_TRY(require(ctx, "ctx"));
  if (tensor_id < 0 || std::cmp_greater_equal(tensor_id, ctx->tensors.size()))
    return fail(ErrorCode::invalid_argument, "tensor_id: {}, there are {} tensors", tensor_id, ctx->tensors.size());
  return &ctx->tensors[static_cast<size_t>(tensor_id)];
}

Result<size_t> index_of_tensor(gguf_context* ctx, const char* name) {
  TESSERA_TRY(require(ctx, "ctx"));
  TESSERA_ASSIGN(const std::string_view wanted, read_text(name, "name"));
  const auto i = ctx->find_tensor(wanted);
  if (!i) return fail(ErrorCode::not_found, "no tensor '{}'", wanted);
  return *i;
}

Result<DType> dtype_of(int32_t type) {
  if (type < 0) return fail(ErrorCode::invalid_argument, "type {} is unknown", type);
  return dtype_from_gguf_id(static_cast<uint32_t>(type));
}

// A tensor of a program, whose numbers may be any.
Result<GgufTensorEntry> tensor_entry_of(const ggml_tensor& from) {
  const size_t length = ::strnlen(from.name, sizeof from.name);
  if (length == 0 || length > kGgufMaxTensorNameBytes)
    return fail(ErrorCode::invalid_argument, "tensor: a name of {} bytes, want 1 to {}", length,
                kGgufMaxTensorNameBytes);
  GgufTensorEntry entry{.name = std::string(from.name, length)};
  TESSERA_ASSIGN(entry.dtype, dtype_of(from.type));
  std::ranges::copy(from.ne, entry.shape.ne.begin());
  entry.rank = tessera_ggml_n_dims(&from);
  TESSERA_ASSIGN(entry.n_bytes, nbytes(entry.dtype, entry.shape));
  entry.data = from.data;
  return entry;
}

}  // namespace

std::optional<size_t> gguf_context::find(std::string_view key) const {
  const auto at = std::ranges::find(entries, key, &GgufEntry::key);
  return at == entries.end() ? std::nullopt : std::optional(static_cast<size_t>(at - entries.begin()));
}

std::optional<size_t> gguf_context::find_tensor(std::string_view name) const {
  const auto at = std::ranges::find(tensors, name, &GgufTensorEntry::name);
  return at == tensors.end() ? std::nullopt : std::optional(static_cast<size_t>(at - tensors.begin()));
}

Result<> gguf_context::set(GgufEntry entry) {
  if (entry.key == keys::kAlignment) {
    const auto value = entry.is_array || entry.element == GgufType::string
                           ? fail(ErrorCode::mismatch, "want a number")
                           : GgufValue::scalar(entry.element, entry.bytes).as<uint64_t>();
    if (!value || *value != kGgufDefaultAlignment)
      return fail(ErrorCode::invalid_argument, "key '{}': files are written with an alignment of {}", entry.key,
                  kGgufDefaultAlignment);
  }
  std::erase_if(entries, [&](const GgufEntry& other) { return other.key == entry.key; });
  entries.push_back(std::move(entry));
  return {};
}

Result<> gguf_context::place_tensors(size_t first) {
  for (size_t i = first; i < tensors.size(); ++i) {
    if (i == 0) {
      tensors[i].offset = 0;
      continue;
    }
    const auto padded = checked_round_up(tensors[i - 1].n_bytes, alignment);
    const auto offset = padded ? checked_add(tensors[i - 1].offset, *padded) : std::nullopt;
    if (!offset) return fail(ErrorCode::limit, "tensor '{}': the data passes 2^64 bytes", tensors[i].name);
    tensors[i].offset = *offset;
  }
  return {};
}

uint32_t tessera_gguf_get_version(const gguf_context* ctx) {
  return guarded<uint32_t>("gguf_get_version", 0, [&]() -> Result<uint32_t> {
    TESSERA_TRY(require(ctx, "ctx"));
    return ctx->version;
  });
}
size_t tessera_gguf_get_alignment(const gguf_context* ctx) {
  return guarded<size_t>("gguf_get_alignment", 0, [&]() -> Result<size_t> {
    TESSERA_TRY(require(ctx, "ctx"));
    return ctx->alignment;
  });
}
size_t tessera_gguf_get_data_offset(const gguf_context* ctx) {
  return guarded<size_t>("gguf_get_data_offset", 0, [&]() -> Result<size_t> {
    TESSERA_TRY(require(ctx, "ctx"));
    return ctx->data_offset;
  });
}

int64_t tessera_gguf_get_n_kv(const gguf_context* ctx) {
  return guarded<int64_t>("gguf_get_n_kv", 0, [&]() -> Result<int64_t> {
    TESSERA_TRY(require(ctx, "ctx"));
    return static_cast<int64_t>(ctx->entries.size());
  });
}
int64_t tessera_gguf_find_key(const gguf_context* ctx, const char* key) {
  return guarded<int64_t>("gguf_find_key", kNotFound, [&]() -> Result<int64_t> {
    TESSERA_TRY(require(ctx, "ctx"));
    TESSERA_ASSIGN(const std::string_view wanted, read_text(key, "key"));
    return index_or_none(ctx->find(wanted));
  });
}
int64_t tessera_gguf_remove_key(gguf_context* ctx, const char* key) {
  return guarded<int64_t>("gguf_remove_key", kNotFound, [&]() -> Result<int64_t> {
    TESSERA_TRY(require(ctx, "ctx"));
    TESSERA_ASSIGN(const std::string_view wanted, read_text(key, "key"));
    const auto i = ctx->find(wanted);
    if (i) ctx->entries.erase(ctx->entries.begin() + static_cast<ptrdiff_t>(*i));
    return index_or_none(i);
  });
}
void tessera_gguf_set_kv(gguf_context* ctx, const gguf_context* src) {
  guarded("gguf_set_kv", [&]() -> Result<> {
    TESSERA_TRY(require(ctx, "ctx"));
    TESSERA_TRY(require(src, "src"));
    const std::vector<GgufEntry> copies = src->entries;  // src may be ctx
    for (const GgufEntry& entry : copies)
      if (entry.key != keys::kAlignment) TESSERA_TRY(ctx->set(entry));
    return {};
  });
}

int64_t tessera_gguf_get_n_tensors(const gguf_context* ctx) {
  return guarded<int64_t>("gguf_get_n_tensors", 0, [&]() -> Result<int64_t> {
    TESSERA_TRY(require(ctx, "ctx"));
    return static_cast<int64_t>(ctx->tensors.size());
  });
}
int64_t tessera_gguf_find_tensor(const gguf_context* ctx, const char* name) {
  return guarded<int64_t>("gguf_find_tensor", kNotFound, [&]() -> Result<int64_t> {
    TESSERA_TRY(require(ctx, "ctx"));
    TESSERA_ASSIGN(const std::string_view wanted, read_text(name, "name"));
    return index_or_none(ctx->find_tensor(wanted));
  });
}
size_t tessera_gguf_get_tensor_offset(const gguf_context* ctx, int64_t tensor_id) {
  return guarded<size_t>("gguf_get_tensor_offset", 0, [&]() -> Result<size_t> {
    TESSERA_ASSIGN(const GgufTensorEntry* tensor, tensor_at(ctx, tensor_id));
    return tensor->offset;
  });
}
const char* tessera_gguf_get_tensor_name(const gguf_context* ctx, int64_t tensor_id) {
  return guarded<const char*>("gguf_get_tensor_name", nullptr, [&]() -> Result<const char*> {
    TESSERA_ASSIGN(const GgufTensorEntry* tensor, tensor_at(ctx, tensor_id));
    return tensor->name.c_str();
  });
}
int32_t tessera_gguf_get_tensor_type(const gguf_context* ctx, int64_t tensor_id) {
  return guarded<int32_t>("gguf_get_tensor_type", kNoTensorTypeId, [&]() -> Result<int32_t> {
    TESSERA_ASSIGN(const GgufTensorEntry* tensor, tensor_at(ctx, tensor_id));
    return static_cast<int32_t>(tensor->dtype);
  });
}
size_t tessera_gguf_get_tensor_size(const gguf_context* ctx, int64_t tensor_id) {
  return guarded<size_t>("gguf_get_tensor_size", 0, [&]() -> Result<size_t> {
    TESSERA_ASSIGN(const GgufTensorEntry* tensor, tensor_at(ctx, tensor_id));
    return tensor->n_bytes;
  });
}
const int64_t* tessera_gguf_get_tensor_ne(const gguf_context* ctx, int64_t tensor_id) {
  return guarded<const int64_t*>("gguf_get_tensor_ne", nullptr, [&]() -> Result<const int64_t*> {
    TESSERA_ASSIGN(const GgufTensorEntry* tensor, tensor_at(ctx, tensor_id));
    return tensor->shape.ne.data();
  });
}

void tessera_gguf_add_tensor(gguf_context* ctx, const ggml_tensor* tensor) {
  guarded("gguf_add_tensor", [&]() -> Result<> {
    TESSERA_TRY(require(ctx, "ctx"));
    if (tensor == nullptr) return fail(ErrorCode::invalid_argument, "tensor: is NULL");
    TESSERA_ASSIGN(GgufTensorEntry entry, tensor_entry_of(*tensor));
    if (ctx->find_tensor(entry.name))
      return fail(ErrorCode::invalid_argument, "tensor '{}' was added before", entry.name);
    ctx->tensors.push_back(std::move(entry));
    const Result<> placed = ctx->place_tensors(ctx->tensors.size() - 1);
    if (!placed) ctx->tensors.pop_back();
    return placed;
  });
}
void tessera_gguf_set_tensor_type(gguf_context* ctx, const char* name, int32_t type) {
  guarded("gguf_set_tensor_type", [&]() -> Result<> {
    TESSERA_ASSIGN(const size_t i, index_of_tensor(ctx, name));
    TESSERA_ASSIGN(const DType dtype, dtype_of(type));
    TESSERA_ASSIGN(const uint64_t n_bytes, nbytes(dtype, ctx->tensors[i].shape));
    std::vector<GgufTensorEntry> before = ctx->tensors;
    ctx->tensors[i].dtype = dtype;
    ctx->tensors[i].n_bytes = n_bytes;
    const Result<> placed = ctx->place_tensors(i + 1);
    if (!placed) ctx->tensors = std::move(before);
    return placed;
  });
}
void tessera_gguf_set_tensor_data(gguf_context* ctx, const char* name, const void* data) {
  guarded("gguf_set_tensor_data", [&]() -> Result<> {
    TESSERA_ASSIGN(const size_t i, index_of_tensor(ctx, name));
    ctx->tensors[i].data = data;
    return {};
  });
}
