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

/// When a node of a graph ran, from the begin of the run on.
struct NodeTime {
  NodeId node = kNoNode;
  double begin_us = 0;
  double us = 0;
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
  /// which holds work_bytes() bytes and is shared by all plans of this backend. The graph and the memory must outlive
  /// the plan. Errors: unsupported (a node this device cannot run), invalid_argument (a place without memory).
  virtual Result<std::unique_ptr<GraphPlan>> compile(const Graph& graph, std::span<const Tensor> places,
                                                     const BufferRange& work) = 0;

  /// Runs to the end. Never allocates. Errors: cancelled (outputs are undefined), invalid_argument (an id out of
  /// range in the data).
  virtual Result<> run(GraphPlan& plan, const CancelToken* cancel) = 0;

  /// Like run(), and returns when each node ran; fused nodes are reported under the first. Errors: those of run();
  /// unsupported (this backend cannot measure nodes).
  virtual Result<std::vector<NodeTime>> run_timed(GraphPlan& plan, const CancelToken* cancel);

  /// Thread affinity or priority that could not be applied, which is not fatal; "" if none.
  virtual std::string_view warning() const { return {}; }
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
  /// Every kind of memory of this device, the plain one first.
  virtual std::vector<const BufferType*> buffer_types() const { return {&buffer_type()}; }
  /// The memory in which a weight of this type and shape is fastest as an operand of op.
  virtual const BufferType& weight_buffer_type(Op op, DType dtype, const Shape& shape) const = 0;
  virtual bool can_use(const BufferType& type) const = 0;
  /// Whether this device can run a node of the graph. Operands in memory that it cannot use are judged as if they lay
  /// in its plain memory: whoever runs the graph brings them there.
  virtual bool supports(const Graph& graph, NodeId node) const = 0;
  /// The dtypes that a KV cache may have here.
  virtual bool supports_kv(DType dtype, KvSide side, int64_t dim) const = 0;

  /// A buffer over memory that the caller keeps alive and unmoved; contents are as they are (read-only if the
  /// memory is). Errors: unsupported.
  virtual Result<std::unique_ptr<Buffer>> wrap_host(std::span<std::byte> memory) const = 0;

  virtual Result<std::unique_ptr<Backend>> create_backend(const BackendOptions& options) const = 0;
  virtual Result<DevicePeaks> measure_peaks(const BackendOptions& options) const = 0;
};

/// What backends check before they compile. Errors: unsupported (a node that the device cannot run).
Result<> want_supported(const Device& device, const Graph& graph);
/// Errors: invalid_argument (not one place for each node; a place that is not in memory of the device).
Result<> want_places(const Device& device, const Graph& graph, std::span<const Tensor> places);

/// What a search for devices found.
struct FoundDevices {
  FoundDevices(std::vector<std::unique_ptr<Device>> found, std::vector<std::string> why_not = {})
      : devices(std::move(found)), notes(std::move(why_not)) {}

  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::string> notes;  // a line for each plugin that is not used
};

/// The devices of this process, in order of preference; filled by app/.
class Registry {
 public:
  void add(std::unique_ptr<Device> device) { devices_.push_back(std::move(device)); }
  /// Slow discovery, run once: on listing devices or on an unknown name. Its devices precede the registered ones.
  using Finder = std::function<FoundDevices()>;
  /// may_find_gpus: a quick check whether the discovery could find devices of kind gpu.
  void set_finder(Finder finder, bool (*may_find_gpus)() = nullptr) {
    finder_ = std::move(finder);
    may_find_gpus_ = may_find_gpus;
  }

  /// An opt-in device: find() creates it when its name is first asked for, and devices() never lists it.
  using Maker = std::function<Result<std::unique_ptr<Device>>()>;
  void add_named(std::string name, Maker make) { named_.push_back({std::move(name), std::move(make), nullptr}); }

  std::span<const std::unique_ptr<Device>> devices() const;
  /// Devices of kind gpu. Runs the discovery only if it could find some.
  std::vector<const Device*> gpus() const;
  /// The notes of the discovery, if it has run.
  std::vector<std::string> notes() const;
  /// Names of opt-in devices, available or not.
  std::vector<std::string> named() const;
  /// Errors: not_found, listing the names there are; that of a named device's maker.
  Result<const Device*> find(std::string_view name) const;
  /// The memory of this name of any device among devices(). Errors: not_found, listing the names there are.
  Result<const BufferType*> find_buffer_type(std::string_view name) const;

 private:
  struct Named {
    std::string name;
    Maker make;
    std::unique_ptr<Device> device;
  };

  mutable std::mutex mutex_;
  mutable Finder finder_;  // none once it was asked
  bool (*may_find_gpus_)() = nullptr;
  mutable std::vector<std::unique_ptr<Device>> devices_;
  mutable std::vector<std::string> notes_;
  mutable std::vector<Named> named_;  // after what their devices may refer to
};

}  // namespace tessera
