// The interface between graphs and hardware. A Registry holds Devices. A Device has BufferTypes and creates Backends.
// A Backend is a stream of work: it compiles a graph bound to memory once and runs it many times.
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
#include "tessera/backend/streamed_weights.h"
#include "tessera/base/cancel.h"
#include "tessera/base/thread_pool.h"
#include "tessera/graph/node.h"

namespace tessera {

enum class DeviceKind : uint8_t { cpu, gpu, accelerator };

struct DeviceMemory {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
};

/// The operands of multiply-adds.
enum class Arithmetic : uint8_t { f32, int16, int8 };
std::string_view to_string(Arithmetic arithmetic);

/// Peak rates of a device, measured on request in short loops: upper bounds for comparing speeds.
struct DevicePeaks {
  double int8_gmacs = 0;  // 10^9 multiply-adds per second
  double f32_gmacs = 0;
  double int16_gmacs = 0;  // operands of 16 bits: integers on a CPU, floats on a GPU; 0: not measured
  double read_gbps = 0;    // 10^9 bytes per second, streaming

  double gmacs(Arithmetic arithmetic) const;
};

/// The time at which a node ran, in microseconds from the start of the run.
struct NodeTime {
  NodeId node = kNoNode;
  double begin_us = 0;
  double us = 0;
  // Parts of us, as far as the backend measures them, as means over its threads:
  double prepare_us = 0;  // for operands, e.g. to quantize activations
  double wait_us = 0;     // for the other threads to finish the node
};

/// A graph bound to memory and ready to run; created by Backend::compile.
class GraphPlan {
 public:
  virtual ~GraphPlan() = default;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const Device& device() const = 0;

  /// Bytes of scratch memory that running this graph needs besides its values. Tensor leaves need a buffer type, but no
  /// buffer. Errors: unsupported (a node this device cannot run).
  virtual Result<size_t> work_bytes(const Graph& graph) const = 0;

  /// Binds each node i of the graph to tensors[i], which has the node's dtype and layout, a buffer and an offset.
  /// `work` has work_bytes() bytes and is shared by all plans of this backend. The graph and the memory must outlive
  /// the plan. Errors: unsupported (a node this device cannot run), invalid_argument (a tensor without memory).
  virtual Result<std::unique_ptr<GraphPlan>> compile(const Graph& graph, std::span<const Tensor> tensors,
                                                     const BufferRange& work) = 0;

  /// Runs the whole plan without allocating memory. Errors: cancelled (outputs are undefined), invalid_argument (an id
  /// out of range in the data).
  virtual Result<> run(GraphPlan& plan, const CancelToken* cancel) = 0;

  /// Like run(), and returns when each node ran; fused nodes are reported under the first. Errors: those of run();
  /// unsupported (this backend cannot measure nodes).
  virtual Result<std::vector<NodeTime>> run_timed(GraphPlan& plan, const CancelToken* cancel);

  /// Thread affinity or priority that could not be applied, which is not fatal; "" if none.
  virtual std::string_view warning() const { return {}; }
};

/// Precision of activations in products with weights. The CPU multiplies F16 and BF16 weights in 16-bit integers unless
/// it is float32. F32 weights are always multiplied by floats.
enum class ActivationPrecision : uint8_t {
  automatic,  // the device's choice
  float32,
  // Products with quantized weights: int8 in groups of at most 32, 64 or 128 columns that share a scale.
  int8_32,
  int8_64,
  int8_128
};

/// The operands of a product with weights of this type on the CPU.
Arithmetic product_arithmetic(DType weights, ActivationPrecision activations);

struct BackendOptions {
  ThreadPoolOptions threads{};
  ActivationPrecision activations = ActivationPrecision::automatic;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string_view name() const = 0;  // "cpu"
  virtual std::string description() const = 0;
  virtual DeviceKind kind() const = 0;
  virtual DeviceMemory memory() const = 0;
  /// Identifies the hardware behind the device, which other devices may use by another interface; "": unknown.
  virtual std::string hardware_id() const { return {}; }
  /// Names and values for display: ("isa", "avx512"), ...
  virtual std::vector<std::pair<std::string, std::string>> properties() const = 0;

