#include "tessera/cuda/plan.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "tessera/base/index.h"
#include "tessera/graph/op_info.h"

namespace tessera::cuda {

namespace {

// Multiply-adds of one submission: about a hundredth of a second.
constexpr int64_t kMacsPerSubmission = 3'000'000'000'000;

// Of the weights of later products. An H100 was 9 % faster with 4 MiB, 5 % with 8 MiB and slower with 16 MiB.
constexpr uint64_t kPrefetchedBytes = 4 << 20;

// Kernels to which the scratch memory is the result of matmul_halves.
bool reads_conversions(Shader shader) {
  return shader == Shader::matmul_panels || shader == Shader::matmul_panels_any ||
         shader == Shader::matmul_small_panels || shader == Shader::matmul_small_panels_any ||
         shader == Shader::matmul_wide_f16 || shader == Shader::matmul_wide_few_f16;
}

// Whether the kernel of a step is defined with TESSERA_BATCH_KERNEL.
bool is_batched(const Step& step) {
  return step.shader == Shader::matmul_wide_f16 || step.shader == Shader::matmul_wide_few_f16 ||
         step.shader == Shader::matmul_wide_converted || step.shader == Shader::matmul_wide_few_converted ||
         step.shader == Shader::matmul_rows || step.shader == Shader::matmul_rows_any || step.shader == Shader::rope ||
         step.shader == Shader::kv || step.shader == Shader::norm;
}

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
  add_prefetches();
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
  for (Job& job : make_jobs(*graph_, steps_, is_omitted_, has_constant_weights_)) {
    if (launches_.empty() || !joins(launches_.back(), job)) {
      TESSERA_ASSIGN(const CuFunction function, context_.kernel(job.kernel, job.shared_bytes));
      launches_.push_back({.function = function});
    }
    launches_.back().jobs.push_back(std::move(job));
  }
  return {};
}

// Whether a job, which is next after those of the launch, can be a part of it: it has the same kernel and blocks and
// does not depend on them.
bool CudaPlan::joins(const Launch& launch, const Job& job) const {
  const Job& first = launch.jobs.front();
  if (launch.jobs.size() == kBatchSteps || !is_batched(steps_[first.steps[0]]) || job.kernel != first.kernel)
    return false;
  return job.n_threads == first.n_threads && job.shared_bytes == first.shared_bytes &&
         std::ranges::none_of(launch.jobs, [&](const Job& other) { return depends(job, other); });
}

bool CudaPlan::depends(const Job& job, const Job& other) const {
  for (const size_t i : job.steps) {
    const Step& step = steps_[i];
    const auto conflicts = [&](const Touched& a, const Touched& b) {
      const bool is_read_only = a.begin == step.params.scratch && reads_conversions(step.shader);
      return (a.is_written || b.is_written) && a.begin < b.end && b.begin < a.end && !is_read_only;
    };
    for (const size_t before : other.steps)
      for (const Touched& a : steps_.touched(before))
        for (const Touched& b : steps_.touched(i))
          if (conflicts(a, b)) return true;
  }
  return false;
}

// Between products the memory is idle. So a product that has requested all of its own weights requests the first ones
// of the following products for the second-level cache; the last product, those of the next run. Only for f16: products
// of other formats do not wait for the memory.
void CudaPlan::add_prefetches() {
  struct Weights {
    Job* job = nullptr;  // the largest job of a launch
    std::vector<OperandParams> ranges{};
  };
  std::vector<Weights> products;
  for (Launch& launch : launches_) {
    Weights weights;
    for (Job& job : launch.jobs) {
      const KernelParams& params = job.params;
      const Step& step = steps_[job.steps[0]];
      const bool is_plain = step.shader == Shader::matmul_rows && (params.variant & kPlainProduct) != 0;
      if (!is_plain || step.format != DType::f16 || params.step.u[kConstantWeights] == 0) continue;
      if (weights.job == nullptr || weights.job->n_blocks < job.n_blocks) weights.job = &job;
      weights.ranges.push_back(params.step.x[0]);
      if ((params.variant & kGatedProduct) != 0) weights.ranges.push_back(params.step.x[2]);
    }
    if (weights.job != nullptr) products.push_back(std::move(weights));
  }
  for (size_t i = 0; i < products.size(); ++i) {
    uint64_t left = kPrefetchedBytes / kPrefetchUnit;
    size_t n = 0;
    for (size_t after = 1; after < products.size(); ++after)
      for (const OperandParams& range : products[(i + after) % products.size()].ranges) {
        const uint64_t size = std::min(uint64_t{range.nb[1]} * range.ne[1] / kPrefetchUnit, left);
        if (n == kPrefetchRanges || size == 0) continue;
        OperandParams& request = products[i].job->params.step.x[kFirstPrefetch + n++];
        request.data = range.data;
        request.ne[0] = static_cast<uint32_t>(size);
        left -= size;
      }
  }
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
    for (const Job& job : launches_[i].jobs)
      for (const size_t step : job.steps) macs += cost(*graph_, steps_.node_of(step)).macs;
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

// is_early: the launch may overlap with the end of the previous one.
Result<> CudaPlan::start(const Launch& launch, bool is_early) const {
  std::array<KernelParams, kBatchSteps> params;  // kernels without batches read only the first
  for (KernelParams& unused : params) unused.first_block = UINT32_MAX;
  uint32_t n_blocks = 0;
  for (size_t i = 0; i < launch.jobs.size(); ++i) {
    params[i] = launch.jobs[i].params;
    params[i].first_block = n_blocks;
    n_blocks += launch.jobs[i].n_blocks;
  }
  const Job& first = launch.jobs.front();
  CuLaunchAttribute early{};
  early.id = kCuProgrammaticSerialization;
  early.value.flag = 1;
  CuLaunchConfig config{.grid = {n_blocks, 1, 1},
                        .block = {first.n_threads, 1, 1},
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
    const NodeId node = steps_.node_of(launches_[i].jobs[0].steps[0]);  // others of a launch have no time
    if (!times.empty() && times.back().node == node)                    // another launch of the same node
      times.back().us = end - times.back().begin_us;
    else
      times.push_back({node, begin, end - begin});
    begin = end;
  }
  return times;
}

}  // namespace tessera::cuda
