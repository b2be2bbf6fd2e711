// tessera.h: plans of memory, and the settings that fit.
#include "tessera/capi/plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tessera/capi/boundary.h"
#include "tessera/engine/fit.h"

using namespace tessera;
using capi::guarded;

namespace {

constexpr tessera_session_options kSessionDefaults = {};

constexpr std::array kCacheTypes = {DType::f16,  DType::f32,  DType::f16,  DType::bf16, DType::q8_0,
                                    DType::q5_1, DType::q5_0, DType::q4_1, DType::q4_0, DType::iq4_nl};

int32_t number_of(DType type) {
  const auto* found = std::ranges::find(kCacheTypes.begin() + 1, kCacheTypes.end(), type);
  return static_cast<int32_t>(found - kCacheTypes.begin());
}

Result<DType> cache_type(int32_t type, std::string_view name) {
  if (type < 0 || static_cast<size_t>(type) >= kCacheTypes.size())
    return fail(ErrorCode::invalid_argument, "{}: {}, want a TESSERA_CACHE_ type, 0 to {}", name, type,
                kCacheTypes.size() - 1);
  return kCacheTypes[static_cast<size_t>(type)];
}

int32_t part_kind_of(MemoryPart::Kind kind) {
  switch (kind) {
    case MemoryPart::Kind::weights:
      return TESSERA_MEMORY_WEIGHTS;
    case MemoryPart::Kind::cache:
      return TESSERA_MEMORY_CACHE;
    case MemoryPart::Kind::compute:
      return TESSERA_MEMORY_COMPUTE;
    case MemoryPart::Kind::output:
      break;
  }
  return TESSERA_MEMORY_OUTPUT;
}

constexpr tessera_fit_options kFitDefaults = {};

Result<FitOptions> fit_options(const tessera_fit_options* options) {
  TESSERA_ASSIGN(const auto wanted, capi::read_sized(options, kFitDefaults, "options"));
  if ((wanted.flags & ~uint32_t{TESSERA_FIT_UBATCH}) != 0)
    return fail(ErrorCode::invalid_argument, "flags: {:#x}, known is {:#x}", wanted.flags, TESSERA_FIT_UBATCH);
  if (wanted.least_ctx < 0) return fail(ErrorCode::invalid_argument, "least_ctx: {}, want 0 or more", wanted.least_ctx);
  FitOptions result;
  if (wanted.margin_bytes > 0) result.margin_bytes = wanted.margin_bytes;
  if (wanted.least_ctx > 0) result.least_ctx = wanted.least_ctx;
  result.fits_ubatch = (wanted.flags & TESSERA_FIT_UBATCH) != 0;
  return result;
}

// Settings that fit in the free memory of the devices, then in what the runtime's budget has left.
Result<Fitted> fit_both(tessera_model& model, const SessionOptions& asked, const FitOptions& options) {
  TESSERA_ASSIGN(Fitted fitted, fit(*model.engine, asked.adapters, asked, options));
  for (const auto& opened : model.adapters)
    if (const std::shared_ptr<Adapter> adapter = opened.lock()) TESSERA_TRY(adapter->place());
  const uint64_t left = model.runtime->budget.left(), counted = capi::counted_bytes(fitted.report.parts);
  if (counted <= left) return fitted;
  SessionOptions within_devices = fitted.session;
  within_devices.n_ctx = asked.n_ctx;
  const uint64_t not_counted = fitted.report.total() - counted;
  TESSERA_ASSIGN(Fitted within, fit_within(*model.engine, within_devices, left + not_counted));
  within.choice =
      fmt::format("{} bytes are left of the budget: a context of {} tokens, micro-batches of {}, a {} cache", left,
                  within.session.n_ctx, within.session.n_ubatch, info(within.session.type_k).name);
  return within;
}

}  // namespace

uint64_t capi::counted_bytes(std::span<const MemoryPart> parts) {
  uint64_t n = 0;
  for (const MemoryPart& part : parts)
    if (!part.buffer.ends_with("-mapped")) n += part.bytes;
  return n;
}

Result<capi::BudgetShare> capi::take_session_memory(const tessera_model& model, const SessionOptions& options) {
  TESSERA_ASSIGN(const MemoryReport report, Session::plan(*model.engine, options));
  uint64_t n = counted_bytes(report.parts) - counted_bytes(model.engine->planned_memory());
  for (const auto& [adapter, scale] : options.adapters) n -= counted_bytes(adapter->planned_memory());
  return BudgetShare::take(model.runtime->budget, n, "session");
}

