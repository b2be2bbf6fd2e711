#include "tessera/blas/backend.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/blas/library.h"
#include "tessera/graph/op_info.h"
#include "tessera/quant/formats.h"

namespace tessera::blas {

namespace {

// For smaller products the CPU's own kernels are faster: a library packs both operands again for each product.
constexpr int64_t kMinExtent = 32;
constexpr int64_t kMaxExtent = std::numeric_limits<int32_t>::max();
constexpr size_t kAlignment = 64;

// The number of weight rows that are converted to floats and multiplied at a time. It depends only on the shape, so
// results do not depend on the number of threads. Blocks are small enough to occupy all threads, and large enough to
// outweigh the packing of x.
int64_t block_rows_of(int64_t n_rows) {
  constexpr int64_t kWantedBlocks = 16, kMin = 128, kMax = 256;
  return std::min(n_rows, std::clamp(div_ceil(n_rows, kWantedBlocks), kMin, kMax));
}

const Node& weights_of(const Graph& graph, const Node& node) { return graph[node.sources[0]]; }

// Bytes of one thread's float rows; 0 if the weights are floats already.
size_t thread_bytes(const Node& weights) {
  if (weights.spec.dtype == DType::f32) return 0;
  const Shape& shape = weights.spec.shape();
  return round_up(to_size(shape[0] * block_rows_of(shape[1])) * sizeof(float), kAlignment);
}

struct Step {
  int64_t k = 0, n_rows = 0, n_tokens = 0;
  int64_t block_rows = 0;
  const std::byte* weights = nullptr;
  size_t weight_row_bytes = 0;
  const quant::Format* format = nullptr;  // null: floats
  const float* x = nullptr;
  float* out = nullptr;
  std::byte* work = nullptr;  // thread_bytes per thread
  size_t thread_bytes = 0;
};

class BlasPlan final : public GraphPlan {
 public:
  std::vector<Step> steps;
};

class BlasBackend final : public Backend {
 public:
  BlasBackend(const Device& device, std::shared_ptr<const Library> library, ThreadGroup threads)
      : device_(device), library_(std::move(library)), threads_(std::move(threads)) {}

  const Device& device() const override { return device_; }
  std::string_view warning() const override { return threads_.warning(); }

  Result<size_t> work_bytes(const Graph& graph) const override {
    TESSERA_TRY(require_supported(device_, graph));
    size_t most = 0;
    for (const Node& node : graph.nodes())
      if (node.op == Op::mul_mat) most = std::max(most, thread_bytes(weights_of(graph, node)));
    const auto bytes = checked_mul(most, to_size(threads_.size()));
    if (!bytes) return fail(ErrorCode::limit, "scratch memory: size overflows");
    return *bytes;
  }

  Result<std::unique_ptr<GraphPlan>> compile(const Graph& graph, std::span<const Tensor> tensors,
                                             const BufferRange& work) override {
    TESSERA_ASSIGN(const size_t wanted, work_bytes(graph));
    if (wanted > work.bytes)
      return fail(ErrorCode::invalid_argument, "{} bytes of scratch memory, {} are needed", work.bytes, wanted);
    TESSERA_TRY(require_tensors(device_, graph, tensors));
    auto plan = std::make_unique<BlasPlan>();
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (graph[id].op != Op::mul_mat) continue;
      TESSERA_ASSIGN(Step step, step_of(graph, id, tensors));
      if (wanted != 0) step.work = work.buffer->base() + work.offset;
      plan->steps.push_back(step);
    }
    return plan;
  }

  Result<> run(GraphPlan& plan, const CancelToken* cancel) override {
    const std::vector<Step>& steps = static_cast<BlasPlan&>(plan).steps;
    bool cancelled = false;
    std::atomic<bool> failed{false};
    threads_.run(
        [&](ThreadContext& thread) {
          library_->enter_thread();
          for (const Step& step : steps) {
            for (int64_t block = thread.next_chunk(); block * step.block_rows < step.n_rows;
                 block = thread.next_chunk())
              if (!multiply(step, block, thread.index)) failed.store(true, std::memory_order_relaxed);
            if (!thread.barrier_and_check_cancel()) continue;
            if (thread.index == 0) cancelled = true;
            return;
          }
        },
        cancel);
    if (cancelled) return fail(ErrorCode::cancelled, "cancelled");
    if (failed) return fail(ErrorCode::out_of_memory, "{}: a product failed in {}", device_.name(), library_->file());
    return {};
  }

