// tessera.h: adapters, and their scales in sequences.
#include <algorithm>
#include <limits>

#include "tessera/capi/boundary.h"
#include "tessera/capi/objects.h"
#include "tessera/capi/plans.h"

using namespace tessera;
using capi::guarded;

namespace {

// The handle of an adapter that was opened for a model.
tessera_adapter* handle_of(tessera_model* model, std::shared_ptr<Adapter> opened) {
  std::erase_if(model->adapters, [](const auto& adapter) { return adapter.expired(); });
  model->adapters.push_back(opened);
  return std::make_unique<tessera_adapter>(model, std::move(opened)).release();
}

// The numbers of adapters in the options of a session, with their scales.
Result<std::vector<AdapterScale>> scales_of(const Session& session, std::span<const SessionAdapter> wanted) {
  const std::vector<SessionAdapter>& held = session.options().adapters;
  std::vector<AdapterScale> scales;
  for (const auto& [adapter, scale] : wanted) {
    const auto found = std::ranges::find(held, adapter, &SessionAdapter::adapter);
    if (found == held.end())
      return fail(ErrorCode::invalid_argument, "adapters: {}: not an adapter of this session", adapter->name());
    scales.push_back({.adapter = static_cast<size_t>(found - held.begin()), .scale = scale});
  }
  return scales;
}

}  // namespace

Result<std::vector<SessionAdapter>> capi::read_adapters(tessera_adapter* const* adapters, const float* scales,
                                                        uint64_t count) {
  TESSERA_ASSIGN(const auto given, read_items(adapters, count, "adapters"));
  std::vector<SessionAdapter> result;
  for (size_t i = 0; i < given.size(); ++i) {
    TESSERA_TRY(require(given[i], "adapters"));
    result.push_back({.adapter = given[i]->adapter, .scale = scales == nullptr ? 1.0f : scales[i]});
  }
  return result;
}

tessera_status tessera_adapter_open_lora(tessera_model* model, const char* path, tessera_adapter** adapter,
                                         tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(model, "model"));
    TESSERA_TRY(capi::require_pointer(path, "path"));
    TESSERA_TRY(capi::require_pointer(adapter, "adapter"));
    TESSERA_ASSIGN(auto opened, Adapter::open_lora(*model->engine, path));
    *adapter = handle_of(model, std::move(opened));
    return {};
  });
}

tessera_status tessera_adapter_open_control_vector(tessera_model* model, const char* path, int64_t first_layer,
                                                   int64_t last_layer, tessera_adapter** adapter,
                                                   tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(model, "model"));
    TESSERA_TRY(capi::require_pointer(path, "path"));
    TESSERA_TRY(capi::require_pointer(adapter, "adapter"));
    const LayerSpan span{.first = first_layer,
                         .last = last_layer == -1 ? std::numeric_limits<int64_t>::max() : last_layer};
    if (span.first < 0 || span.last < span.first)
      return fail(ErrorCode::invalid_argument, "layers: {} to {}, want 0 or more and not less", first_layer,
                  last_layer);
    TESSERA_ASSIGN(auto opened, Adapter::open_control_vector(*model->engine, path, span));
    *adapter = handle_of(model, std::move(opened));
    return {};
  });
}

tessera_status tessera_adapter_load(tessera_adapter* adapter, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(adapter, "adapter"));
    const tessera_model& model = *adapter->model;
    if (!model.is_loaded) return fail(ErrorCode::invalid_argument, "model: call tessera_model_load() first");
    Adapter& to_load = *adapter->adapter;
    if (to_load.is_loaded()) return {};
    TESSERA_ASSIGN(auto memory, capi::BudgetShare::take(model.runtime->budget,
                                                        capi::counted_bytes(to_load.planned_memory()), "adapter"));
    TESSERA_TRY(to_load.load());
    adapter->memory = std::move(memory);
    return {};
  });
}

tessera_adapter* tessera_adapter_retain(tessera_adapter* adapter) { return capi::retain(adapter); }
void tessera_adapter_release(tessera_adapter* adapter) { capi::release(adapter); }

tessera_status tessera_session_set_adapters(tessera_session* session, int32_t sequence,
                                            tessera_adapter* const* adapters, const float* scales, uint64_t count,
                                            tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require_sequence(session, sequence));
    TESSERA_ASSIGN(const auto wanted, capi::read_adapters(adapters, scales, count));
    TESSERA_ASSIGN(const auto numbers, scales_of(*session->session, wanted));
    return session->session->set_adapters(sequence, numbers);
  });
}
