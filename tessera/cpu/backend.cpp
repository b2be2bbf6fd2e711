#include "tessera/cpu/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "tessera/base/cpu_info.h"
#include "tessera/base/index.h"
#include "tessera/cpu/buffers.h"
#include "tessera/cpu/dispatch.h"
#include "tessera/cpu/expert_cache.h"
#include "tessera/cpu/memory.h"
#include "tessera/cpu/ops/matmul_panels.h"
#include "tessera/cpu/step.h"
#include "tessera/graph/op_info.h"
#include "tessera/isa/sets.h"

namespace tessera::cpu {

namespace {

// Elements of a step that one thread computes in about the time of two barriers.
constexpr int64_t kSoloElements = 4096;

bool is_product(Op op) { return op == Op::mul_mat || op == Op::mul_mat_experts; }

class CpuPlan final : public GraphPlan {
 public:
  explicit CpuPlan(const Graph& graph) : graph(graph) {}

  const Graph& graph;
  std::vector<Step> steps;
};

// Creates the steps for the nodes of a graph, with addresses if tensors are given. Steps without addresses serve only
// to compute sizes.
class Compiler {
 public:
  Compiler(const Graph& graph, const Kernels& kernels, int n_threads, ActivationPrecision activations)
      : graph_(graph), kernels_(kernels), n_threads_(n_threads), activations_(activations) {}

  std::vector<Step> steps(std::span<const Tensor> tensors) {
    std::vector<Step> steps;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_[id];
      const OpKernel* kernel = kernel_of(node.op);
      if (kernel == nullptr) continue;
      if (!steps.empty() && joins(steps.back(), id)) {
        steps.back().more_products.push_back({operand(node.sources[0], tensors), operand(id, tensors)});
        continue;
      }
      Step step{.kernel = kernel,
                .node = &node,
                .out = operand(id, tensors),
                .in = {},
                .n_threads = n_threads_,
                .activations = activations_,
                .more_products = {}};
      for (size_t i = 0; i < node.n_sources; ++i)
        if (node.sources[i] != kNoNode) step.in[i] = operand(node.sources[i], tensors);
      steps.push_back(std::move(step));
    }
    join_small(steps);
    find_next_streamed(steps);
    find_forecasts(steps, tensors);
    return steps;
  }

 private:
  // Consecutive small steps run on thread 0 without a barrier between them.
  static void join_small(std::vector<Step>& steps) {
    for (size_t i = 0; i + 1 < steps.size(); ++i) {
      if (!is_small(steps[i]) || !is_small(steps[i + 1])) continue;
      steps[i].is_solo = steps[i + 1].is_solo = true;
      steps[i].has_barrier = false;
    }
  }

  // Adjacent layers have routes of their own, so only the products of one layer are found.
  static void find_next_streamed(std::vector<Step>& steps) {
    const auto has_streams = [](const Step& step) { return step.in[0].streamed.has_value(); };
    for (auto step = steps.begin(); step != steps.end(); ++step) {
      if (!has_streams(*step)) continue;
      for (auto later = step + 1; later != steps.end(); ++later)
        if (has_streams(*later) && later->node->sources[2] == step->node->sources[2])
          step->next_streamed.push_back(*later->in[0].streamed);
    }
  }

  // The first product of a layer with experts of a cache forecasts those of the next such layer.
  void find_forecasts(std::vector<Step>& steps, std::span<const Tensor> tensors) const {
    Step* before = nullptr;
    for (Step& step : steps) {
      if (!step.in[0].streamed || (before != nullptr && before->node->sources[2] == step.node->sources[2])) continue;
      const std::optional<NodeId> logits = before == nullptr ? std::nullopt : find_router(step);
      if (logits && graph_[graph_[*logits].sources[0]].spec.shape()[0] == before->in[1].shape()[0]) {
        const Node& ids = graph_[graph_[step.node->sources[2]].sources[0]];
        Step::Forecast forecast{operand(graph_[*logits].sources[0], tensors), ids.spec.shape()[0], {}};
        forecast.experts.push_back(*step.in[0].streamed);
        for (const Step::Product& product : step.more_products)
          if (product.weights.streamed) forecast.experts.push_back(*product.weights.streamed);
        forecast.experts.insert(forecast.experts.end(), step.next_streamed.begin(), step.next_streamed.end());
        before->forecast = std::move(forecast);
      }
      before = &step;
    }
  }

  // Returns the product of the router that chose a step's experts: routes, ids, operations on scores, the product.
  std::optional<NodeId> find_router(const Step& step) const {
    constexpr int kMaxScoreOps = 8;
    NodeId id = step.node->sources[2];
    for (int i = 0; i < kMaxScoreOps && graph_[id].n_sources > 0; ++i) {
      id = graph_[id].sources[0];
      if (id == kNoNode) break;
      const Node& node = graph_[id];
      if (node.op != Op::mul_mat) continue;
      const Node& weights = graph_[node.sources[0]];
      const bool fits = weights.op == Op::tensor && weights.spec.shape()[1] == step.in[0].shape()[2];
      return fits ? std::optional(id) : std::nullopt;
    }
    return std::nullopt;
  }