  /// Default memory: for values, caches and tables whose rows are looked up.
  virtual const BufferType& buffer_type() const = 0;
  /// All kinds of memory of this device, the default one first.
  virtual std::vector<const BufferType*> buffer_types() const { return {&buffer_type()}; }
  /// The memory in which a weight of this type and shape is fastest as an operand of op.
  virtual const BufferType& weight_buffer_type(Op op, DType dtype, const Shape& shape) const = 0;
  /// Memory for weights of experts that stay in their file; null if the device cannot stream weights.
  virtual const StreamedBufferType* streamed_buffer_type() const { return nullptr; }
  virtual bool can_use(const BufferType& type) const = 0;
  /// Whether this device can run a node of the graph. Operands in memory that it cannot use are treated as if they were
  /// in its default memory: the scheduler copies them there.
  virtual bool supports(const Graph& graph, NodeId node) const = 0;
  /// Whether a KV cache on this device may have this dtype; dim: elements of a head.
  virtual bool supports_kv(DType dtype, KvSide side, int64_t dim) const = 0;

  /// Creates a buffer over memory that the caller keeps alive and in place. Contents are unchanged; the buffer is
  /// read-only if the memory is. Errors: unsupported.
  virtual Result<std::unique_ptr<Buffer>> wrap_host(std::span<std::byte> memory) const = 0;

  virtual Result<std::unique_ptr<Backend>> create_backend(const BackendOptions& options) const = 0;
  virtual Result<DevicePeaks> measure_peaks(const BackendOptions& options) const = 0;
};

/// Checks that the device can run every node; called by backends before they compile. Errors: unsupported.
Result<> require_supported(const Device& device, const Graph& graph);
/// Checks the tensors of a graph's nodes. Errors: invalid_argument (the number of tensors differs from the number of
/// nodes; a tensor is not in memory that the device can use).
Result<> require_tensors(const Device& device, const Graph& graph, std::span<const Tensor> tensors);

/// The result of a search for devices.
struct FoundDevices {
  FoundDevices(std::vector<std::unique_ptr<Device>> found, std::vector<std::string> why_not = {})
      : devices(std::move(found)), notes(std::move(why_not)) {}

  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::string> notes;  // a line for each unused plugin, with the reason
};

/// The devices of this process, in order of preference. Filled by app/.
class Registry {
 public:
  void add(std::unique_ptr<Device> device) { devices_.push_back(std::move(device)); }
  /// Slow discovery, run once: on listing devices or on an unknown name. Its devices precede the registered ones.
  using Finder = std::function<FoundDevices()>;
  /// may_find_gpus: a quick check whether the discovery could find devices of kind gpu.
  void set_finder(Finder finder, std::function<bool()> may_find_gpus = {}) {
    finder_ = std::move(finder);
    may_find_gpus_ = std::move(may_find_gpus);
  }

  /// An opt-in device: find() creates it when its name is first asked for, and devices() never lists it.
  using Maker = std::function<Result<std::unique_ptr<Device>>()>;
  void add_named(std::string name, Maker make) { named_.push_back({std::move(name), std::move(make), nullptr}); }

  /// A name for several devices together, which find_all() takes. why_none: the error if there are no members.
  void add_group(std::string name, std::vector<std::string> members, std::string why_none = "");

  std::span<const std::unique_ptr<Device>> devices() const;
  /// Devices of kind gpu; of several for the same hardware, the first. Runs the discovery only if it could find some.
  std::vector<const Device*> gpus() const;
  /// Adds lines on devices that cannot be used.
  void add_notes(std::vector<std::string> notes);
  /// These lines, and those of the discovery, if it has run.
  std::vector<std::string> notes() const;
  /// Names of opt-in devices, available or not.
  std::vector<std::string> named() const;
  /// Returns a device by name. Errors: not_found, with a list of known names; errors of an opt-in device's maker.
  Result<const Device*> find(std::string_view name) const;
  /// Returns the devices of a group, or a device by name. Errors: not_found (a group without members); as find().
  Result<std::vector<const Device*>> find_all(std::string_view name) const;
  /// Returns a buffer type of any device in devices() by name. Errors: not_found, with a list of known names.
  Result<const BufferType*> find_buffer_type(std::string_view name) const;

 private:
  struct Named {
    std::string name;
    Maker make;
    std::unique_ptr<Device> device;
  };

  struct Group {
    std::string name;
    std::vector<std::string> members;
    std::string why_none;
  };

  mutable std::mutex mutex_;
  mutable Finder finder_;                // empty after it has run
  std::function<bool()> may_find_gpus_;  // empty: it always could
  mutable std::vector<std::unique_ptr<Device>> devices_;
  mutable std::vector<std::string> notes_;
  std::vector<Group> groups_;
  mutable std::vector<Named> named_;  // destroyed before devices_, to which opt-in devices may refer
};

}  // namespace tessera
