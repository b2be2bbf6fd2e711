#include "tessera/cuda/driver.h"

#include <dlfcn.h>

namespace tessera::cuda {

Result<std::shared_ptr<const Driver>> Driver::open(const std::string& library) {
  const std::shared_ptr<Driver> driver(new Driver);
  driver->library_ = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (driver->library_ == nullptr) return fail(ErrorCode::not_found, "no CUDA driver ({})", library);
#define TESSERA_CUDA_FIND(member, name, parameters)                                           \
  driver->member = reinterpret_cast<CuResult(*) parameters>(::dlsym(driver->library_, name)); \
  if (driver->member == nullptr) return fail(ErrorCode::not_found, "{}: no function {}", library, name);
  TESSERA_CUDA_FUNCTIONS(TESSERA_CUDA_FIND)
#undef TESSERA_CUDA_FIND
  if (const CuResult result = driver->init(0); result != kCuSuccess)
    return fail(ErrorCode::not_found, "{}", driver->check(result, "cuInit").error().message());
  TESSERA_CUDA(*driver, driver_version, &driver->version_);
  return driver;
}

// The library stays loaded: drivers keep threads and handlers for the end of the process.
Driver::~Driver() = default;

Result<> Driver::check(CuResult result, const char* call) const {
  if (result == kCuSuccess) return {};
  const char* name = nullptr;
  if (error_name(result, &name) != kCuSuccess || name == nullptr) name = "unknown error";
  return fail(result == kCuOutOfMemory ? ErrorCode::out_of_memory : ErrorCode::io, "CUDA {}: {} ({})", call, name,
              result);
}

}  // namespace tessera::cuda