  static bool is_small(const Step& step) {
    const Op op = step.node->op;
    if (step.kernel->takes_all_threads) return false;
    const bool reads_more = op == Op::top_k || op == Op::expert_sum || op == Op::row_sum;
    const Operand& rows = op == Op::kv_store ? step.in[1] : reads_more ? step.in[0] : step.out;
    return rows.shape().n_elements() <= kSoloElements;
  }

  // Whether two products read the same rows of the same x.
  static bool share_x(const Node& a, const Node& b) {
    if (!is_product(a.op) || a.op != b.op || a.sources[1] != b.sources[1]) return false;
    return a.op == Op::mul_mat || (a.sources[2] == b.sources[2] && std::get<ExpertProductParams>(a.params).input ==
                                                                       std::get<ExpertProductParams>(b.params).input);
  }

  Operand operand(NodeId id, std::span<const Tensor> tensors) const {
    const Node& node = graph_[id];
    const Node& storage = graph_[graph_.storage(id)];
    Operand operand{node.spec};
    const BufferType* type = storage.op == Op::tensor ? storage.tensor->buffer_type : nullptr;
    const bool is_streamed = type != nullptr && dynamic_cast<const ExpertCacheType*>(type) != nullptr;
    operand.packed = is_streamed || (type != nullptr && dynamic_cast<const PackedBufferType*>(type) != nullptr);
    if (is_streamed) operand.streamed.emplace();
    if (tensors.empty()) return operand;
    const Tensor& tensor = tensors[to_size(id)];
    operand.data = tensor.buffer->base() + tensor.offset;
    if (is_streamed) operand.streamed = {static_cast<ExpertCache*>(tensor.buffer), tensor.offset};
    return operand;
  }

  // Consecutive products of the same x run at the same time, as one step with one packing of x and one barrier. The
  // memory planner assumes that they run one after another. It could give a product the memory of an earlier product or
  // of computed weights that are no longer used. So a product joins only if all earlier products outlive it and their
  // weights are constant tensors.
  bool joins(const Step& step, NodeId id) const {
    const Node& node = graph_[id];
    if (!share_x(node, *step.node)) return false;
    const auto form_of = [&](const Node& n) {
      return product_form(kernels_, graph_[n.sources[0]].spec.dtype, activations_);
    };
    if (!form_of(node).packs_as(form_of(*step.node))) return false;
    const auto first = static_cast<NodeId>(step.node - graph_.nodes().data());
    for (NodeId product = first; product < id; ++product)
      if (is_product(graph_[product].op) &&
          (graph_[graph_.storage(graph_[product].sources[0])].op != Op::tensor || !outlives(product, id)))
        return false;
    return true;
  }

  bool outlives(NodeId value, NodeId id) const {
    for (NodeId later = value; later < graph_.size(); ++later) {
      const Node& node = graph_[later];
      if (node.is_output && graph_.storage(later) == value) return true;
      if (later > id && std::ranges::any_of(node.inputs(), [&](NodeId source) {
            return source != kNoNode && graph_.storage(source) == value;
          }))
        return true;
    }
    return false;
  }

