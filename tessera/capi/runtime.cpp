// tessera.h: runtimes and their devices.
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "tessera/app/app.h"
#include "tessera/base/cpu_info.h"
#include "tessera/capi/boundary.h"
#include "tessera/capi/call_support.h"
#include "tessera/capi/objects.h"

using namespace tessera;
using capi::guarded;
using capi::guarded_value;

namespace {

constexpr tessera_runtime_options kRuntimeDefaults = {};
constexpr Priority kPriorities[] = {Priority::normal, Priority::low, Priority::medium, Priority::high,
                                    Priority::realtime};

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

Result<ThreadPoolOptions> thread_options(const tessera_runtime_options& wanted) {
  if (wanted.n_threads < 0 || wanted.n_threads > ThreadPool::kMaxThreads)
    return fail(ErrorCode::invalid_argument, "n_threads: {}, want 0 to {}", wanted.n_threads, ThreadPool::kMaxThreads);
  if (wanted.thread_priority < 0 || wanted.thread_priority >= std::ssize(kPriorities))
    return fail(ErrorCode::invalid_argument, "thread_priority: {}, want a TESSERA_PRIORITY_, 0 to {}",
                wanted.thread_priority, std::size(kPriorities) - 1);
  ThreadPoolOptions options;
  options.n_threads = wanted.n_threads == 0 ? default_thread_count() : wanted.n_threads;
  options.priority = kPriorities[wanted.thread_priority];
  if ((wanted.flags & TESSERA_RUNTIME_PIN_THREADS) != 0) options.affinity = Affinity::strict;
  if (wanted.thread_cpus != nullptr) {
    auto cpus = CpuMask::from_list(wanted.thread_cpus);
    if (!cpus) return forward_error(cpus, "thread_cpus");
    options.cpus = *cpus;
  }
  return options;
}

int32_t use_of(BufferUsage usage) {
  switch (usage) {
    case BufferUsage::weights:
      return TESSERA_MEMORY_WEIGHTS;
    case BufferUsage::cache:
      return TESSERA_MEMORY_CACHE;
    case BufferUsage::compute:
      return TESSERA_MEMORY_COMPUTE;
    case BufferUsage::any:
      break;
  }
  return TESSERA_MEMORY_OTHER;
}

Result<HostAllocator> allocator_of(const tessera_runtime_options& wanted) {
  if ((wanted.allocate == nullptr) != (wanted.free == nullptr))
    return fail(ErrorCode::invalid_argument, "allocate, free: one of them is NULL, want both or none");
  if (wanted.allocate == nullptr) return HostAllocator();
  return HostAllocator{
      .allocate = [allocate = wanted.allocate, user = wanted.memory_user](
                      size_t bytes, size_t alignment,
                      BufferUsage usage) { return allocate(user, bytes, alignment, use_of(usage)); },
      .free = [free = wanted.free, user = wanted.memory_user](
                  void* memory, size_t bytes, BufferUsage usage) { free(user, memory, bytes, use_of(usage)); }};
}

Result<RegistryOptions> registry_options(const tessera_runtime_options& wanted) {
  TESSERA_TRY(capi::require_flags(wanted.flags, TESSERA_RUNTIME_PIN_THREADS | TESSERA_RUNTIME_USE_ENVIRONMENT));
  RegistryOptions options;
  options.isa = capi::text_or_empty(wanted.isa);
  options.plugins = capi::split_names(capi::text_or_empty(wanted.plugins), ':');
  options.use_environment = (wanted.flags & TESSERA_RUNTIME_USE_ENVIRONMENT) != 0;
  TESSERA_ASSIGN(options.allocator, allocator_of(wanted));
  return options;
}

}  // namespace

Result<ThreadPool*> tessera_runtime::threads() {
  const std::lock_guard lock(pool_mutex);
  if (pool == nullptr) {
    TESSERA_ASSIGN(pool, ThreadPool::create(thread_options));
  }
  return pool.get();
}

void tessera_runtime::log(int32_t level, const std::string& text) {
  if (log_function == nullptr) return;
  const std::lock_guard lock(log_mutex);
  log_function(log_user, level, text.c_str());
}

void tessera_runtime_options_init(tessera_runtime_options* options, size_t size) {
  capi::write_sized(options, size, kRuntimeDefaults);
}

tessera_status tessera_runtime_create(const tessera_runtime_options* options, tessera_runtime** runtime,
                                      tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require_pointer(runtime, "runtime"));
    TESSERA_ASSIGN(const auto wanted, capi::read_sized(options, kRuntimeDefaults, "options"));
    TESSERA_ASSIGN(const ThreadPoolOptions threads, thread_options(wanted));
    TESSERA_ASSIGN(RegistryOptions registry, registry_options(wanted));
    auto created = std::make_unique<tessera_runtime>(wanted.memory_budget);
    TESSERA_ASSIGN(created->registry, create_registry(std::move(registry)));
    created->thread_options = threads;
    created->log_function = wanted.log;
    created->log_user = wanted.log_user;
    *runtime = created.release();
    return {};
  });
}

tessera_status tessera_runtime_find_devices(tessera_runtime* runtime, char* buffer, uint64_t room, uint64_t* needed,
                                            tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(runtime, "runtime"));
    runtime->registry->devices();
    return capi::write_text(fmt::format("{}", fmt::join(runtime->registry->notes(), "\n")), buffer, room, needed);
  });
}

uint64_t tessera_runtime_memory(tessera_runtime* runtime) {
  return capi::is_handle(runtime) ? runtime->budget.used() : 0;
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
