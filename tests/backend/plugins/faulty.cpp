// A plugin with one device that can add, and one fault, selected by the macro FAULT. It is built once for each fault.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "tessera/backend_plugin.h"

namespace {

enum class Fault {
  no_symbol,
  unresolved,
  no_table,
  other_major,
  short_table,
  no_function,
  bad_name,
  other_name,
  no_score,
  throws_score,
  device_fails,
  throws_device,
  bad_alignment,
  bad_kind,
  no_description,
  huge_buffers,
  too_many_devices,
  no_devices,
  no_buffer,
  throws_buffer,
  crooked_buffer,
  small_tensors,
  no_backend,
  huge_work,
  no_plan,
  run_fails,
  run_throws,
  long_text,
  fine,
  reserved,
  newer_minor,
};
constexpr Fault kFault = Fault::FAULT;

#define TESSERA_TEXT_INNER(name) #name
#define TESSERA_TEXT(name) TESSERA_TEXT_INNER(name)

constexpr uint64_t kAlignment = 64;

int32_t say(int32_t code, const char* why, char* text, size_t text_bytes) {
  std::snprintf(text, text_bytes, "%s", why);
  return code;
}

int32_t score() {
  if (kFault == Fault::throws_score) throw std::runtime_error("no score");
  return kFault == Fault::no_score ? 0 : 1;
}

uint32_t device_count() {
  if (kFault == Fault::too_many_devices) return 4'000'000'000u;
  return kFault == Fault::no_devices ? 0 : 1;
}

int32_t device_open(uint32_t, void** device, char* text, size_t text_bytes) {
  if (kFault == Fault::device_fails) return say(TESSERA_PLUGIN_IO, "the driver\nis asleep", text, text_bytes);
  if (kFault == Fault::throws_device) throw std::runtime_error("no device");
  if (kFault == Fault::long_text) {
    std::memset(text, 'a', text_bytes);  // without a terminating NUL
    return TESSERA_PLUGIN_LIMIT;
  }
  *device = nullptr;  // a plugin may need none
  return TESSERA_PLUGIN_OK;
}

void device_close(void*) {}

const tessera_plugin_device_info* device_info(void*) {
  static tessera_plugin_device_info info{};
  info.size = sizeof info;
  info.kind = kFault == Fault::bad_kind ? -7 : TESSERA_PLUGIN_ACCELERATOR;
  info.flags = TESSERA_PLUGIN_HOST_MEMORY;
  info.description = kFault == Fault::no_description ? nullptr : "a device\tof tests";
  info.alignment = kFault == Fault::bad_alignment ? 48 : kAlignment;
  info.max_buffer_bytes = kFault == Fault::huge_buffers ? UINT64_MAX : uint64_t{1} << 30;
  return &info;
}

void device_memory(void*, uint64_t* total_bytes, uint64_t* free_bytes) {
  *total_bytes = 1000;
  *free_bytes = 2000;  // more than the total
}

uint64_t tensor_bytes(void*, int32_t, const int64_t ne[4]) { return ne[0] == 13 ? 0 : 4; }

int32_t buffer_alloc(void*, uint64_t bytes, int32_t, void** buffer, char*, size_t) {
  if (kFault == Fault::no_buffer) return TESSERA_PLUGIN_OK;
  if (kFault == Fault::throws_buffer) throw std::runtime_error("no buffer");
  *buffer = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
  std::memset(*buffer, 0, bytes);
  return TESSERA_PLUGIN_OK;
}
void buffer_free(void*, void* buffer) { std::free(buffer); }
void* buffer_base(void*, void* buffer) {
  return static_cast<char*>(buffer) + (kFault == Fault::crooked_buffer ? 4 : 0);
}
int32_t buffer_set(void*, void* buffer, uint64_t offset, const void* bytes, uint64_t n, char*, size_t) {
  std::memcpy(static_cast<char*>(buffer) + offset, bytes, n);
  return TESSERA_PLUGIN_OK;
}
int32_t buffer_get(void*, void* buffer, uint64_t offset, void* bytes, uint64_t n, char*, size_t) {
  std::memcpy(bytes, static_cast<char*>(buffer) + offset, n);
  return TESSERA_PLUGIN_OK;
}
int32_t buffer_clear(void*, void*, uint8_t, char*, size_t) { return TESSERA_PLUGIN_OK; }

int32_t supports(void*, const tessera_plugin_node* node) { return std::strcmp(node->op, "add") == 0; }

int32_t backend_open(void*, const tessera_plugin_backend_options*, void** backend, char*, size_t) {
  static int one = 1;
  *backend = kFault == Fault::no_backend ? nullptr : &one;
  return TESSERA_PLUGIN_OK;
}
void backend_close(void*) {}

int32_t work_bytes(void*, const tessera_plugin_graph*, uint64_t* bytes, char*, size_t) {
  *bytes = kFault == Fault::huge_work ? UINT64_MAX - 1 : 0;
  return TESSERA_PLUGIN_OK;
}

// A plan is the graph's last node, whose operands are contiguous and have the same shape.
struct Plan {
  const float *a, *b;
  float* y;
  int64_t n;
};

int32_t compile(void*, const tessera_plugin_compile_args* args, void** plan, char*, size_t) {
  if (kFault == Fault::no_plan) return TESSERA_PLUGIN_OK;
  const tessera_plugin_node* node = args->graph->nodes[args->graph->n_nodes - 1];
  const auto at = [&](const tessera_plugin_node* of) { return static_cast<float*>(args->bindings[of->index].address); };
  *plan = new Plan{at(node->sources[0]), at(node->sources[1]), at(node), node->ne[0]};
  return TESSERA_PLUGIN_OK;
}
void plan_free(void*, void* plan) { delete static_cast<Plan*>(plan); }

int32_t run(void*, void* compiled, const tessera_plugin_run_args*, char*, size_t) {
  if (kFault == Fault::run_fails) return 42;
  if (kFault == Fault::run_throws) throw 1;
  const Plan& plan = *static_cast<const Plan*>(compiled);
  for (int64_t i = 0; i < plan.n; ++i) plan.y[i] = plan.a[i] + plan.b[i];
  return TESSERA_PLUGIN_OK;
}

const char* name() {
  if (kFault == Fault::bad_name) return "Bad Name";
  if (kFault == Fault::other_name) return "another";
  return TESSERA_TEXT(FAULT);
}

[[maybe_unused]] const tessera_plugin* table() {
  static tessera_plugin plugin{};
  plugin.size = kFault == Fault::short_table ? 64 : sizeof plugin;
  plugin.major = TESSERA_PLUGIN_MAJOR + (kFault == Fault::other_major ? 1 : 0);
  plugin.minor = TESSERA_PLUGIN_MINOR + (kFault == Fault::newer_minor ? 1 : 0);
  plugin.name = name();
  plugin.variant = "";
  plugin.version = "0";
  plugin.score = score;
  plugin.device_count = device_count;
  plugin.device_open = device_open;
  plugin.device_close = device_close;
  plugin.device_info = device_info;
  plugin.device_memory = device_memory;
  plugin.tensor_bytes = kFault == Fault::small_tensors ? tensor_bytes : nullptr;
  plugin.buffer_alloc = buffer_alloc;
  plugin.buffer_free = buffer_free;
  plugin.buffer_base = buffer_base;
  plugin.buffer_set = buffer_set;
  plugin.buffer_get = buffer_get;
  plugin.buffer_clear = buffer_clear;
  plugin.supports = supports;
  plugin.backend_open = backend_open;
  plugin.backend_close = backend_close;
  plugin.work_bytes = work_bytes;
  plugin.compile = compile;
  plugin.plan_free = plan_free;
  plugin.run = kFault == Fault::no_function ? nullptr : run;
  return kFault == Fault::no_table ? nullptr : &plugin;
}

}  // namespace

#if !defined(FAULT_no_symbol)
#if defined(FAULT_unresolved)
extern "C" void nobody_defines_this();
#endif
TESSERA_PLUGIN_EXPORT const tessera_plugin* tessera_backend_plugin() {
#if defined(FAULT_unresolved)
  nobody_defines_this();
#endif
  return table();
}
#endif