  const Graph& graph_;
  const Kernels& kernels_;
  int n_threads_;
  ActivationPrecision activations_;
};

size_t work_bytes_of(const Kernels& kernels, const Step& step) {
  return step.kernel->work_bytes == nullptr ? 0 : step.kernel->work_bytes(kernels, step);
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(const Device& device, const Kernels& kernels, ThreadGroup threads, ActivationPrecision activations)
      : device_(device), kernels_(kernels), threads_(std::move(threads)), activations_(activations) {}

  const Device& device() const override { return device_; }
  std::string_view warning() const override { return threads_.warning(); }

  Result<size_t> work_bytes(const Graph& graph) const override {
    TESSERA_TRY(require_supported(device_, graph));
    size_t most = 0;
    for (const Step& step : compiler(graph).steps({})) most = std::max(most, work_bytes_of(kernels_, step));
    return most;
  }

  Result<std::unique_ptr<GraphPlan>> compile(const Graph& graph, std::span<const Tensor> tensors,
                                             const BufferRange& work) override {
    TESSERA_TRY(require_supported(device_, graph));
    if (tensors.size() != to_size(graph.size()))
      return fail(ErrorCode::invalid_argument, "{} tensors for {} nodes", tensors.size(), graph.size());
    for (const Tensor& tensor : tensors)
      if (tensor.buffer == nullptr || tensor.buffer->base() == nullptr)
        return fail(ErrorCode::invalid_argument, "{} has no memory that the CPU can address", tensor.name);
    auto plan = std::make_unique<CpuPlan>(graph);
    plan->steps = compiler(graph).steps(tensors);
    for (Step& step : plan->steps) {
      if (work_bytes_of(kernels_, step) > work.bytes)
        return fail(ErrorCode::invalid_argument, "{} bytes of scratch memory, {} needs {}", work.bytes,
                    info(step.node->op).name, work_bytes_of(kernels_, step));
      if (work.bytes != 0) step.work = work.buffer->base() + work.offset;
    }
    return plan;
  }

  Result<> run(GraphPlan& plan, const CancelToken* cancel) override {
    return run_steps(static_cast<CpuPlan&>(plan).steps, cancel, nullptr);
  }

  Result<std::vector<NodeTime>> run_timed(GraphPlan& plan, const CancelToken* cancel) override {
    const auto& timed = static_cast<CpuPlan&>(plan);
    StepClock clock(timed.steps.size(), threads_.size());
    TESSERA_TRY(run_steps(timed.steps, cancel, &clock));
    std::vector<NodeTime> times;
    for (const auto& [begin_us, us, prepare_us, wait_us] : clock.times()) {
      const Node* node = timed.steps[times.size()].node;
      times.push_back({.node = static_cast<NodeId>(node - timed.graph.nodes().data()),
                       .begin_us = begin_us,
                       .us = us,
                       .prepare_us = prepare_us,
                       .wait_us = wait_us});
    }
    return times;
  }

 private:
  Result<> run_steps(const std::vector<Step>& steps, const CancelToken* cancel, StepClock* clock) {
    fault_.clear();
    bool cancelled = false;
    threads_.run(
        [&](ThreadContext& thread) {
          Worker worker{thread, kernels_, fault_, clock};
          for (size_t i = 0; i < steps.size(); ++i) {
            const Step& step = steps[i];
            worker.step = i;
            worker.is_solo = step.is_solo;
            if (!step.is_solo || thread.index == 0) {
              step.kernel->run(step, worker);
              if (clock != nullptr) clock->ended(i, thread.index);
            }
            if (!step.has_barrier || !thread.barrier_and_check_cancel()) continue;
            if (thread.index == 0) cancelled = true;
            return;
          }
        },
        cancel);
    if (cancelled) return fail(ErrorCode::cancelled, "cancelled");
    const Fault::Record* fault = fault_.get();
    if (fault != nullptr && fault->error) return std::unexpected(*fault->error);
    if (fault != nullptr)
      return fail(ErrorCode::invalid_argument, "{} {}: {} {}, want 0 to {}", info(fault->step->node->op).name,
                  fault->step->node->name, fault->what, fault->value, fault->limit - 1);
    return {};
  }

  Compiler compiler(const Graph& graph) const { return {graph, kernels_, threads_.size(), activations_}; }

  const Device& device_;
  const Kernels& kernels_;
  ThreadGroup threads_;
  ActivationPrecision activations_;
  Fault fault_;
};

class CpuDevice final : public Device {
 public:
  CpuDevice(const Kernels& kernels, HostAllocator allocator)
      : kernels_(kernels),
        host_(*this, Pages::plain, allocator),
        packed_(*this, kernels, Pages::plain, std::move(allocator)),
        experts_(*this, kernels) {
    for (const Pages pages : {Pages::huge, Pages::numa, Pages::hbm}) {
      more_types_.push_back(std::make_unique<HostBufferType>(*this, pages));
      more_types_.push_back(std::make_unique<PackedBufferType>(*this, kernels, pages));
    }
  }

  std::string_view name() const override { return "cpu"; }
  std::string description() const override { return cpu_brand(); }
  DeviceKind kind() const override { return DeviceKind::cpu; }
  DeviceMemory memory() const override {
    const MemoryInfo memory = memory_info();
    return {memory.total_bytes, memory.available_bytes};
  }
  std::vector<std::pair<std::string, std::string>> properties() const override {
    return {{"isa", kernels_.isa},
            {"usable_isas", fmt::format("{}", fmt::join(isa::usable_isas(), " "))},
            {"cores", std::to_string(n_physical_cores(thread_affinity()))},
            {"threads_default", std::to_string(default_thread_count())},
            {"features", to_string(cpu_features())}};
  }

  const BufferType& buffer_type() const override { return host_; }
  std::vector<const BufferType*> buffer_types() const override {
    std::vector<const BufferType*> types{&host_, &packed_};
    for (const auto& type : more_types_) types.push_back(type.get());
    return types;
  }
  const BufferType& weight_buffer_type(Op op, DType dtype, const Shape& shape) const override {
    const bool multiplies =
        (op == Op::mul_mat && shape[2] == 1) || op == Op::mul_mat_experts || op == Op::mul_mat_heads;
    if (multiplies && packed_.tensor_bytes(dtype, shape)) return packed_;
    return host_;
  }
  const StreamedBufferType* streamed_buffer_type() const override { return &experts_; }
  bool can_use(const BufferType& type) const override { return &type.device() == this; }

