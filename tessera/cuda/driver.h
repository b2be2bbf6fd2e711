// The functions of NVIDIA's driver (libcuda.so.1) that tessera uses, looked up at run time, so the same binary runs
// with and without a driver. The declarations follow the driver's public binary interface, so building needs no CUDA
// toolkit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tessera/base/result.h"

namespace tessera::cuda {

using CuResult = int;
using CuDevice = int;
using CuPointer = unsigned long long;
using CuContext = struct CuContextObject*;
using CuModule = struct CuModuleObject*;
using CuFunction = struct CuFunctionObject*;
using CuStream = struct CuStreamObject*;
using CuEvent = struct CuEventObject*;
using CuGraph = struct CuGraphObject*;
using CuGraphExec = struct CuGraphExecObject*;

inline constexpr CuResult kCuSuccess = 0, kCuOutOfMemory = 2;

// Numbers of the driver's enumerations.
inline constexpr int kCuMultiprocessorCount = 16, kCuL2CacheSize = 38, kCuCapabilityMajor = 75, kCuCapabilityMinor = 76,
                     kCuMaxSharedPerBlock = 97;
inline constexpr int kCuMaxDynamicShared = 8;           // an attribute of functions
inline constexpr int kCuProgrammaticSerialization = 6;  // an attribute of launches
inline constexpr unsigned kCuHostPortable = 1, kCuHostMapped = 2;
inline constexpr unsigned kCuStreamNonBlocking = 1;
inline constexpr unsigned kCuEventDefault = 0, kCuEventWithoutTime = 2;
inline constexpr int kCuCaptureThreadLocal = 1;

struct CuLaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    int flag;
  } value;
};

struct CuLaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  CuStream stream;
  CuLaunchAttribute* attributes;
  unsigned n_attributes;
};

// X(member, exported name, parameters)
#define TESSERA_CUDA_FUNCTIONS(X)                                                                                    \
  X(init, "cuInit", (unsigned flags))                                                                                \
  X(driver_version, "cuDriverGetVersion", (int* version))                                                            \
  X(error_name, "cuGetErrorName", (CuResult result, const char** name))                                              \
  X(device_count, "cuDeviceGetCount", (int* n))                                                                      \
  X(device_get, "cuDeviceGet", (CuDevice * device, int ordinal))                                                     \
  X(device_name, "cuDeviceGetName", (char* name, int bytes, CuDevice device))                                        \
  X(device_attribute, "cuDeviceGetAttribute", (int* value, int attribute, CuDevice device))                          \
  X(device_uuid, "cuDeviceGetUuid_v2", (unsigned char* uuid, CuDevice device))                                       \
  X(context_retain, "cuDevicePrimaryCtxRetain", (CuContext * context, CuDevice device))                              \
  X(context_release, "cuDevicePrimaryCtxRelease_v2", (CuDevice device))                                              \
  X(context_set, "cuCtxSetCurrent", (CuContext context))                                                             \
  X(memory_info, "cuMemGetInfo_v2", (size_t * free, size_t * total))                                                 \
  X(memory_allocate, "cuMemAlloc_v2", (CuPointer * address, size_t bytes))                                           \
  X(memory_free, "cuMemFree_v2", (CuPointer address))                                                                \
  X(host_allocate, "cuMemHostAlloc", (void** memory, size_t bytes, unsigned flags))                                  \
  X(host_free, "cuMemFreeHost", (void* memory))                                                                      \
  X(host_address, "cuMemHostGetDevicePointer_v2", (CuPointer * address, void* memory, unsigned flags))               \
  X(copy_to_device, "cuMemcpyHtoDAsync_v2", (CuPointer to, const void* from, size_t bytes, CuStream stream))         \
  X(copy_to_host, "cuMemcpyDtoHAsync_v2", (void* to, CuPointer from, size_t bytes, CuStream stream))                 \
  X(copy_on_device, "cuMemcpyDtoDAsync_v2", (CuPointer to, CuPointer from, size_t bytes, CuStream stream))           \
  X(fill, "cuMemsetD8Async", (CuPointer to, unsigned char value, size_t bytes, CuStream stream))                     \
  X(stream_create, "cuStreamCreate", (CuStream * stream, unsigned flags))                                            \
  X(stream_destroy, "cuStreamDestroy_v2", (CuStream stream))                                                         \
  X(stream_wait, "cuStreamSynchronize", (CuStream stream))                                                           \
  X(capture_begin, "cuStreamBeginCapture_v2", (CuStream stream, int mode))                                           \
  X(capture_end, "cuStreamEndCapture", (CuStream stream, CuGraph * graph))                                           \
  X(graph_instantiate, "cuGraphInstantiateWithFlags", (CuGraphExec * exec, CuGraph graph, unsigned long long flags)) \
  X(graph_launch, "cuGraphLaunch", (CuGraphExec exec, CuStream stream))                                              \
  X(graph_exec_destroy, "cuGraphExecDestroy", (CuGraphExec exec))                                                    \
  X(graph_destroy, "cuGraphDestroy", (CuGraph graph))                                                                \
  X(event_create, "cuEventCreate", (CuEvent * event, unsigned flags))                                                \
  X(event_destroy, "cuEventDestroy_v2", (CuEvent event))                                                             \
  X(event_record, "cuEventRecord", (CuEvent event, CuStream stream))                                                 \
  X(event_elapsed, "cuEventElapsedTime", (float* ms, CuEvent begin, CuEvent end))                                    \
  X(stream_wait_event, "cuStreamWaitEvent", (CuStream stream, CuEvent event, unsigned flags))                        \
  X(module_load, "cuModuleLoadData", (CuModule * module, const void* image))                                         \
  X(module_unload, "cuModuleUnload", (CuModule module))                                                              \
  X(module_function, "cuModuleGetFunction", (CuFunction * function, CuModule module, const char* name))              \
  X(function_set, "cuFuncSetAttribute", (CuFunction function, int attribute, int value))                             \
  X(launch, "cuLaunchKernelEx", (const CuLaunchConfig* config, CuFunction function, void** parameters, void** extra))

class Driver {
 public:
  /// Opens a library with the driver's functions and initializes it. Errors: not_found (no such library, a function
  /// that it lacks, no device).
  static Result<std::shared_ptr<const Driver>> open(const std::string& library);
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  ~Driver();

  /// The version of the driver's interface, 1000 major + 10 minor.
  int version() const { return version_; }
  /// Converts the result of a call to an error unless it succeeded: out_of_memory, or io with the driver's name of the
  /// error ("cuMemAlloc: CUDA_ERROR_...").
  Result<> check(CuResult result, const char* call) const;

#define TESSERA_CUDA_MEMBER(member, name, parameters) CuResult(*member) parameters = nullptr;
  TESSERA_CUDA_FUNCTIONS(TESSERA_CUDA_MEMBER)
#undef TESSERA_CUDA_MEMBER

 private:
  Driver() = default;

  void* library_ = nullptr;
  int version_ = 0;
};

/// Calls a function of the driver and returns its error from the calling function.
#define TESSERA_CUDA(driver, member, ...) TESSERA_TRY((driver).check((driver).member(__VA_ARGS__), #member))

}  // namespace tessera::cuda