 private:
  static Result<Step> step_of(const Graph& graph, NodeId id, std::span<const Tensor> tensors) {
    const Node& node = graph[id];
    const Node& weights = weights_of(graph, node);
    const auto address = [&](NodeId of) {
      const Tensor& tensor = tensors[to_size(of)];
      return tensor.buffer->base() + tensor.offset;
    };
    Step step;
    step.k = weights.spec.shape()[0];
    step.n_rows = weights.spec.shape()[1];
    step.n_tokens = node.spec.shape()[1];
    step.block_rows = block_rows_of(step.n_rows);
    step.weights = address(node.sources[0]);
    TESSERA_ASSIGN(step.weight_row_bytes, row_bytes(weights.spec.dtype, step.k));
    if (weights.spec.dtype != DType::f32) step.format = quant::find_format(weights.spec.dtype);
    step.x = reinterpret_cast<const float*>(address(node.sources[1]));
    step.out = reinterpret_cast<float*>(address(id));
    step.thread_bytes = thread_bytes(weights);
    return step;
  }

  bool multiply(const Step& step, int64_t block, int thread) const {
    const int64_t first = block * step.block_rows, n_rows = std::min(step.block_rows, step.n_rows - first);
    const std::byte* rows = step.weights + to_size(first) * step.weight_row_bytes;
    const auto* w = reinterpret_cast<const float*>(rows);
    if (step.format != nullptr) {
      auto* floats = reinterpret_cast<float*>(step.work + to_size(thread) * step.thread_bytes);
      for (int64_t row = 0; row < n_rows; ++row)
        step.format->dequantize_row(rows + to_size(row) * step.weight_row_bytes, step.k, floats + row * step.k);
      w = floats;
    }
    return library_->multiply({.k = step.k,
                               .n_rows = n_rows,
                               .n_tokens = step.n_tokens,
                               .x = step.x,
                               .w = w,
                               .out = step.out + first,
                               .out_stride = step.n_rows});
  }

  const Device& device_;
  std::shared_ptr<const Library> library_;
  ThreadGroup threads_;
};

class BlasDevice final : public Device {
 public:
  BlasDevice(const Device& cpu, std::shared_ptr<const Library> library) : cpu_(cpu), library_(std::move(library)) {}

  std::string_view name() const override { return "blas"; }
  std::string description() const override {
    return library_->version().empty() ? library_->file() : library_->version();
  }
  DeviceKind kind() const override { return DeviceKind::accelerator; }
  DeviceMemory memory() const override { return {}; }
  std::vector<std::pair<std::string, std::string>> properties() const override {
    return {{"library", library_->file()}};
  }

  const BufferType& buffer_type() const override { return cpu_.buffer_type(); }
  std::vector<const BufferType*> buffer_types() const override { return {}; }
  const BufferType& weight_buffer_type(Op, DType, const Shape&) const override { return cpu_.buffer_type(); }
  bool can_use(const BufferType& type) const override { return type.is_host() && &type.device() == &cpu_; }

  bool supports(const Graph& graph, NodeId id) const override {
    const Node& node = graph[id];
    if (!node.is_work()) return true;
    if (node.op != Op::mul_mat) return false;
    const TensorSpec &weights = weights_of(graph, node).spec, &x = graph[node.sources[1]].spec;
    const auto is_large = [](int64_t extent) { return extent >= kMinExtent && extent <= kMaxExtent; };
    return is_large(weights.shape()[0]) && is_large(weights.shape()[1]) && is_large(x.shape()[1]) &&
           is_contiguous(x.dtype, x.layout) &&
           (weights.dtype == DType::f32 || quant::find_format(weights.dtype) != nullptr);
  }
  bool supports_kv(DType, KvSide, int64_t) const override { return false; }

  Result<std::unique_ptr<Buffer>> wrap_host(std::span<std::byte> memory) const override {
    return cpu_.wrap_host(memory);
  }

  Result<std::unique_ptr<Backend>> create_backend(const BackendOptions& options) const override {
    TESSERA_ASSIGN(ThreadGroup threads, ThreadGroup::create(options.threads));
    return std::make_unique<BlasBackend>(*this, library_, std::move(threads));
  }

  /// The peaks of the CPU device: the cores are the same.
  Result<DevicePeaks> measure_peaks(const BackendOptions& options) const override {
    return cpu_.measure_peaks(options);
  }

 private:
  const Device& cpu_;
  std::shared_ptr<const Library> library_;
};

}  // namespace

Result<std::unique_ptr<Device>> create_device(const Device& cpu, const std::string& file) {
  auto library = Library::open(file);
  if (!library) return forward_error(library, "blas");
  return std::make_unique<BlasDevice>(cpu, std::move(*library));
}

}  // namespace tessera::blas
