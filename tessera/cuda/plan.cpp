#include "tessera/cuda/plan.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/graph/op_info.h"

namespace tessera::cuda {

namespace {

// Multiply-adds of one submission: about a hundredth of a second.
constexpr int64_t kMacsPerSubmission = 3'000'000'000'000;

constexpr std::string_view kShaderNames[] = {
#define TESSERA_SHADER(name) #name,
#define TESSERA_VULKAN_SHADER(name) #name,
#define TESSERA_CUDA_KERNEL(name) #name,
#include "tessera/gpu/shaders.def"
};

std::string_view format_name(DType dtype) {
  switch (dtype) {
#define TESSERA_FORMAT(name, symbol, text, id, elements, bytes) \
  case DType::name:                                             \
    return #name;
#include "tessera/tensor/dtype.def"
    default:
      return "";
  }
}

std::string kernel_name(const Step& step) {
  std::string name = "tessera_";  // as TESSERA_KERNEL of kernels/device.cuh names it
  name += kShaderNames[to_size(step.shader)];
  if (step.is_by_format) name.append("_").append(format_name(step.format));
  return name;
}

bool is_same_operand(const OperandParams& a, const OperandParams& b) {
  return a.data == b.data && a.ne == b.ne && a.nb == b.nb;
}

// Kernels to which the scratch memory is the result of matmul_halves.
bool reads_conversions(Shader shader) {
  return shader == Shader::matmul_panels || shader == Shader::matmul_panels_any ||
         shader == Shader::matmul_small_panels || shader == Shader::matmul_small_panels_any ||
         shader == Shader::matmul_wide_f16 || shader == Shader::matmul_wide_few_f16;
}

// Kernels defined with TESSERA_BATCH_KERNEL.
bool is_batched(const Step& step) {
  return step.shader == Shader::matmul_wide_f16 || step.shader == Shader::matmul_wide_few_f16 ||
         step.shader == Shader::matmul_wide_converted || step.shader == Shader::matmul_wide_few_converted ||
         step.shader == Shader::matmul_rows || step.shader == Shader::matmul_rows_any || step.shader == Shader::rope ||
         step.shader == Shader::kv || step.shader == Shader::norm;
}

// Longer rows of norms have more threads, so that each keeps its part in registers.
uint32_t threads_of(const Step& step) {
  if (step.n_threads != 0) return step.n_threads;
  if (step.shader != Shader::norm) return kDefaultThreads;
  const uint32_t n = step.params.x[0].ne[0];
  return n <= 8 * kNormThreads ? kNormThreads : n <= 16 * kNormThreads ? 2 * kNormThreads : 4 * kNormThreads;
}

// The groups of a step that one block computes: in some kernels a group is a row that would leave most of a block idle.
uint32_t groups_per_block(const Step& step) {
  switch (step.shader) {
    case Shader::rope:
    case Shader::kv:
      return threads_of(step) / kRowLanes;
    case Shader::norm:
      return step.params.x[0].ne[0] <= kShortNorm ? threads_of(step) / kShortNormThreads : 1;
    default:
      return 1;
  }
}

// The address after the last element of an operand of floats.
uint64_t end_of(const OperandParams& x) {
  uint64_t end = x.data + sizeof(float);
  for (size_t d = 0; d < kMaxRank; ++d) end += uint64_t{x.ne[d] - 1} * x.nb[d];
  return end;
}

bool overlaps(const OperandParams& a, const OperandParams& b) { return a.data < end_of(b) && b.data < end_of(a); }

}  // namespace

CudaPlan::~CudaPlan() {
  if (!context_.enter()) return;
  for (const CuGraphExec exec : submissions_) context_.driver().graph_exec_destroy(exec);
  for (const CuEvent event : events_) context_.driver().event_destroy(event);
}

Result<> CudaPlan::compile(const StepContext& of_any_node, const StepMemory& memory, size_t work_bytes) {
  graph_ = &of_any_node.graph;
  TESSERA_TRY(steps_.make(of_any_node, kOwnKernels));
  if (const size_t need = steps_.work_bytes(); need > work_bytes)
    return fail(ErrorCode::limit, "work memory of {} bytes, the graph takes {}", work_bytes, need);
  if (steps_.empty()) return {};
  steps_.bind(memory);
  work_ = memory.work;
  if (steps_.has_extra()) image_ = steps_.image();
  find_constant_weights(of_any_node);
  omit_conversions();
  TESSERA_TRY(make_launches());
  return record();
}

void CudaPlan::find_constant_weights(const StepContext& of_any_node) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Node& node = *steps_[i].node;
    const bool has_second = node.n_sources > 1 && node.sources[1] != kNoNode;
    const Buffer* memory = has_second ? of_any_node.tensors[to_size(node.sources[1])].buffer : nullptr;
    has_constant_weights_.push_back(memory != nullptr && memory->usage() == BufferUsage::weights);
  }
}