  bool supports(const Graph& graph, NodeId id) const override {
    const Node& node = graph[id];
    if (!node.is_work()) return true;
    const OpKernel* kernel = kernel_of(node.op);
    return kernel != nullptr && can_read_operands(graph, node) &&
           (kernel->supports == nullptr || kernel->supports(kernels_, graph, node));
  }
  bool supports_kv(DType dtype, KvSide, int64_t dim) const override {
    return kernels_.kv_formats[to_size(dtype)] != nullptr && row_bytes(dtype, dim).has_value();
  }

  Result<std::unique_ptr<Buffer>> wrap_host(std::span<std::byte> memory) const override { return host_.wrap(memory); }

  Result<std::unique_ptr<Backend>> create_backend(const BackendOptions& options) const override {
    TESSERA_ASSIGN(ThreadGroup threads, ThreadGroup::create(options.threads));
    return std::make_unique<CpuBackend>(*this, kernels_, std::move(threads), options.activations);
  }

  Result<DevicePeaks> measure_peaks(const BackendOptions& options) const override;

 private:
  // Only products and get_rows can read packed tensors, and only whole tensors, not views.
  bool can_read_operands(const Graph& graph, const Node& node) const {
    for (size_t i = 0; i < node.n_sources; ++i) {
      const NodeId source = node.sources[i];
      if (source == kNoNode) continue;
      const Node& storage = graph[graph.storage(source)];
      if (storage.op != Op::tensor || storage.tensor->buffer_type == nullptr) continue;
      const BufferType& type = *storage.tensor->buffer_type;
      const bool reads_panels =
          i == 0 && graph[source].op == Op::tensor &&
          (node.op == Op::mul_mat_experts ||
           (&type != &experts_ && (is_product(node.op) || node.op == Op::mul_mat_heads || node.op == Op::get_rows)));
      if (can_use(type) && !type.is_host() && !reads_panels) return false;
    }
    return true;
  }

  const Kernels& kernels_;
  HostBufferType host_;
  PackedBufferType packed_;
  ExpertCacheType experts_;
  std::vector<std::unique_ptr<BufferType>> more_types_;  // plain and packed memory in other kinds of pages
};

// Returns the fastest of several rounds: other processes can only slow a round down.
template <class Work>
double best_rate(ThreadPool& threads, Work work) {
  constexpr int kRounds = 5;
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<int64_t> done{0};
    const auto start = std::chrono::steady_clock::now();
    threads.run([&](ThreadContext& thread) { done += work(thread); });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::max(best, static_cast<double>(done.load()) / seconds);
  }
  return best / 1e9;
}

Result<DevicePeaks> CpuDevice::measure_peaks(const BackendOptions& options) const {
  constexpr int64_t kLoops = 2'000'000;
  // A last-level cache keeps part of a stream that is only a few times larger.
  constexpr size_t kCaches = 16, kLeastBytes = size_t{128} << 20, kMostBytes = size_t{1} << 30;
  TESSERA_ASSIGN(auto threads, ThreadPool::create(options.threads));
  const auto n_threads = to_size(threads->size());
  const size_t bytes = std::clamp(kCaches * cache_sizes(0).l3_bytes, kLeastBytes, kMostBytes) / n_threads / 4096 * 4096;
  TESSERA_ASSIGN(const HostMemory memory, HostMemory::allocate(n_threads * bytes));
  threads->run(
      [&](ThreadContext& thread) { std::fill_n(memory.data() + to_size(thread.index) * bytes, bytes, std::byte{1}); });
  DevicePeaks peaks;
  peaks.int8_gmacs = best_rate(*threads, [&](ThreadContext&) { return kernels_.peak_int8(kLoops); });
  peaks.f32_gmacs = best_rate(*threads, [&](ThreadContext&) { return kernels_.peak_f32(kLoops); });
  peaks.int16_gmacs = best_rate(*threads, [&](ThreadContext&) { return kernels_.peak_int16(kLoops); });
  peaks.read_gbps = best_rate(*threads, [&](ThreadContext& thread) {
    return kernels_.peak_read(memory.data() + to_size(thread.index) * bytes, bytes);
  });
  return peaks;
}

}  // namespace

Result<std::unique_ptr<Device>> create_device(const std::string& isa, HostAllocator allocator) {
  TESSERA_ASSIGN(const Kernels* kernels, select_kernels(isa));
  return std::make_unique<CpuDevice>(*kernels, std::move(allocator));
}

}  // namespace tessera::cpu
