// A device: its context, memory, kernels and limits. The other files of this folder use the driver through it.
#pragma once

#include <atomic>
#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/cuda/driver.h"
#include "tessera/cuda/kernel_image.h"
#include "tessera/cuda/kernels.h"

namespace tessera::cuda {

struct Options {
  std::string library = "libcuda.so.1";  // tests use an emulation
  std::vector<std::span<const std::byte>> images = kernel_images();
  std::shared_ptr<std::atomic<uint64_t>> max_bytes;  // limit for each device; may change at any time; null: no limit
  // Use no more than devices of this compute capability have (10 major + minor), for tests.
  int capability = std::numeric_limits<int>::max();
};

/// TESSERA_CUDA_MEMORY=BYTES limits each device's memory.
/// Errors: invalid_argument.
Result<Options> options_from_environment();

class Context;

/// Memory of the device, or memory of the host that the device can address too.
class Allocation {
 public:
  Allocation() = default;
  Allocation(Allocation&& other) noexcept;
  Allocation& operator=(Allocation&& other) noexcept;
  ~Allocation();

  uint64_t address() const { return address_; }
  size_t bytes() const { return bytes_; }
  /// Null if the host cannot address it.
  std::byte* mapped() const { return mapped_; }

 private:
  friend class Context;
  const Context* context_ = nullptr;
  uint64_t address_ = 0;
  size_t bytes_ = 0;
  std::byte* mapped_ = nullptr;
};

class Context {
 public:
  /// Opens device number `ordinal` of the driver. Errors: unsupported (older than compute capability 8.0; a program
  /// built without kernels), io, out_of_memory.
  static Result<std::unique_ptr<Context>> create(std::shared_ptr<const Driver> driver, int ordinal,
                                                 const Options& options);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context();

  const Driver& driver() const { return *driver_; }
  const std::string& name() const { return name_; }
  const std::string& uuid() const { return uuid_; }
  int capability() const { return capability_; }  // 10 major + minor
  int n_multiprocessors() const { return n_multiprocessors_; }
  int l2_bytes() const { return l2_bytes_; }
  /// The largest dynamic shared memory of a block, in bytes.
  int most_shared() const { return most_shared_; }
  /// Whether kernels may start while the one before them ends (programmatic dependent launch).
  bool launches_early() const { return used_capability_ >= 90; }
  /// Whether the kernels of matmul_wide.cu run on this device.
  bool has_wide() const { return used_capability_ == 90; }
  uint64_t total_bytes() const;
  uint64_t free_bytes() const;

  /// Makes the context current in this thread; before any other call of the driver.
  Result<> enter() const;

  /// Allocates uninitialized device memory. Errors: out_of_memory.
  Result<Allocation> allocate(size_t bytes) const;
  /// Allocates zeroed memory of the host that the device can address. Errors: out_of_memory.
  Result<Allocation> allocate_host(size_t bytes) const;

  // Transfers may be called from any thread. A small write may return before it is complete: later transfers see it,
  // and kernels of streams for which await_writes() was called.
  Result<> write(uint64_t to, std::span<const std::byte> from) const;
  Result<> read(uint64_t from, std::span<std::byte> to) const;
  Result<> copy(uint64_t from, uint64_t to, size_t bytes) const;
  Result<> fill(uint64_t to, std::byte value, size_t bytes) const;

  /// Lets the stream's next commands come after the writes so far. n_seen: how many of the sent ones it knows; starts
  /// at 0.
  Result<> await_writes(CuStream stream, uint64_t& n_seen) const;

  /// Returns a kernel by name. Errors: unsupported (there is none of that name).
  Result<CuFunction> kernel(const std::string& name, uint32_t shared_bytes) const;

 private:
  friend class Allocation;
  Context() = default;
  Result<> read_properties(int ordinal);
  Result<> load_kernels(std::span<const std::span<const std::byte>> images);
  Result<> send_pending(CuStream stream, uint64_t& n_seen) const;
  Result<> note_sent(CuStream stream, uint64_t& n_seen) const;
  Result<> begin_transfer() const;
  Result<> finish_transfer() const;
  void finish_writes() const;

  std::shared_ptr<const Driver> driver_;
  CuDevice device_ = 0;
  CuContext context_ = nullptr;
  std::vector<CuModule> modules_;
  CuStream transfers_ = nullptr;
  CuFunction writes_kernel_ = nullptr;
  CuEvent sent_ = nullptr;  // after the writes that were sent last, in the stream that sent them
  Allocation staging_;      // in the host's memory: the bytes of transfers
  std::string name_, uuid_;
  int capability_ = 0, n_multiprocessors_ = 0, l2_bytes_ = 0, most_shared_ = 0;
  int used_capability_ = 0;  // capability_, or less by Options::capability
  uint64_t all_bytes_ = 0;
  std::shared_ptr<std::atomic<uint64_t>> max_bytes_;
  mutable std::atomic<uint64_t> taken_bytes_{0};
  mutable std::mutex mutex_;  // of the stream of transfers, staging_, and the members below
  mutable size_t staged_bytes_ = 0;
  // Writes that the next command sends. Each stream waits for those that other streams have sent.
  mutable Writes pending_{};
  mutable uint64_t n_sent_ = 0, n_transfers_seen_ = 0;
  mutable std::map<std::string, std::pair<CuFunction, uint32_t>> kernels_;  // with their shared memory
};

}  // namespace tessera::cuda