Result<> capi::set_threads(const tessera_model& model, int32_t n_threads, SessionOptions& options) {
  options.threads = model.runtime->thread_options;
  if (n_threads < 0 || n_threads > options.threads.n_threads)
    return fail(ErrorCode::invalid_argument, "n_threads: {}, want 0 to those of the runtime, {}", n_threads,
                options.threads.n_threads);
  if (n_threads > 0) options.threads.n_threads = n_threads;
  return {};
}

Result<SessionOptions> capi::session_options(const tessera_model& model, const tessera_session_options* options) {
  TESSERA_ASSIGN(const auto wanted, capi::read_sized(options, kSessionDefaults, "options"));
  if ((wanted.flags & ~uint32_t{TESSERA_SESSION_EMBEDDINGS}) != 0)
    return fail(ErrorCode::invalid_argument, "flags: {:#x}, known is {:#x}", wanted.flags, TESSERA_SESSION_EMBEDDINGS);
  SessionOptions result;
  result.n_ctx = wanted.n_ctx;
  if (wanted.n_ubatch != 0) result.n_ubatch = wanted.n_ubatch;
  if (wanted.n_sequences != 0) result.n_sequences = wanted.n_sequences;
  if (wanted.n_outputs != 0) result.n_outputs = wanted.n_outputs;
  result.embeddings = (wanted.flags & TESSERA_SESSION_EMBEDDINGS) != 0;
  result.n_checkpoints = wanted.n_checkpoints;
  TESSERA_ASSIGN(result.type_k, cache_type(wanted.type_k, "type_k"));
  TESSERA_ASSIGN(result.type_v, cache_type(wanted.type_v, "type_v"));
  TESSERA_ASSIGN(result.adapters, capi::read_adapters(wanted.adapters, wanted.adapter_scales, wanted.n_adapters));
  TESSERA_TRY(set_threads(model, wanted.n_threads, result));
  return result;
}

Result<> capi::write_parts(std::span<const MemoryPart> report, tessera_memory_part* parts, uint64_t room,
                           uint64_t* needed) {
  std::vector<tessera_memory_part> found;
  for (const MemoryPart& part : report) {
    tessera_memory_part& one = found.emplace_back();
    capi::copy_text(part.device, one.device);
    capi::copy_text(part.buffer, one.buffer);
    one.kind = part_kind_of(part.kind);
    one.n_bytes = part.bytes;
  }
  return capi::write_items(std::span<const tessera_memory_part>(found), parts, room, needed, "parts");
}

void tessera_session_options_init(tessera_session_options* options, size_t size) {
  capi::write_sized(options, size, kSessionDefaults);
}

tessera_status tessera_session_plan(tessera_model* model, const tessera_session_options* options,
                                    tessera_memory_part* parts, uint64_t room, uint64_t* needed, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(model, "model"));
    TESSERA_ASSIGN(const SessionOptions wanted, capi::session_options(*model, options));
    TESSERA_ASSIGN(const MemoryReport report, Session::plan(*model->engine, wanted));
    return capi::write_parts(report.parts, parts, room, needed);
  });
}

void tessera_fit_options_init(tessera_fit_options* options, size_t size) {
  capi::write_sized(options, size, kFitDefaults);
}

tessera_status tessera_model_plan(tessera_model* model, tessera_memory_part* parts, uint64_t room, uint64_t* needed,
                                  tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(model, "model"));
    return capi::write_parts(model->engine->planned_memory(), parts, room, needed);
  });
}

tessera_status tessera_model_fit(tessera_model* model, tessera_session_options* session,
                                 const tessera_fit_options* options, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(model, "model"));
    TESSERA_TRY(capi::require_pointer(session, "session"));
    if (model->is_loaded) return fail(ErrorCode::invalid_argument, "model: it is loaded, so nothing can move");
    TESSERA_ASSIGN(const SessionOptions asked, capi::session_options(*model, session));
    TESSERA_ASSIGN(const FitOptions wanted, fit_options(options));
    TESSERA_ASSIGN(auto given, capi::read_sized(session, kSessionDefaults, "session"));
    TESSERA_ASSIGN(const Fitted fitted, fit_both(*model, asked, wanted));
    given.n_ctx = fitted.session.n_ctx;
    given.n_ubatch = fitted.session.n_ubatch;
    given.type_k = number_of(fitted.session.type_k);
    given.type_v = number_of(fitted.session.type_v);
    capi::write_sized(session, session->size, given);
    if (!fitted.choice.empty()) model->runtime->log(TESSERA_LOG_INFO, fitted.choice);
    return {};
  });
}