// Products often share their activations (q, k and v; gate and up), whose conversion is then in the scratch memory
// already. It stays there until another step writes to the scratch or to the activations.
void CudaPlan::omit_conversions() {
  is_omitted_.assign(steps_.size(), false);
  std::optional<size_t> converted;  // the step whose result is in the scratch memory
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (step.shader == Shader::matmul_halves) {
      is_omitted_[i] = converted && is_same_operand(steps_[*converted].params.x[1], step.params.x[1]) &&
                       steps_[*converted].params.u[kStepOrder] == step.params.u[kStepOrder];
      if (!is_omitted_[i]) converted = i;
    } else if (converted && changes(step, i, steps_[*converted])) {
      converted.reset();
    }
  }
}

// Whether step i overwrites the operand that another step has converted, or the result of that.
bool CudaPlan::changes(const Step& step, size_t i, const Step& conversion) const {
  const OperandParams& x = conversion.params.x[1];
  const bool uses_scratch = step.params.scratch != 0;
  if (uses_scratch && !reads_conversions(step.shader)) return true;
  const uint64_t begin = x.data, end = end_of(x);
  return std::ranges::any_of(steps_.touched(i), [&](const Touched& t) {
    const bool is_scratch = t.begin <= step.params.scratch && step.params.scratch < t.end;
    return t.is_written && !is_scratch && t.begin < end && begin < t.end;
  });
}

Result<> CudaPlan::make_launches() {
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (is_omitted_[i]) continue;
    if (!launches_.empty() && joins(launches_.back(), i)) {
      launches_.back().steps.push_back(i);
      continue;
    }
    const bool is_fused = is_sum_and_norm(i);
    const Step& step = steps_[is_fused ? i + 1 : i];
    TESSERA_ASSIGN(const CuFunction function, context_.kernel(kernel_name(step), step.shared_bytes));
    launches_.push_back({.function = function, .steps = {i}, .is_sum_and_norm = is_fused});
    if (is_fused) launches_.back().steps.push_back(++i);
  }
  return {};
}

// Whether step i adds two operands and the next one is a norm of the result. The kernel of norms then computes both in
// one launch, each row by itself, so the norm may replace only the operands of its own row, and may have no other use
// for the sum.
bool CudaPlan::is_sum_and_norm(size_t i) const {
  if (i + 1 == steps_.size()) return false;
  const Step &sum = steps_[i], &norm = steps_[i + 1];
  const bool is_pair = sum.node->op == Op::add && (norm.node->op == Op::rms_norm || norm.node->op == Op::layer_norm);
  if (!is_pair || !is_same_operand(sum.params.y, norm.params.x[0])) return false;
  const auto fits = [&](const OperandParams& x) {
    const OperandParams& y = norm.params.y;
    return x.ne == sum.params.y.ne && (!overlaps(x, y) || is_same_operand(x, y));
  };
  const auto is_apart = [&](const OperandParams& x) { return x.data == 0 || !overlaps(x, sum.params.y); };
  return fits(sum.params.x[0]) && fits(sum.params.x[1]) && is_apart(norm.params.x[1]) && is_apart(norm.params.x[2]);
}

// Whether step i, which is next after those of the launch, can be a part of it: it has the same kernel and blocks and
// does not depend on them.
bool CudaPlan::joins(const Launch& launch, size_t i) const {
  const Step &step = steps_[i], &first = steps_[launch.steps.front()];
  if (launch.steps.size() == kBatchSteps || !is_batched(step) || kernel_name(step) != kernel_name(first)) return false;
  if (threads_of(step) != threads_of(first) || step.shared_bytes != first.shared_bytes) return false;
  const auto conflicts = [&](const Touched& a, const Touched& b) {
    const bool is_read_only = a.begin == step.params.scratch && reads_conversions(step.shader);
    return (a.is_written || b.is_written) && a.begin < b.end && b.begin < a.end && !is_read_only;
  };
  for (const size_t other : launch.steps)
    for (const Touched& a : steps_.touched(other))
      for (const Touched& b : steps_.touched(i))
        if (conflicts(a, b)) return false;
  return true;
}

