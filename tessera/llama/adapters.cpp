// llama.h: LoRA adapters and control vectors.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "tessera/gguf/keys.h"
#include "tessera/gguf/writer.h"
#include "tessera/llama/context.h"

using namespace tessera;
using namespace tessera::llama;

namespace {

// A file without a name, which exists as long as this or a map of it.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("tessera", MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  Result<> write(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
      if (n <= 0) return fail(ErrorCode::io, "a file in memory: {}", std::system_category().message(errno));
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
  }
  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

Result<llama_adapter_lora*> open_adapter(const llama_model& model, const std::string& path) {
  if (!model.engine || !model.engine->is_loaded())
    return fail(ErrorCode::invalid_argument, "model: its weights are not loaded");
  auto created = std::make_unique<llama_adapter_lora>(model.shared_from_this());
  TESSERA_ASSIGN(created->adapter, Adapter::open_lora(*model.engine, path));
  TESSERA_TRY(created->adapter->load());
  const auto tokens = created->adapter->lora()->files().metadata().get_vector<int32_t>(keys::kAdapterInvocationTokens);
  if (tokens) created->invocation_tokens = *tokens;
  return created.release();
}

Result<std::vector<ScaledAdapter>> scaled_adapters(const llama_context& context,
                                                   std::span<llama_adapter_lora*> adapters, const float* scales) {
  std::vector<ScaledAdapter> scaled;
  for (size_t i = 0; i < adapters.size(); ++i) {
    TESSERA_TRY(require(adapters[i], "adapter"));
    const std::shared_ptr<Adapter>& adapter = adapters[i]->adapter;
    if (&adapter->engine() != context.engine.get())
      return fail(ErrorCode::mismatch, "adapter {}: of another model, or the context has rope settings of its own", i);
    scaled.push_back({adapter, scales == nullptr ? 1.0f : scales[i]});
  }
  return scaled;
}

// A control vector file in memory. data has a direction for each layer from number 1 on.
Result<std::vector<std::byte>> control_vector_file(const ModelInfo& info, std::span<const float> data) {
  GgufBuilder builder;
  builder.set(keys::kArchitecture, std::string("controlvector"));
  const auto width = static_cast<size_t>(info.n_embd);
  std::vector<std::span<const std::byte>> directions;
  for (size_t layer = 1; layer * width <= data.size() && std::cmp_less(layer, info.n_layers); ++layer) {
    TESSERA_TRY(builder.add_tensor(fmt::format("direction.{}", layer), DType::f32, Shape{info.n_embd}));
    directions.push_back(std::as_bytes(data.subspan((layer - 1) * width, width)));
  }
  return gguf_to_bytes(builder, directions);
}

// The engine reads control vectors from files, so it gets one that is only in memory.
Result<std::shared_ptr<Adapter>> open_control_vector(const Engine& engine, std::span<const float> data,
                                                     const LayerSpan& layers) {
  TESSERA_ASSIGN(const auto bytes, control_vector_file(engine.model().info(), data));
  const MemoryFile file;
  TESSERA_TRY(file.write(bytes));
  TESSERA_ASSIGN(auto adapter, Adapter::open_control_vector(engine, file.path(), layers));
  TESSERA_TRY(adapter->load());
  return adapter;
}

Result<> set_control_vector(llama_context& context, std::span<const float> data, int32_t n_embd, int32_t first,
                            int32_t last) {
  if (data.empty()) return context.use_adapters(context.loras, std::nullopt);
  if (n_embd != context.info().n_embd)
    return fail(ErrorCode::mismatch, "n_embd: {}, the model has {}", n_embd, context.info().n_embd);
  if (first < 1 || last < first)
    return fail(ErrorCode::invalid_argument, "layers {} to {}, want 1 or more", first, last);
  TESSERA_ASSIGN(auto adapter, open_control_vector(*context.engine, data, {.first = first, .last = last}));
  return context.use_adapters(context.loras, ScaledAdapter{std::move(adapter), 1.0f});
}

}  // namespace

llama_adapter_lora* tessera_llama_adapter_lora_init(llama_model* model, const char* path_lora) {
  return guarded<llama_adapter_lora*>("llama_adapter_lora_init", nullptr, [&]() -> Result<llama_adapter_lora*> {
    TESSERA_TRY(require(model, "model"));
    TESSERA_ASSIGN(const std::string_view path, read_text(path_lora, "path_lora"));
    return open_adapter(*model, std::string(path));
  });
}

void tessera_llama_adapter_lora_free(llama_adapter_lora* adapter) {
  if (adapter == nullptr) return;
  guarded("llama_adapter_lora_free", [&]() -> Result<> {
    TESSERA_TRY(require(adapter, "adapter"));
    delete adapter;
    return {};
  });
}

uint64_t tessera_llama_adapter_get_alora_n_invocation_tokens(const llama_adapter_lora* adapter) {
  return guarded<uint64_t>("llama_adapter_get_alora_n_invocation_tokens", 0, [&]() -> Result<uint64_t> {
    TESSERA_TRY(require(adapter, "adapter"));
    return adapter->invocation_tokens.size();
  });
}

const llama_token* tessera_llama_adapter_get_alora_invocation_tokens(const llama_adapter_lora* adapter) {
  return guarded<const llama_token*>(
      "llama_adapter_get_alora_invocation_tokens", nullptr, [&]() -> Result<const llama_token*> {
        TESSERA_TRY(require(adapter, "adapter"));
        return adapter->invocation_tokens.empty() ? nullptr : adapter->invocation_tokens.data();
      });
}

int32_t tessera_llama_set_adapters_lora(llama_context* ctx, llama_adapter_lora** adapters, size_t n_adapters,
                                        float* scales) {
  return of_context<int32_t>("llama_set_adapters_lora", ctx, -1, [&](llama_context& of) -> Result<int32_t> {
    TESSERA_ASSIGN(const auto given, read_items(adapters, n_adapters, "adapters"));
    TESSERA_ASSIGN(auto loras, scaled_adapters(of, given, scales));
    TESSERA_TRY(of.use_adapters(std::move(loras), of.control_vector));
    return 0;
  });
}

int32_t tessera_llama_set_adapter_cvec(llama_context* ctx, const float* data, size_t len, int32_t n_embd,
                                       int32_t il_start, int32_t il_end) {
  return of_context<int32_t>("llama_set_adapter_cvec", ctx, -1, [&](llama_context& of) -> Result<int32_t> {
    TESSERA_ASSIGN(const auto values, read_items(data, data == nullptr ? 0 : len, "data"));
    TESSERA_TRY(set_control_vector(of, values, n_embd, il_start, il_end));
    return 0;
  });
}
