// gguf.h: opening, freeing and writing.
#include <algorithm>
#include <cstring>

#include "tessera/base/checked.h"
#include "tessera/gguf/keys.h"
#include "tessera/llama/ggml/objects.h"

using namespace tessera;
using namespace tessera::llama;

namespace {

Result<GgufEntry> copy_of_entry(const Metadata::Entry& from) {
  const GgufValue& value = from.value;
  GgufEntry entry{.key = std::string(from.key), .is_array = value.is_array(), .element = value.element_type()};
  if (entry.element == GgufType::array)
    return fail(ErrorCode::unsupported, "key '{}': an array of arrays has no place in a GGUF context", from.key);
  if (entry.element != GgufType::string) {
    entry.bytes.assign(value.bytes().begin(), value.bytes().end());
  } else if (entry.is_array) {
    TESSERA_ASSIGN(const auto texts, value.as_vector<std::string_view>());
    entry.strings.assign(texts.begin(), texts.end());
  } else {
    TESSERA_ASSIGN(const std::string_view text, value.as<std::string_view>());
    entry.strings.emplace_back(text);
  }
  return entry;
}

// Programs find the data by adding up sizes, so the tensors must lie behind one another.
Result<> add_tensors(gguf_context& ctx, const GgufFile& file) {
  uint64_t expected = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.data_offset != expected)
      return fail(ErrorCode::unsupported, "{}: tensor '{}' has the offset {}, the one before it ends at {}",
                  file.name(), tensor.name, tensor.data_offset, expected);
    ctx.tensors.push_back(
        {std::string(tensor.name), tensor.dtype, tensor.shape, tensor.rank, tensor.data_offset, tensor.n_bytes});
    // The reader has checked that the tensor ends within the file.
    expected += round_up(tensor.n_bytes, file.alignment());
  }
  return {};
}

Result<std::unique_ptr<gguf_context>> gguf_context_of(const GgufFile& file) {
  auto ctx = std::make_unique<gguf_context>();
  ctx->version = file.version();
  ctx->alignment = file.alignment();
  ctx->data_offset = file.data_offset();
  for (const Metadata::Entry& from : file.metadata().entries()) {
    TESSERA_ASSIGN(GgufEntry entry, copy_of_entry(from));
    ctx->entries.push_back(std::move(entry));
  }
  TESSERA_TRY(add_tensors(*ctx, file));
  return ctx;
}

// Hands out both objects, or none.
Result<gguf_context*> create_context(const GgufFile& file, const gguf_init_params& params) {
  TESSERA_ASSIGN(std::unique_ptr<gguf_context> ctx, gguf_context_of(file));
  if (params.ctx != nullptr) {
    TESSERA_ASSIGN(std::unique_ptr<ggml_context> tensors, read_tensors(file, !params.no_alloc));
    *params.ctx = tensors.release();
  }
  return ctx.release();
}

bool wants_data(const gguf_init_params& params) { return params.ctx != nullptr && !params.no_alloc; }

// Without data, the part of a file before its data is enough.
Result<gguf_context*> parse_context(std::span<const std::byte> bytes, const std::string& name,
                                    const gguf_init_params& params) {
  TESSERA_ASSIGN(const auto file,
                 wants_data(params) ? GgufFile::parse(bytes, name) : GgufFile::parse_header(bytes, name));
  return create_context(*file, params);
}

Result<std::vector<std::byte>> meta_bytes(const gguf_context& ctx) {
  TESSERA_ASSIGN(const GgufBuilder builder, ctx.builder());
  TESSERA_ASSIGN(std::vector<std::byte> bytes, builder.header());
  bytes.resize(round_up<size_t>(bytes.size(), kGgufDefaultAlignment));
  return bytes;
}

Result<> write_meta(const gguf_context& ctx, const std::string& path) {
  TESSERA_ASSIGN(const std::vector<std::byte> bytes, meta_bytes(ctx));
  TESSERA_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TESSERA_TRY(file.write(bytes));
  return file.commit();
}

