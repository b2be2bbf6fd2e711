// A library with the functions of the CUDA driver that tessera uses, whose device is emulated on the CPU. Commands are
// executed when they are given; a captured stream keeps its launches for the graph.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "tessera/cuda/driver.h"
#include "tests/cuda/emulator/emulated.h"

namespace {

using namespace tessera::cuda;

constexpr size_t kMemoryBytes = size_t{1} << 30, kAlignment = 256, kMargin = 64;
using Time = std::chrono::steady_clock::time_point;
constexpr CuResult kInvalidValue = 1, kNotFound = 500;

struct Launch {
  emulated::KernelFunction kernel;
  std::vector<std::byte> params;
  uint32_t n_blocks, n_threads, shared_bytes;

  void run() const { emulated::launch(kernel, params.data(), n_blocks, n_threads, shared_bytes); }
};
struct Graph {
  std::vector<Launch> launches;
};
struct Stream {
  bool is_captured = false;
  Graph graph;
};
struct Function {
  emulated::Kernel kernel;
  int max_shared = 48 << 10;
};

struct Memory {
  std::mutex mutex;
  std::map<CuPointer, size_t> sizes;
  size_t taken = 0;
};
Memory& memory() {
  static Memory one;
  return one;
}

template <class To, class From>
To* as(From* handle) {
  return reinterpret_cast<To*>(handle);
}
void* pointer(CuPointer address) { return reinterpret_cast<void*>(address); }

}  // namespace

