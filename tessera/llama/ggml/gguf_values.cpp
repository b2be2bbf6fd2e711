// gguf.h: keys and their values.
#include <algorithm>
#include <array>
#include <cstring>

#include "tessera/llama/ggml/objects.h"

using namespace tessera;
using namespace tessera::llama;

namespace {

constexpr int32_t kNoType = -1;
// By id, as ggml spells them.
constexpr std::array<const char*, 13> kTypeNames = {"u8",   "i8",  "u16", "i16", "u32", "i32", "f32",
                                                    "bool", "str", "arr", "u64", "i64", "f64"};

Result<const GgufEntry*> key_entry_at(const gguf_context* ctx, int64_t key_id) {
  TESSERA_TRY(require(ctx, "ctx"));
  if (key_id < 0 || std::cmp_greater_equal(key_id, ctx->entries.size()))
    return fail(ErrorCode::invalid_argument, "key_id: {}, there are {} keys", key_id, ctx->entries.size());
  return &ctx->entries[static_cast<size_t>(key_id)];
}

std::unexpected<Error> wrong_type(const GgufEntry& entry, std::string_view wanted) {
  return fail(ErrorCode::mismatch, "key '{}': is {}{}, want {}", entry.key, entry.is_array ? "an array of " : "",
              kTypeNames[static_cast<size_t>(entry.element)], wanted);
}

Result<const GgufEntry*> array_entry_at(const gguf_context* ctx, int64_t key_id) {
  TESSERA_ASSIGN(const GgufEntry* entry, key_entry_at(ctx, key_id));
  if (!entry->is_array) return wrong_type(*entry, "an array");
  return entry;
}

// A bool of a file is a byte, which the reader has checked.
template <class T>
T value_of(const char* function, const gguf_context* ctx, int64_t key_id) {
  return guarded<T>(function, T{}, [&]() -> Result<T> {
    TESSERA_ASSIGN(const GgufEntry* entry, key_entry_at(ctx, key_id));
    constexpr GgufType kType = gguf_type_of<T>();
    if (entry->type() != kType) return wrong_type(*entry, kTypeNames[static_cast<size_t>(kType)]);
    T value;
    std::memcpy(&value, entry->bytes.data(), sizeof value);
    return value;
  });
}

Result<std::vector<std::byte>> copy_bytes(const void* data, size_t n_items, size_t item_bytes) {
  TESSERA_ASSIGN(const auto items, read_items(static_cast<const std::byte*>(data), n_items, "data"));
  const std::span bytes(items.data(), n_items * item_bytes);  // read_items() bounds the number
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

template <class T>
void set_value(const char* function, gguf_context* ctx, const char* key, T value) {
  guarded(function, [&]() -> Result<> {
    TESSERA_TRY(require(ctx, "ctx"));
    TESSERA_ASSIGN(const std::string_view name, read_text(key, "key"));
    TESSERA_ASSIGN(std::vector<std::byte> bytes, copy_bytes(&value, 1, sizeof value));
    return ctx->set({.key = std::string(name), .element = gguf_type_of<T>(), .bytes = std::move(bytes)});
  });
}

}  // namespace

const char* tessera_gguf_type_name(int32_t type) {
  const bool is_known = type >= 0 && std::cmp_less(type, kTypeNames.size());
  return is_known ? kTypeNames[static_cast<size_t>(type)] : nullptr;
}

const char* tessera_gguf_get_key(const gguf_context* ctx, int64_t key_id) {
  return guarded<const char*>("gguf_get_key", nullptr, [&]() -> Result<const char*> {
    TESSERA_ASSIGN(const GgufEntry* entry, key_entry_at(ctx, key_id));
    return entry->key.c_str();
  });
}
int32_t tessera_gguf_get_kv_type(const gguf_context* ctx, int64_t key_id) {
  return guarded<int32_t>("gguf_get_kv_type", kNoType, [&]() -> Result<int32_t> {
    TESSERA_ASSIGN(const GgufEntry* entry, key_entry_at(ctx, key_id));
    return static_cast<int32_t>(entry->type());
  });
}
int32_t tessera_gguf_get_arr_type(const gguf_context* ctx, int64_t key_id) {
  return guarded<int32_t>("gguf_get_arr_type", kNoType, [&]() -> Result<int32_t> {
    TESSERA_ASSIGN(const GgufEntry* entry, array_entry_at(ctx, key_id));
    return static_cast<int32_t>(entry->element);
  });
}

// TESSERA_GGUF_SCALAR(name, type): the two functions of a type.
#define TESSERA_GGUF_SCALAR(name, type)                                            \
  type tessera_gguf_get_val_##name(const gguf_context* ctx, int64_t key_id) {      \
    return value_of<type>("gguf_get_val_" #name, ctx, key_id);                     \
  }                                                                                \
  void tessera_gguf_set_val_##name(gguf_context* ctx, const char* key, type val) { \
    set_value("gguf_set_val_" #name, ctx, key, val);                               \
  }
TESSERA_GGUF_SCALAR(u8, uint8_t)
TESSERA_GGUF_SCALAR(i8, int8_t)
TESSERA_GGUF_SCALAR(u16, uint16_t)
TESSERA_GGUF_SCALAR(i16, int16_t)
TESSERA_GGUF_SCALAR(u32, uint32_t)
TESSERA_GGUF_SCALAR(i32, int32_t)
TESSERA_GGUF_SCALAR(f32, float)
TESSERA_GGUF_SCALAR(u64, uint64_t)
TESSERA_GGUF_SCALAR(i64, int64_t)
TESSERA_GGUF_SCALAR(f64, double)
TESSERA_GGUF_SCALAR(bool, bool)
#undef TESSERA_GGUF_SCALAR

const char* tessera_gguf_get_val_str(const gguf_context* ctx, int64_t key_id) {
  return guarded<const char*>("gguf_get_val_str", nullptr, [&]() -> Result<const char*> {
    TESSERA_ASSIGN(const GgufEntry* entry, key_entry_at(ctx, key_id));
    if (entry->type() != GgufType::string) return wrong_type(*entry, "str");
    return entry->strings.front().c_str();
  });
}
const void* tessera_gguf_get_val_data(const gguf_context* ctx, int64_t key_id) {
  return guarded<const void*>("gguf_get_val_data", nullptr, [&]() -> Result<const void*> {
    TESSERA_ASSIGN(const GgufEntry* entry, key_entry_at(ctx, key_id));
    if (entry->is_array || entry->element == GgufType::string) return wrong_type(*entry, "a number");
    return static_cast<const void*>(entry->bytes.data());
  });
}
size_t tessera_gguf_get_arr_n(const gguf_context* ctx, int64_t key_id) {
  return guarded<size_t>("gguf_get_arr_n", 0, [&]() -> Result<size_t> {
    TESSERA_ASSIGN(const GgufEntry* entry, array_entry_at(ctx, key_id));
    return entry->size();
  });
}
const void* tessera_gguf_get_arr_data(const gguf_context* ctx, int64_t key_id) {
  return guarded<const void*>("gguf_get_arr_data", nullptr, [&]() -> Result<const void*> {
    TESSERA_ASSIGN(const GgufEntry* entry, array_entry_at(ctx, key_id));
    if (entry->element == GgufType::string) return wrong_type(*entry, "an array of numbers");
    return static_cast<const void*>(entry->bytes.data());
  });
}
const char* tessera_gguf_get_arr_str(const gguf_context* ctx, int64_t key_id, size_t i) {
  return guarded<const char*>("gguf_get_arr_str", nullptr, [&]() -> Result<const char*> {
    TESSERA_ASSIGN(const GgufEntry* entry, array_entry_at(ctx, key_id));
    if (entry->element != GgufType::string) return wrong_type(*entry, "an array of str");
    if (i >= entry->strings.size())
      return fail(ErrorCode::invalid_argument, "key '{}': element {}, there are {}", entry->key, i,
                  entry->strings.size());
    return entry->strings[i].c_str();
  });
}

void tessera_gguf_set_val_str(gguf_context* ctx, const char* key, const char* val) {
  guarded("gguf_set_val_str", [&]() -> Result<> {
    TESSERA_TRY(require(ctx, "ctx"));
    TESSERA_ASSIGN(const std::string_view name, read_text(key, "key"));
    TESSERA_ASSIGN(const std::string_view text, read_text(val, "val"));
    return ctx->set({.key = std::string(name), .element = GgufType::string, .strings = {std::string(text)}});
  });
}
void tessera_gguf_set_arr_data(gguf_context* ctx, const char* key, int32_t type, const void* data, size_t n) {
  guarded("gguf_set_arr_data", [&]() -> Result<> {
    TESSERA_TRY(require(ctx, "ctx"));
    TESSERA_ASSIGN(const std::string_view name, read_text(key, "key"));
    const auto element = type < 0 ? std::nullopt : gguf_type_from_id(static_cast<uint32_t>(type));
    if (!element || scalar_bytes(*element) == 0)
      return fail(ErrorCode::invalid_argument, "type: {}, want that of a number", type);
    TESSERA_ASSIGN(std::vector<std::byte> bytes, copy_bytes(data, n, scalar_bytes(*element)));
    return ctx->set({.key = std::string(name), .is_array = true, .element = *element, .bytes = std::move(bytes)});
  });
}
void tessera_gguf_set_arr_str(gguf_context* ctx, const char* key, const char** data, size_t n) {
  guarded("gguf_set_arr_str", [&]() -> Result<> {
    TESSERA_TRY(require(ctx, "ctx"));
    TESSERA_ASSIGN(const std::string_view name, read_text(key, "key"));
    TESSERA_ASSIGN(const std::span<const char*> texts, read_items(data, n, "data"));
    GgufEntry entry{.key = std::string(name), .is_array = true, .element = GgufType::string};
    for (const char* text : texts) {
      TESSERA_ASSIGN(const std::string_view one, read_text(text, "data"));
      entry.strings.emplace_back(one);
    }
    return ctx->set(std::move(entry));
  });
}
