// tessera.h: the library, runtimes and cancel objects.
#include <fmt/format.h>

#include <algorithm>

#include "tessera/app/app.h"
#include "tessera/base/cpu_info.h"
#include "tessera/capi/boundary.h"
#include "tessera/capi/objects.h"

using namespace tessera;
using capi::guarded;
using capi::guarded_value;

namespace {

constexpr const char* kStatusNames[] = {"success",       "invalid argument", "not found",     "I/O error",
                                        "bad format",    "limit exceeded",   "unsupported",   "mismatch",
                                        "out of memory", "cancelled",        "internal error"};

const tessera_runtime_options kRuntimeDefaults = {};

int32_t kind_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return TESSERA_DEVICE_CPU;
    case DeviceKind::gpu:
      return TESSERA_DEVICE_GPU;
    case DeviceKind::accelerator:
      break;
  }
  return TESSERA_DEVICE_ACCELERATOR;
}

}  // namespace

void tessera_runtime::log(int32_t level, const std::string& text) {
  if (log_function == nullptr) return;
  const std::lock_guard lock(log_mutex);
  log_function(log_user, level, text.c_str());
}

uint32_t tessera_version(void) { return TESSERA_VERSION; }

const char* tessera_version_text(void) {
#define TESSERA_TEXT_OF(x) #x
#define TESSERA_VERSION_AS_TEXT(a, b, c) TESSERA_TEXT_OF(a) "." TESSERA_TEXT_OF(b) "." TESSERA_TEXT_OF(c)
  return TESSERA_VERSION_AS_TEXT(TESSERA_VERSION_MAJOR, TESSERA_VERSION_MINOR, TESSERA_VERSION_PATCH);
}

const char* tessera_build_info(void) { return "tessera " TESSERA_ENGINE_VERSION; }

const char* tessera_status_name(tessera_status status) {
  const bool is_known = status >= 0 && static_cast<size_t>(status) < std::size(kStatusNames);
  return is_known ? kStatusNames[status] : "unknown status";
}

void tessera_runtime_options_init(tessera_runtime_options* options, size_t size) {
  capi::write_sized(options, size, kRuntimeDefaults);
}

tessera_status tessera_runtime_create(const tessera_runtime_options* options, tessera_runtime** runtime,
                                      tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require_pointer(runtime, "runtime"));
    TESSERA_ASSIGN(const auto wanted, capi::read_sized(options, kRuntimeDefaults, "options"));
    if (wanted.n_threads < 0 || wanted.n_threads > ThreadPool::kMaxThreads)
      return fail(ErrorCode::invalid_argument, "n_threads: {}, want 0 to {}", wanted.n_threads,
                  ThreadPool::kMaxThreads);
    auto created = std::make_unique<tessera_runtime>();
    TESSERA_ASSIGN(created->registry, create_registry(wanted.isa == nullptr ? "" : wanted.isa));
    created->n_threads = wanted.n_threads == 0 ? default_thread_count() : wanted.n_threads;
    created->log_function = wanted.log;
    created->log_user = wanted.log_user;
    *runtime = created.release();
    return {};
  });
}

tessera_runtime* tessera_runtime_retain(tessera_runtime* runtime) { return capi::retain(runtime); }
void tessera_runtime_release(tessera_runtime* runtime) { capi::release(runtime); }

int64_t tessera_runtime_device_count(tessera_runtime* runtime) {
  return guarded_value<int64_t>(
      0, [&]() -> int64_t { return capi::is_handle(runtime) ? std::ssize(runtime->registry->devices()) : 0; });
}

tessera_status tessera_runtime_device_info(tessera_runtime* runtime, int64_t index, tessera_device_info* info,
                                           tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(runtime, "runtime"));
    TESSERA_TRY(capi::require_pointer(info, "info"));
    TESSERA_TRY(capi::require_size(info->size, "info"));
    const auto devices = runtime->registry->devices();
    if (index < 0 || index >= std::ssize(devices))
      return fail(ErrorCode::invalid_argument, "index: {}, there are {} devices", index, devices.size());
    const Device& device = *devices[static_cast<size_t>(index)];
    const DeviceMemory memory = device.memory();
    tessera_device_info found{};
    found.kind = kind_of(device.kind());
    capi::copy_text(device.name(), found.name);
    capi::copy_text(device.description(), found.description);
    found.total_bytes = memory.total_bytes;
    found.free_bytes = memory.free_bytes;
    capi::write_sized(info, info->size, found);
    return {};
  });
}

tessera_status tessera_cancel_create(tessera_cancel** cancel, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require_pointer(cancel, "cancel"));
    *cancel = std::make_unique<tessera_cancel>().release();
    return {};
  });
}

void tessera_cancel_set(tessera_cancel* cancel) {
  if (cancel != nullptr) cancel->token.cancel();
}
int32_t tessera_cancel_is_set(const tessera_cancel* cancel) {
  return cancel != nullptr && cancel->token.cancelled() ? 1 : 0;
}
void tessera_cancel_reset(tessera_cancel* cancel) {
  if (cancel != nullptr) cancel->token.reset();
}
tessera_cancel* tessera_cancel_retain(tessera_cancel* cancel) { return capi::retain(cancel); }
void tessera_cancel_release(tessera_cancel* cancel) { capi::release(cancel); }
