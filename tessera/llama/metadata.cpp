#include "tessera/llama/metadata.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/llama/objects.h"

namespace tessera::llama {
namespace {

std::string scalar_text(const GgufValue& value) {
  switch (value.type()) {
    case GgufType::string:
      return std::string(value.as<std::string_view>().value_or(""));
    case GgufType::boolean:
      return value.as<bool>().value_or(false) ? "true" : "false";
    case GgufType::f32:
    case GgufType::f64:
      return fmt::format("{:f}", value.as<double>().value_or(0));
    case GgufType::u64:
      return fmt::to_string(value.as<uint64_t>().value_or(0));
    default:
      return fmt::to_string(value.as<int64_t>().value_or(0));
  }
}

}  // namespace

int32_t count_entries(const Metadata& metadata) {
  return static_cast<int32_t>(
      std::ranges::count_if(metadata.entries(), [](const Metadata::Entry& entry) { return !entry.value.is_array(); }));
}

Result<const Metadata::Entry*> entry_at(const Metadata& metadata, int32_t i) {
  int32_t at = 0;
  for (const Metadata::Entry& entry : metadata.entries())
    if (!entry.value.is_array() && at++ == i) return &entry;
  return fail(ErrorCode::invalid_argument, "key {}, there are {}", i, at);
}

Result<const Metadata::Entry*> entry_of(const Metadata& metadata, std::string_view key) {
  for (const Metadata::Entry& entry : metadata.entries())
    if (entry.key == key && !entry.value.is_array()) return &entry;
  return fail(ErrorCode::not_found, "no key '{}' that is no array", key);
}

std::string value_text(const GgufValue& value) { return scalar_text(value); }

}  // namespace tessera::llama

using namespace tessera;
using namespace tessera::llama;

namespace {

// Writes a text of the entry that find() returns. A wrong key or place is no error worth a line of the log.
template <class Handle, class Find, class Text>
int32_t write_entry(const char* function, const Handle* handle, std::string_view name, char* buf, size_t buf_size,
                    Find&& find, Text&& text) {
  return guarded<int32_t>(function, -1, [&]() -> Result<int32_t> {
    TESSERA_TRY(require(handle, name));
    if (buf != nullptr && buf_size > 0) buf[0] = '\0';
    const Result<const Metadata::Entry*> entry = find();
    return entry ? write_text(text(**entry), buf, buf_size) : -1;
  });
}

std::string text_of_key(const Metadata::Entry& entry) { return std::string(entry.key); }
std::string text_of_value(const Metadata::Entry& entry) { return value_text(entry.value); }

const Metadata& metadata_of(const llama_model& model) { return model.metadata(); }
const Metadata& metadata_of(const llama_adapter_lora& adapter) { return adapter.adapter->lora()->files().metadata(); }

template <class Handle>
int32_t count_of(const char* function, const Handle* handle, std::string_view name) {
  return guarded<int32_t>(function, -1, [&]() -> Result<int32_t> {
    TESSERA_TRY(require(handle, name));
    return count_entries(metadata_of(*handle));
  });
}

template <class Handle>
int32_t value_of_key(const char* function, const Handle* handle, std::string_view name, const char* key, char* buf,
                     size_t buf_size) {
  return guarded<int32_t>(function, -1, [&]() -> Result<int32_t> {
    TESSERA_ASSIGN(const std::string_view text, read_text(key, "key"));
    return write_entry(
        function, handle, name, buf, buf_size, [&] { return entry_of(metadata_of(*handle), text); }, text_of_value);
  });
}

template <class Handle, class Text>
int32_t text_at(const char* function, const Handle* handle, std::string_view name, int32_t i, char* buf,
                size_t buf_size, Text&& text) {
  return write_entry(
      function, handle, name, buf, buf_size, [&] { return entry_at(metadata_of(*handle), i); }, text);
}

}  // namespace

int32_t tessera_llama_model_meta_count(const llama_model* model) {
  return count_of("llama_model_meta_count", model, "model");
}
int32_t tessera_llama_model_meta_val_str(const llama_model* model, const char* key, char* buf, size_t buf_size) {
  return value_of_key("llama_model_meta_val_str", model, "model", key, buf, buf_size);
}
int32_t tessera_llama_model_meta_key_by_index(const llama_model* model, int32_t i, char* buf, size_t buf_size) {
  return text_at("llama_model_meta_key_by_index", model, "model", i, buf, buf_size, text_of_key);
}
int32_t tessera_llama_model_meta_val_str_by_index(const llama_model* model, int32_t i, char* buf, size_t buf_size) {
  return text_at("llama_model_meta_val_str_by_index", model, "model", i, buf, buf_size, text_of_value);
}

int32_t tessera_llama_adapter_meta_count(const llama_adapter_lora* adapter) {
  return count_of("llama_adapter_meta_count", adapter, "adapter");
}
int32_t tessera_llama_adapter_meta_val_str(const llama_adapter_lora* adapter, const char* key, char* buf,
                                           size_t buf_size) {
  return value_of_key("llama_adapter_meta_val_str", adapter, "adapter", key, buf, buf_size);
}
int32_t tessera_llama_adapter_meta_key_by_index(const llama_adapter_lora* adapter, int32_t i, char* buf,
                                                size_t buf_size) {
  return text_at("llama_adapter_meta_key_by_index", adapter, "adapter", i, buf, buf_size, text_of_key);
}
int32_t tessera_llama_adapter_meta_val_str_by_index(const llama_adapter_lora* adapter, int32_t i, char* buf,
                                                    size_t buf_size) {
  return text_at("llama_adapter_meta_val_str_by_index", adapter, "adapter", i, buf, buf_size, text_of_value);
}
