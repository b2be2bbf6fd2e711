// A device with its own memory that computes on the CPU, to test several devices on any machine. Its memory is limited,
// and the set of its operations can be reduced.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/cpu/backend.h"

namespace tessera::testing {

class FakeDevice final : public Device {
 public:
  struct Options {
    std::string name = "fake:0";
    DeviceKind kind = DeviceKind::gpu;
    uint64_t limit_bytes = uint64_t{1} << 40;
    std::function<bool(const Graph&, NodeId)> lacks{};  // nodes that it does not support
    DType no_kv = DType::q8_k;                          // a type that its caches cannot have
    std::string hardware_id{};
    DevicePeaks peaks{};
  };
  explicit FakeDevice(Options options)
      : options_(std::move(options)), cpu_(cpu::create_device("").value()), memory_(*this) {}

  uint64_t used_bytes() const { return used_; }
  /// From now on, memory() reports this number of free bytes.
  void tell(uint64_t bytes) { told_bytes_ = bytes; }

  std::string_view name() const override { return options_.name; }
  std::string description() const override { return "a fake"; }
  DeviceKind kind() const override { return options_.kind; }
  std::string hardware_id() const override { return options_.hardware_id; }
  DeviceMemory memory() const override {
    if (told_bytes_) return {*told_bytes_, *told_bytes_};
    return {options_.limit_bytes, options_.limit_bytes - std::min(options_.limit_bytes, used_)};
  }
  std::vector<std::pair<std::string, std::string>> properties() const override { return {}; }
  const BufferType& buffer_type() const override { return memory_; }
  const BufferType& weight_buffer_type(Op, DType, const Shape&) const override { return memory_; }
  const StreamedBufferType* streamed_buffer_type() const override { return cpu_->streamed_buffer_type(); }
  bool can_use(const BufferType& type) const override { return &type == &memory_ || &type == streamed_buffer_type(); }
  bool supports(const Graph& graph, NodeId id) const override {
    return cpu_->supports(graph, id) && (!options_.lacks || !options_.lacks(graph, id));
  }
  bool supports_kv(DType dtype, KvSide side, int64_t dim) const override {
    return dtype != options_.no_kv && cpu_->supports_kv(dtype, side, dim);
  }
  Result<std::unique_ptr<Buffer>> wrap_host(std::span<std::byte>) const override {
    return fail(ErrorCode::unsupported, "{} has no use for the host's memory", options_.name);
  }
  Result<std::unique_ptr<Backend>> create_backend(const BackendOptions& options) const override {
    TESSERA_ASSIGN(auto inner, cpu_->create_backend(options));
    return std::make_unique<FakeBackend>(*this, std::move(inner));
  }
  Result<DevicePeaks> measure_peaks(const BackendOptions&) const override { return options_.peaks; }

 private:
  class FakeBackend final : public Backend {
   public:
    FakeBackend(const FakeDevice& device, std::unique_ptr<Backend> inner) : device_(device), inner_(std::move(inner)) {}
    const Device& device() const override { return device_; }
    Result<size_t> work_bytes(const Graph& graph) const override { return inner_->work_bytes(graph); }
    Result<std::unique_ptr<GraphPlan>> compile(const Graph& graph, std::span<const Tensor> tensors,
                                               const BufferRange& work) override {
      for (const Tensor& tensor : tensors)
        if (tensor.buffer == nullptr || !device_.can_use(tensor.buffer->type()))
          return fail(ErrorCode::invalid_argument, "{} is not in the memory of {}", tensor.name, device_.name());
      return inner_->compile(graph, tensors, work);
    }
    Result<> run(GraphPlan& plan, const CancelToken* cancel) override { return inner_->run(plan, cancel); }

   private:
    const FakeDevice& device_;
    std::unique_ptr<Backend> inner_;
  };

  class FakeBuffer final : public Buffer {
   public:
    FakeBuffer(const BufferType& type, const FakeDevice& device, std::unique_ptr<Buffer> inner)
        : Buffer(type, inner->size(), inner->usage()), device_(device), inner_(std::move(inner)) {}
    ~FakeBuffer() override { device_.used_ -= size(); }
    std::byte* base() override { return inner_->base(); }
    Result<> set(const Tensor& tensor, size_t offset, std::span<const std::byte> bytes) override {
      return inner_->set(tensor, offset, bytes);
    }
    Result<> get(const Tensor& tensor, size_t offset, std::span<std::byte> bytes) override {
      return inner_->get(tensor, offset, bytes);
    }
    Result<> clear(std::byte value) override { return inner_->clear(value); }
    Result<> reset() override { return inner_->reset(); }

   private:
    const FakeDevice& device_;
    std::unique_ptr<Buffer> inner_;
  };

  class FakeMemory final : public BufferType {
   public:
    explicit FakeMemory(const FakeDevice& device) : device_(device) {}
    std::string_view name() const override { return device_.name(); }
    const Device& device() const override { return device_; }
    size_t alignment() const override { return inner().alignment(); }
    size_t max_size() const override { return inner().max_size(); }
    Result<size_t> tensor_bytes(DType dtype, const Shape& shape) const override {
      return inner().tensor_bytes(dtype, shape);
    }
    bool is_host() const override { return false; }
    Result<std::unique_ptr<Buffer>> allocate(size_t bytes, BufferUsage usage) const override {
      const uint64_t limit = device_.options_.limit_bytes;
      if (bytes > limit - std::min(limit, device_.used_))
        return fail(ErrorCode::out_of_memory, "{}: {} bytes wanted, {} of {} are taken", name(), bytes, device_.used_,
                    limit);
      TESSERA_ASSIGN(auto buffer, inner().allocate(bytes, usage));
      device_.used_ += buffer->size();
      return std::make_unique<FakeBuffer>(*this, device_, std::move(buffer));
    }

   private:
    const BufferType& inner() const { return device_.cpu_->buffer_type(); }
    const FakeDevice& device_;
  };

  Options options_;
  std::unique_ptr<Device> cpu_;
  FakeMemory memory_;
  mutable uint64_t used_ = 0;
  std::optional<uint64_t> told_bytes_;
};

/// Returns a registry of fake devices, in this order, and the CPU.
inline std::shared_ptr<Registry> fake_registry(std::vector<FakeDevice::Options> fakes) {
  auto registry = std::make_shared<Registry>();
  for (FakeDevice::Options& options : fakes) registry->add(std::make_unique<FakeDevice>(std::move(options)));
  registry->add(cpu::create_device("").value());
  return registry;
}

}  // namespace tessera::testing
