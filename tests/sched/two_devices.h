// Two CPU devices with separate memory, and a device that supports only some operations. Used by the tests of sched.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/graph/op_info.h"
#include "tests/support/graph_runner.h"

namespace tessera::testing {

/// A CPU device with another name, which runs only the operations in `takes`, in the memory of the other device.
class SomeOpsDevice final : public Device {
 public:
  SomeOpsDevice(std::string name, const Device& cpu, std::function<bool(const Node&)> takes)
      : name_(std::move(name)), cpu_(cpu), takes_(std::move(takes)) {}

  std::string_view name() const override { return name_; }
  std::string description() const override { return "some operations of " + cpu_.description(); }
  DeviceKind kind() const override { return DeviceKind::accelerator; }
  DeviceMemory memory() const override { return cpu_.memory(); }
  std::vector<std::pair<std::string, std::string>> properties() const override { return {}; }
  const BufferType& buffer_type() const override { return cpu_.buffer_type(); }
  const BufferType& weight_buffer_type(Op, DType, const Shape&) const override { return cpu_.buffer_type(); }
  bool can_use(const BufferType& type) const override { return cpu_.can_use(type); }
  bool supports(const Graph& graph, NodeId node) const override {
    return takes_(graph[node]) && cpu_.supports(graph, node);
  }
  bool supports_kv(DType dtype, KvSide side, int64_t dim) const override { return cpu_.supports_kv(dtype, side, dim); }
  Result<std::unique_ptr<Buffer>> wrap_host(std::span<std::byte> memory) const override {
    return cpu_.wrap_host(memory);
  }
  Result<std::unique_ptr<Backend>> create_backend(const BackendOptions& options) const override {
    return cpu_.create_backend(options);
  }
  Result<DevicePeaks> measure_peaks(const BackendOptions& options) const override {
    return cpu_.measure_peaks(options);
  }

 private:
  std::string name_;
  const Device& cpu_;
  std::function<bool(const Node&)> takes_;
};

/// Runs graphs on two CPU devices that cannot use each other's memory.
class TwoDevices {
 public:
  explicit TwoDevices(int n_threads = 1)
      : devices_{cpu::create_device("").value(), cpu::create_device("").value()},
        backends_{devices_[0]->create_backend({.threads = {.n_threads = n_threads}}).value(),
                  devices_[1]->create_backend({.threads = {.n_threads = n_threads}}).value()} {}

  const Device& device(size_t i) const { return *devices_[i]; }
  std::vector<const Device*> devices() const { return {devices_[0].get(), devices_[1].get()}; }
  Backend& backend(size_t i) const { return *backends_[i]; }
  Executor executor(ScheduleOptions options = {}, size_t n_pipeline_slots = 1) const {
    return Executor({backends_[0].get(), backends_[1].get()}, std::move(options), n_pipeline_slots);
  }

 private:
  std::unique_ptr<Device> devices_[2];
  std::unique_ptr<Backend> backends_[2];
};

/// A backend that calls a hook before each run. Its device is its own or a given one.
class HookedBackend final : public Backend {
 public:
  HookedBackend(Backend& inner, std::function<void()> before_run, const Device* device = nullptr)
      : inner_(inner), before_run_(std::move(before_run)), device_(device) {}

  const Device& device() const override { return device_ != nullptr ? *device_ : inner_.device(); }
  Result<size_t> work_bytes(const Graph& graph) const override { return inner_.work_bytes(graph); }
  Result<std::unique_ptr<GraphPlan>> compile(const Graph& graph, std::span<const Tensor> tensors,
                                             const BufferRange& work) override {
    return inner_.compile(graph, tensors, work);
  }
  Result<> run(GraphPlan& plan, const CancelToken* cancel) override {
    before_run_();
    return inner_.run(plan, cancel);
  }

 private:
  Backend& inner_;
  std::function<void()> before_run_;
  const Device* device_;
};

/// "a:rms_norm,mul_mat | b:copy,mul_mat": the operations of each slice, by device.
inline std::string slices_of(const Schedule& schedule) {
  std::string text;
  for (const Slice& slice : schedule.slices) {
    if (!text.empty()) text += " | ";
    text += slice.device == 0 ? "a:" : slice.device == 1 ? "b:" : "c:";
    bool is_first = true;
    for (NodeId id = slice.begin; id < slice.end; ++id) {
      const Node& node = schedule.graph[id];
      if (!node.is_work()) continue;
      if (!std::exchange(is_first, false)) text += ",";
      text += info(node.op).name;
      if (node.op == Op::copy) text += " " + node.name;
    }
  }
  return text;
}

/// Fills all inputs, runs, and reads all outputs by name.
inline Result<NamedBytes> run_with(Executor& executor, PreparedGraph& prepared, const NamedBytes& inputs,
                                   const NodeObserver& observe = {}) {
  TESSERA_TRY(set_inputs(prepared, inputs));
  TESSERA_TRY(executor.run(prepared, {.observe = observe}));
  return outputs_of(prepared);
}

/// Likewise for a graph that runs once.
inline Result<NamedBytes> run_once(Executor&& executor, Graph graph, const NamedBytes& inputs) {
  TESSERA_TRY(executor.reserve({&graph, 1}));
  TESSERA_ASSIGN(const auto prepared, executor.prepare(std::move(graph)));
  return run_with(executor, *prepared, inputs);
}

}  // namespace tessera::testing