extern "C" {

CuResult cuInit(unsigned) { return kCuSuccess; }
CuResult cuDriverGetVersion(int* version) {
  *version = 13000;
  return kCuSuccess;
}
CuResult cuGetErrorName(CuResult result, const char** name) {
  *name = result == kCuOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_EMULATED";
  return kCuSuccess;
}
CuResult cuDeviceGetCount(int* n) {
  *n = 1;
  return kCuSuccess;
}
CuResult cuDeviceGet(CuDevice* device, int ordinal) {
  *device = ordinal;
  return kCuSuccess;
}
CuResult cuDeviceGetName(char* name, int bytes, CuDevice) {
  std::strncpy(name, "emulated", static_cast<size_t>(bytes));
  return kCuSuccess;
}
CuResult cuDeviceGetAttribute(int* value, int attribute, CuDevice) {
  *value = attribute == kCuCapabilityMajor ? 9 : attribute == kCuMaxSharedPerBlock ? 227 << 10 : 2;
  if (attribute == kCuCapabilityMinor) *value = 0;
  return kCuSuccess;
}
CuResult cuDeviceGetUuid_v2(unsigned char* uuid, CuDevice) {
  std::memset(uuid, 0xab, 16);
  return kCuSuccess;
}
CuResult cuDevicePrimaryCtxRetain(CuContext* context, CuDevice) {
  static int one;
  *context = as<CuContextObject>(&one);
  return kCuSuccess;
}
CuResult cuDevicePrimaryCtxRelease_v2(CuDevice) { return kCuSuccess; }
CuResult cuCtxSetCurrent(CuContext) { return kCuSuccess; }
CuResult cuMemGetInfo_v2(size_t* free, size_t* total) {
  const std::lock_guard lock(memory().mutex);
  *total = kMemoryBytes;
  *free = kMemoryBytes - memory().taken;
  return kCuSuccess;
}
CuResult cuMemAlloc_v2(CuPointer* address, size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  if (bytes > kMemoryBytes - memory().taken) return kCuOutOfMemory;
  void* at = ::operator new (bytes + kMargin, std::align_val_t{kAlignment}, std::nothrow);
  if (at == nullptr) return kCuOutOfMemory;
  *address = reinterpret_cast<CuPointer>(at);
  memory().sizes[*address] = bytes;
  memory().taken += bytes;
  return kCuSuccess;
}
CuResult cuMemFree_v2(CuPointer address) {
  const std::lock_guard lock(memory().mutex);
  const auto found = memory().sizes.find(address);
  if (found == memory().sizes.end()) return kInvalidValue;
  memory().taken -= found->second;
  memory().sizes.erase(found);
  ::operator delete (pointer(address), std::align_val_t{kAlignment});
  return kCuSuccess;
}
CuResult cuMemHostAlloc(void** at, size_t bytes, unsigned) {
  *at = std::malloc(bytes);
  return *at == nullptr ? kCuOutOfMemory : kCuSuccess;
}
CuResult cuMemFreeHost(void* at) {
  std::free(at);
  return kCuSuccess;
}
CuResult cuMemHostGetDevicePointer_v2(CuPointer* address, void* at, unsigned) {
  *address = reinterpret_cast<CuPointer>(at);
  return kCuSuccess;
}
CuResult cuMemcpyHtoDAsync_v2(CuPointer to, const void* from, size_t bytes, CuStream) {
  std::memcpy(pointer(to), from, bytes);
  return kCuSuccess;
}
CuResult cuMemcpyDtoHAsync_v2(void* to, CuPointer from, size_t bytes, CuStream) {
  std::memcpy(to, pointer(from), bytes);
  return kCuSuccess;
}
CuResult cuMemcpyDtoDAsync_v2(CuPointer to, CuPointer from, size_t bytes, CuStream) {
  std::memcpy(pointer(to), pointer(from), bytes);
  return kCuSuccess;
}
CuResult cuMemsetD8Async(CuPointer to, unsigned char value, size_t bytes, CuStream) {
  std::memset(pointer(to), value, bytes);
  return kCuSuccess;
}
CuResult cuStreamCreate(CuStream* stream, unsigned) {
  *stream = as<CuStreamObject>(new Stream);
  return kCuSuccess;
}
CuResult cuStreamDestroy_v2(CuStream stream) {
  delete as<Stream>(stream);
  return kCuSuccess;
}
CuResult cuStreamSynchronize(CuStream) { return kCuSuccess; }
CuResult cuStreamBeginCapture_v2(CuStream stream, int) {
  as<Stream>(stream)->is_captured = true;
  return kCuSuccess;
}
CuResult cuStreamEndCapture(CuStream stream, CuGraph* graph) {
  Stream& s = *as<Stream>(stream);
  s.is_captured = false;
  *graph = as<CuGraphObject>(new Graph(std::exchange(s.graph, {})));
  return kCuSuccess;
}
CuResult cuGraphInstantiateWithFlags(CuGraphExec* exec, CuGraph graph, unsigned long long) {
  *exec = as<CuGraphExecObject>(new Graph(*as<Graph>(graph)));
  return kCuSuccess;
}
CuResult cuGraphLaunch(CuGraphExec exec, CuStream) {
  for (const Launch& launch : as<Graph>(exec)->launches) launch.run();
  return kCuSuccess;
}
CuResult cuGraphExecDestroy(CuGraphExec exec) {
  delete as<Graph>(exec);
  return kCuSuccess;
}
CuResult cuGraphDestroy(CuGraph graph) {
  delete as<Graph>(graph);
  return kCuSuccess;
}
CuResult cuEventCreate(CuEvent* event, unsigned) {
  *event = as<CuEventObject>(new Time);
  return kCuSuccess;
}
CuResult cuEventDestroy_v2(CuEvent event) {
  delete as<Time>(event);
  return kCuSuccess;
}
CuResult cuEventRecord(CuEvent event, CuStream) {
  *as<Time>(event) = std::chrono::steady_clock::now();
  return kCuSuccess;
}
CuResult cuEventElapsedTime(float* ms, CuEvent begin, CuEvent end) {
  *ms = std::chrono::duration<float, std::milli>(*as<Time>(end) - *as<Time>(begin)).count();
  return kCuSuccess;
}
CuResult cuStreamWaitEvent(CuStream, CuEvent, unsigned) { return kCuSuccess; }
CuResult cuModuleLoadData(CuModule* module, const void*) {
  static int one;
  *module = as<CuModuleObject>(&one);
  return kCuSuccess;
}
CuResult cuModuleUnload(CuModule) { return kCuSuccess; }
CuResult cuModuleGetFunction(CuFunction* function, CuModule, const char* name) {
  static std::mutex mutex;
  static std::map<std::string, Function> functions;
  const std::lock_guard lock(mutex);
  auto found = functions.find(name);
  if (found == functions.end()) {
    const emulated::Kernel kernel = emulated::find_kernel(name);
    if (kernel.run == nullptr) return kNotFound;
    found = functions.emplace(name, Function{kernel}).first;
  }
  *function = as<CuFunctionObject>(&found->second);
  return kCuSuccess;
}
CuResult cuFuncSetAttribute(CuFunction function, int, int value) {
  int& most = as<Function>(function)->max_shared;  // of all modules with the kernel
  most = std::max(most, value);
  return kCuSuccess;
}
CuResult cuLaunchKernelEx(const CuLaunchConfig* config, CuFunction function, void** parameters, void**) {
  const Function& f = *as<Function>(function);
  const bool is_valid = config->grid[0] > 0 && config->block[0] > 0 && config->block[0] % 32 == 0 &&
                        config->block[0] <= 1024 && config->shared_bytes <= static_cast<unsigned>(f.max_shared) &&
                        config->shared_bytes <= 227u << 10;
  if (!is_valid) return kInvalidValue;
  const auto* params = static_cast<const std::byte*>(parameters[0]);
  const Launch launch{
      f.kernel.run, {params, params + f.kernel.params_bytes}, config->grid[0], config->block[0], config->shared_bytes};
  Stream& stream = *as<Stream>(config->stream);
  if (stream.is_captured)
    stream.graph.launches.push_back(launch);
  else
    launch.run();
  return kCuSuccess;
}

}  // extern "C"