Result<> write_all(const gguf_context& ctx, const std::string& path) {
  for (const GgufTensorEntry& tensor : ctx.tensors)
    if (tensor.data == nullptr) return fail(ErrorCode::invalid_argument, "tensor '{}' has no data", tensor.name);
  TESSERA_ASSIGN(const GgufBuilder builder, ctx.builder());
  TESSERA_ASSIGN(GgufWriter writer, GgufWriter::create(path, builder));
  for (const GgufTensorEntry& tensor : ctx.tensors)
    TESSERA_TRY(writer.write_tensor(tensor.name, {static_cast<const std::byte*>(tensor.data), tensor.n_bytes}));
  return writer.finish();
}

// Sets an entry as its type is written.
Result<> put_entry(GgufBuilder& to, const GgufEntry& entry) {
  if (entry.element == GgufType::string) {
    if (entry.is_array)
      to.set_array(entry.key, entry.strings);
    else
      to.set(entry.key, entry.strings.front());
    return {};
  }
  return to.set_value(entry.key, entry.is_array ? GgufValue::scalars(entry.element, entry.bytes)
                                                : GgufValue::scalar(entry.element, entry.bytes));
}

}  // namespace

Result<GgufBuilder> gguf_context::builder() const {
  if (alignment != kGgufDefaultAlignment)
    return fail(ErrorCode::unsupported, "files are written with an alignment of {}, this one has {}",
                kGgufDefaultAlignment, alignment);
  GgufBuilder builder;
  for (const GgufEntry& entry : entries)
    if (entry.key != keys::kAlignment) TESSERA_TRY(put_entry(builder, entry));
  for (const GgufTensorEntry& tensor : tensors)
    TESSERA_TRY(builder.add_tensor(tensor.name, tensor.dtype, tensor.shape, tensor.rank));
  return builder;
}

gguf_context* tessera_gguf_init_empty() {
  return guarded<gguf_context*>("gguf_init_empty", nullptr,
                                []() -> Result<gguf_context*> { return std::make_unique<gguf_context>().release(); });
}

gguf_context* tessera_gguf_init_from_file(const char* fname, gguf_init_params params) {
  return guarded<gguf_context*>("gguf_init_from_file", nullptr, [&]() -> Result<gguf_context*> {
    TESSERA_ASSIGN(const std::string_view path, read_text(fname, "fname"));
    TESSERA_ASSIGN(const File file, File::open(std::string(path)));
    TESSERA_ASSIGN(const auto map, MappedFile::map(file));
    return parse_context(map->bytes(), file.path(), params);
  });
}

gguf_context* tessera_gguf_init_from_buffer(const void* data, size_t size, gguf_init_params params) {
  return guarded<gguf_context*>("gguf_init_from_buffer", nullptr, [&]() -> Result<gguf_context*> {
    if (data == nullptr) return fail(ErrorCode::invalid_argument, "data: is NULL");
    return parse_context({static_cast<const std::byte*>(data), size}, "buffer", params);
  });
}

void tessera_gguf_free(gguf_context* ctx) {
  if (ctx == nullptr) return;
  guarded("gguf_free", [&]() -> Result<> {
    TESSERA_TRY(require(ctx, "ctx"));
    const std::unique_ptr<gguf_context> last(ctx);
    return {};
  });
}

bool tessera_gguf_write_to_file(const gguf_context* ctx, const char* fname, bool only_meta) {
  return guarded("gguf_write_to_file", false, [&]() -> Result<bool> {
    TESSERA_TRY(require(ctx, "ctx"));
    TESSERA_ASSIGN(const std::string_view path, read_text(fname, "fname"));
    TESSERA_TRY(only_meta ? write_meta(*ctx, std::string(path)) : write_all(*ctx, std::string(path)));
    return true;
  });
}

size_t tessera_gguf_get_meta_size(const gguf_context* ctx) {
  return guarded<size_t>("gguf_get_meta_size", 0, [&]() -> Result<size_t> {
    TESSERA_TRY(require(ctx, "ctx"));
    TESSERA_ASSIGN(const std::vector<std::byte> bytes, meta_bytes(*ctx));
    return bytes.size();
  });
}

void tessera_gguf_get_meta_data(const gguf_context* ctx, void* data) {
  guarded("gguf_get_meta_data", [&]() -> Result<> {
    TESSERA_TRY(require(ctx, "ctx"));
    if (data == nullptr) return fail(ErrorCode::invalid_argument, "data: is NULL");
    TESSERA_ASSIGN(const std::vector<std::byte> bytes, meta_bytes(*ctx));
    std::memcpy(data, bytes.data(), bytes.size());
    return {};
  });
}
