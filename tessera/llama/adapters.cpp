// llama.h: LoRA adapters and control vectors.
#include <algorithm>
#include <memory>

#include "tessera/gguf/keys.h"
#include "tessera/llama/context.h"

using namespace tessera;
using namespace tessera::llama;

namespace {

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

Result<> set_adapters(llama_context& context, std::span<llama_adapter_lora*> adapters, const float* scales) {
  std::vector<ScaledAdapter> wanted;
  SessionOptions next = context.options;
  for (size_t i = 0; i < adapters.size(); ++i) {
    TESSERA_TRY(require(adapters[i], "adapter"));
    const std::shared_ptr<Adapter>& adapter = adapters[i]->adapter;
    if (&adapter->engine() != context.engine.get())
      return fail(ErrorCode::mismatch, "adapter {}: of another model, or the context has rope settings of its own", i);
    wanted.push_back({adapter, scales == nullptr ? 1.0f : scales[i]});
    if (std::ranges::find(next.adapters, adapter, &SessionAdapter::adapter) == next.adapters.end())
      next.adapters.push_back({adapter, 0.0f});
  }
  const auto before = std::exchange(context.adapters, wanted);
  Result<> done =
      next.adapters.size() > context.options.adapters.size() ? context.rebuild(next) : context.apply_adapters();
  if (!done) context.adapters = before;
  return done;
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
    TESSERA_TRY(set_adapters(of, given, scales));
    return 0;
  });
}

int32_t tessera_llama_set_adapter_cvec(llama_context* ctx, const float* data, size_t /*len*/, int32_t /*n_embd*/,
                                       int32_t /*il_start*/, int32_t /*il_end*/) {
  return of_context<int32_t>("llama_set_adapter_cvec", ctx, -1, [&](llama_context&) -> Result<int32_t> {
    if (data == nullptr) return 0;
    return fail(ErrorCode::unsupported, "control vectors in memory are not supported");
  });
}
