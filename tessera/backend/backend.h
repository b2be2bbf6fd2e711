// The contract between graphs and hardware. A Registry holds Devices; a Device has BufferTypes and opens Backends;
// a Backend is a stream of work: it compiles a placed graph once and runs it many times.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/backend/buffer.h"
#include "tessera/base/cancel.h"
#include "tessera/base/thread_pool.h"
#include "tessera/graph/node.h"

namespace tessera {

enum class DeviceKind : uint8_t { cpu, gpu, accelerator };

struct DeviceMemory {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
};

/// What the device reached in short loops, measured when asked for: the bounds that speeds are compared with.
struct DevicePeaks {
  double int8_gmacs = 0;  // 10^9 multiply-adds per second
  double f32_gmacs = 0;
  double bf16_gmacs = 0;  // products of bf16 summed in f32; 0 where the device has no instruction for them
  double read_gbps = 0;   // 10^9 bytes per second, streaming
};

/// A graph bound to memory and ready to run; made by Backend::compile.
class GraphPlan {
 public:
  virtual ~GraphPlan() = default;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const Device& device() const = 0;

  /// Bytes of scratch memory that running this graph takes besides its values. Tensor leaves need a
  /// buffer type, no buffer. Errors: unsupported (a node this device cannot run).
  virtual Result<size_t> work_bytes(const Graph& graph) const = 0;

  /// Binds each node i of the graph to places[i] (dtype and layout as the node's, a buffer and an offset) and work,
  /// which holds work_bytes() bytes. The graph and the memory must outlive the plan.
  /// Errors: unsupported (a node this device cannot run), invalid_argument (a place without memory).
  virtual Result<std::unique_ptr<GraphPlan>> compile(const Graph& graph, std::span<const Tensor> places,
                                                     std::span<std::byte> work) = 0;

  /// Runs to the end. Never allocates. Errors: cancelled (outputs are undefined), invalid_argument (an id out of
  /// range in the data).
  virtual Result<> run(GraphPlan& plan, const CancelToken* cancel) = 0;

  /// Transfers in stream order; devices without asynchronous copies do them at once.
  virtual Result<> set_async(const Tensor& tensor, size_t offset, std::span<const std::byte> bytes) {
    return tensor.buffer->set(tensor, offset, bytes);
  }
  virtual Result<> get_async(const Tensor& tensor, size_t offset, std::span<std::byte> bytes) {
    return tensor.buffer->get(tensor, offset, bytes);
  }
  /// What of the threads' placement or priority could not be had (the backend works without); "" if nothing.
  virtual std::string_view warning() const { return {}; }

  /// Waits until all that was asked for is done.
  virtual Result<> synchronize() { return {}; }
};

/// What products with quantized weights read: x as floats, or x quantized to int8 in groups of at most so many columns
/// that share a scale. Weights in floats are always multiplied by floats.
enum class Activations : uint8_t { automatic, float32, int8_32, int8_64, int8_128 };  // automatic: the device's choice

struct BackendOptions {
  ThreadPoolOptions threads{};
  Activations activations = Activations::automatic;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string_view name() const = 0;  // "cpu"
  virtual std::string description() const = 0;
  virtual DeviceKind kind() const = 0;
  virtual DeviceMemory memory() const = 0;
  /// Facts worth printing: ("isa", "avx512"), ...
  virtual std::vector<std::pair<std::string, std::string>> properties() const = 0;

  /// Plain memory: values, caches, rows that are looked up.
  virtual const BufferType& buffer_type() const = 0;
  /// The memory in which a weight of this type and shape is fastest as an operand of op.
  virtual const BufferType& weight_buffer_type(Op op, DType dtype, const Shape& shape) const = 0;
  virtual bool can_use(const BufferType& type) const = 0;
  /// Whether this device can run a node of the graph.
  virtual bool supports(const Graph& graph, NodeId node) const = 0;
  /// The dtypes that a KV cache may have here.
  virtual bool supports_kv(DType dtype, KvSide side, int64_t dim) const = 0;

  /// A buffer over memory that the caller keeps alive and unmoved; contents are as they are (read-only if the
  /// memory is). Errors: unsupported.
  virtual Result<std::unique_ptr<Buffer>> wrap_host(std::span<std::byte> memory) const = 0;

  virtual Result<std::unique_ptr<Backend>> create_backend(const BackendOptions& options) const = 0;
  virtual Result<DevicePeaks> measure_peaks(const BackendOptions& options) const = 0;
};

/// The devices of this process, in order of preference; filled by app/.
class Registry {
 public:
  void add(std::unique_ptr<Device> device) { devices_.push_back(std::move(device)); }
  /// Devices that take a while to find and come before those that were added: looked for once, when devices are listed
  /// or a name is asked for that none of those has.
  using Finder = std::function<std::vector<std::unique_ptr<Device>>()>;
  void set_finder(Finder finder) { finder_ = std::move(finder); }

  std::span<const std::unique_ptr<Device>> devices() const;
  /// Errors: not_found, listing the names there are.
  Result<const Device*> find(std::string_view name) const;

 private:
  mutable std::mutex mutex_;
  mutable Finder finder_;  // none once it was asked
  mutable std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace tessera