Result<> CudaPlan::record() {
  size_t begin = 0;
  int64_t macs = 0;
  for (size_t i = 0; i < launches_.size(); ++i) {
    if (macs > kMacsPerSubmission) {
      TESSERA_TRY(record_submission(std::span(launches_).subspan(begin, i - begin)));
      begin = i;
      macs = 0;
    }
    for (const size_t step : launches_[i].steps) macs += cost(*graph_, steps_.node_of(step)).macs;
  }
  return record_submission(std::span(launches_).subspan(begin));
}

Result<> CudaPlan::record_submission(std::span<const Launch> launches) {
  const Driver& driver = context_.driver();
  TESSERA_TRY(context_.enter());
  TESSERA_CUDA(driver, capture_begin, stream_, kCuCaptureThreadLocal);
  Result<> started;
  for (size_t i = 0; i < launches.size() && started; ++i) started = start(launches[i], i > 0);
  CuGraph graph = nullptr;
  const auto captured = driver.check(driver.capture_end(stream_, &graph), "capture_end");
  TESSERA_TRY(started);
  TESSERA_TRY(captured);
  CuGraphExec exec = nullptr;
  const auto made = driver.check(driver.graph_instantiate(&exec, graph, 0), "graph_instantiate");
  driver.graph_destroy(graph);
  TESSERA_TRY(made);
  submissions_.push_back(exec);
  return {};
}

// The argument of the kernel of step i.
KernelParams CudaPlan::params_of(size_t i) const {
  const Step& step = steps_[i];
  KernelParams params{.step = step.params,
                      .variant = step.variant,
                      .format = static_cast<uint32_t>(step.format),
                      .format2 = static_cast<uint32_t>(step.format2)};
  if (step.shader == Shader::norm) params.step.u[1] = has_constant_weights_[i] ? 1 : 0;
  return params;
}

// is_early: the launch may overlap with the end of the previous one.
Result<> CudaPlan::start(const Launch& launch, bool is_early) const {
  std::array<KernelParams, kBatchSteps> params;  // kernels without batches read only the first
  for (KernelParams& unused : params) unused.first_block = UINT32_MAX;
  const auto steps = std::span(launch.steps).subspan(launch.is_sum_and_norm ? 1 : 0);
  uint32_t n_blocks = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    params[i] = params_of(steps[i]);
    params[i].first_block = n_blocks;
    n_blocks += div_ceil(steps_[steps[i]].params.n_groups, groups_per_block(steps_[steps[i]]));
  }
  if (launch.is_sum_and_norm)
    for (size_t operand = 0; operand < 2; ++operand)
      params[0].step.x[kSumOperands + operand] = steps_[launch.steps[0]].params.x[operand];
  const Step& first = steps_[steps[0]];
  CuLaunchAttribute early{};
  early.id = kCuProgrammaticSerialization;
  early.value.flag = 1;
  CuLaunchConfig config{.grid = {n_blocks, 1, 1},
                        .block = {threads_of(first), 1, 1},
                        .shared_bytes = first.shared_bytes,
                        .stream = stream_,
                        .attributes = &early,
                        .n_attributes = is_early && context_.launches_early() ? 1u : 0u};
  void* arguments[] = {params.data()};
  TESSERA_CUDA(context_.driver(), launch, &config, launch.function, arguments, nullptr);
  return {};
}

Result<> CudaPlan::run_timed() {
  const Driver& driver = context_.driver();
  while (events_.size() < launches_.size() + 1) {
    CuEvent event = nullptr;
    TESSERA_CUDA(driver, event_create, &event, kCuEventDefault);
    events_.push_back(event);
  }
  for (size_t i = 0; i < launches_.size(); ++i) {
    TESSERA_CUDA(driver, event_record, events_[i], stream_);
    TESSERA_TRY(start(launches_[i], false));
  }
  TESSERA_CUDA(driver, event_record, events_[launches_.size()], stream_);
  return {};
}

Result<std::vector<NodeTime>> CudaPlan::times() const {
  std::vector<NodeTime> times;
  const auto us_until = [&](size_t event) -> Result<double> {
    float ms = 0;
    TESSERA_CUDA(context_.driver(), event_elapsed, &ms, events_[0], events_[event]);
    return double{ms} * 1e3;
  };
  double begin = 0;
  for (size_t i = 0; i < launches_.size(); ++i) {
    TESSERA_ASSIGN(const double end, us_until(i + 1));
    const NodeId node = steps_.node_of(launches_[i].steps[0]);  // the others of a launch have no time of their own
    if (!times.empty() && times.back().node == node)            // another launch of the same node
      times.back().us = end - times.back().begin_us;
    else
      times.push_back({node, begin, end - begin});
    begin = end;
  }
  return times;
}

}  // namespace tessera::cuda
