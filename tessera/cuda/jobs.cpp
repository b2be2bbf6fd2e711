#include "tessera/cuda/jobs.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string_view>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/gpu/ops/experts.h"
#include "tessera/graph/op_info.h"

namespace tessera::cuda {

namespace {

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

bool is_expert_op(const Step& step, ExpertOp op) {
  return step.shader == Shader::experts && step.variant == static_cast<uint32_t>(op);
}

// Longer rows of norms have more threads, so that each keeps its part in registers.
uint32_t threads_of(const Step& step) {
  if (step.n_threads != 0) return step.n_threads;
  if (is_expert_op(step, ExpertOp::expert_routes)) {
    const uint32_t n_pairs = step.params.x[0].ne[0] * step.params.x[0].ne[1];
    return std::bit_ceil(std::clamp(n_pairs, kDefaultThreads, kMostRoutesThreads));
  }
  if (is_expert_op(step, ExpertOp::expert_sum)) return kSumThreads;
  if (step.shader != Shader::norm) return kDefaultThreads;
  const uint32_t n = step.params.x[0].ne[0];
  return n <= 8 * kNormThreads ? kNormThreads : n <= 16 * kNormThreads ? 2 * kNormThreads : 4 * kNormThreads;
}

// Dynamic shared memory of a block.
uint32_t shared_bytes_of(const Step& step) {
  const uint32_t n_warps = threads_of(step) / kWarp;
  if (is_expert_op(step, ExpertOp::expert_routes))
    return n_warps * std::min(step.params.u[0], kRoutedExperts) * static_cast<uint32_t>(sizeof(uint32_t));
  if (is_expert_op(step, ExpertOp::top_groups))
    return n_warps * step.params.u[0] * 2 * static_cast<uint32_t>(sizeof(float));
  return step.shared_bytes;
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

uint32_t blocks_of(const Step& step) {
  for (const ExpertOp op : {ExpertOp::top_k, ExpertOp::top_groups, ExpertOp::expert_weights})
    if (is_expert_op(step, op))  // a warp per token, where shaders have an invocation
      return div_ceil(step.params.y.ne[1], threads_of(step) / kWarp);
  return div_ceil(step.params.n_groups, groups_per_block(step));
}

bool overlaps(const OperandParams& a, const OperandParams& b) { return a.data < end_of(b) && b.data < end_of(a); }

class Jobs {
 public:
  Jobs(const Graph& graph, const StepList& steps, const std::vector<bool>& has_constant_weights)
      : steps_(steps), has_constant_weights_(has_constant_weights), n_uses_(to_size(graph.size())) {
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (graph[id].is_output) ++n_uses_[to_size(id)];
      for (const NodeId source : graph[id].inputs())
        if (source != kNoNode) ++n_uses_[to_size(source)];
    }
  }

  // The job that begins with step i.
  Job job(size_t i) const {
    if (auto fused = sum_and_norm(i)) return *std::move(fused);
    if (auto fused = gated_product(i)) return *std::move(fused);
    if (auto fused = rope_and_store(i)) return *std::move(fused);
    return single(i);
  }

  // A store of rows that the kernel of rope computes, so that it can share a launch with that.
  Job store_by_rope(size_t i) const {
    Job job = single(i);
    job.kernel = kernel_name(Shader::rope);
    job.params.step.y = steps_[i].params.x[1];
    add_store(steps_[i], job);
    job.params.variant = kStoreOnly;
    return job;
  }
  bool is_store(size_t i) const { return steps_[i].shader == Shader::kv && steps_[i].variant == 0; }

 private:
  static std::string kernel_name(Shader shader) { return "tessera_" + std::string(kShaderNames[to_size(shader)]); }

  Job single(size_t i) const {
    const Step& step = steps_[i];
    Job job{.steps = {i},
            .kernel = cuda::kernel_name(step),
            .params = {.step = step.params,
                       .variant = step.variant,
                       .format = static_cast<uint32_t>(step.format),
                       .format2 = static_cast<uint32_t>(step.format2)},
            .n_blocks = blocks_of(step),
            .n_threads = threads_of(step),
            .shared_bytes = shared_bytes_of(step)};
    if (step.shader == Shader::norm) job.params.step.u[1] = has_constant_weights_[i] ? 1 : 0;
    return job;
  }

  // An addition, and a norm of the result. The kernel of norms computes each row by itself, so the norm may replace
  // only the operands of its own row, and may have no other use for the sum.
  std::optional<Job> sum_and_norm(size_t i) const {
    if (i + 1 >= steps_.size()) return std::nullopt;
    const Step &sum = steps_[i], &norm = steps_[i + 1];
    const bool is_pair = sum.node->op == Op::add && (norm.node->op == Op::rms_norm || norm.node->op == Op::layer_norm);
    if (!is_pair || !is_same_operand(sum.params.y, norm.params.x[0])) return std::nullopt;
    const auto fits = [&](const OperandParams& x) {
      const OperandParams& y = norm.params.y;
      return x.ne == sum.params.y.ne && (!overlaps(x, y) || is_same_operand(x, y));
    };
    const auto is_apart = [&](const OperandParams& x) { return x.data == 0 || !overlaps(x, sum.params.y); };
    const bool can =
        fits(sum.params.x[0]) && fits(sum.params.x[1]) && is_apart(norm.params.x[1]) && is_apart(norm.params.x[2]);
    if (!can) return std::nullopt;
    Job job = single(i + 1);
    job.steps.insert(job.steps.begin(), i);
    for (size_t operand = 0; operand < 2; ++operand) job.params.step.x[kSumOperands + operand] = sum.params.x[operand];
    return job;
  }

  // Two plain products of the same activations, and their combination: the kernel keeps their results to itself.
  std::optional<Job> gated_product(size_t i) const {
    if (i + 2 >= steps_.size()) return std::nullopt;
    const Step &gate = steps_[i], &up = steps_[i + 1], &both = steps_[i + 2];
    if (gate.shader != Shader::matmul_rows || (gate.variant & kPlainProduct) == 0) return std::nullopt;
    if (both.node->op != Op::swiglu && both.node->op != Op::geglu) return std::nullopt;
    const StepParams &g = gate.params, &u = up.params, &y = both.params;
    const bool is_alike = cuda::kernel_name(gate) == cuda::kernel_name(up) && gate.variant == up.variant &&
                          threads_of(gate) == threads_of(up) && gate.shared_bytes == up.shared_bytes && g.u == u.u &&
                          g.x[0].ne == u.x[0].ne && g.x[0].nb == u.x[0].nb && is_same_operand(g.x[1], u.x[1]);
    const bool is_of_both = is_same_operand(y.x[0], g.y) && is_same_operand(y.x[1], u.y) && y.y.ne == g.y.ne;
    const bool is_last_use = n_uses_[to_size(steps_.node_of(i))] == 1 && n_uses_[to_size(steps_.node_of(i + 1))] == 1;
    if (!is_alike || !is_of_both || !is_last_use || overlaps(y.y, g.x[1])) return std::nullopt;
    Job job = single(i);
    job.steps = {i, i + 1, i + 2};
    job.params.variant |= kGatedProduct;
    job.params.step.x[2] = u.x[0];
    job.params.step.y = y.y;
    job.params.step.u[kYTokenBytes] = y.y.nb[1];
    job.params.step.u[kGate] = both.node->op == Op::geglu ? 1 : 0;
    return job;
  }

  // The threads that rotate a row also store it.
  std::optional<Job> rope_and_store(size_t i) const {
    if (i + 1 >= steps_.size() || steps_[i].node->op != Op::rope || !is_store(i + 1)) return std::nullopt;
    const StepParams &rope = steps_[i].params, &store = steps_[i + 1].params;
    const bool has_its_rows = is_same_operand(store.x[1], rope.y) && rope.n_groups == store.n_groups;
    if (!has_its_rows) return std::nullopt;
    Job job = single(i);
    job.steps.push_back(i + 1);
    add_store(steps_[i + 1], job);
    job.params.variant = kRopeAndStore;
    return job;
  }

  static void add_store(const Step& store, Job& job) {
    StepParams& params = job.params.step;
    params.x[2] = store.params.x[0];
    params.x[3] = store.params.x[2];
    params.u[kRowBytes] = store.params.u[0];
    params.id = store.params.id;  // rope reports no faults
    job.params.format = static_cast<uint32_t>(store.format);
    job.params.format2 = static_cast<uint32_t>(store.format2);
  }

  const StepList& steps_;
  const std::vector<bool>& has_constant_weights_;
  std::vector<uint32_t> n_uses_;  // by node: as an operand or view, or as an output
};

}  // namespace

bool is_same_operand(const OperandParams& a, const OperandParams& b) {
  return a.data == b.data && a.ne == b.ne && a.nb == b.nb;
}

uint64_t end_of(const OperandParams& x) {
  uint64_t end = x.data + sizeof(float);
  for (size_t d = 0; d < kMaxRank; ++d) end += uint64_t{x.ne[d] - 1} * x.nb[d];
  return end;
}

std::vector<Job> make_jobs(const Graph& graph, const StepList& steps, const std::vector<bool>& is_omitted,
                           const std::vector<bool>& has_constant_weights) {
  const Jobs maker(graph, steps, has_constant_weights);
  std::vector<Job> jobs;
  for (size_t i = 0; i < steps.size();) {
    if (is_omitted[i]) {
      ++i;
      continue;
    }
    const bool follows_rope = !jobs.empty() && jobs.back().params.variant == kRopeAndStore &&
                              steps[jobs.back().steps[0]].shader == Shader::rope;
    jobs.push_back(follows_rope && maker.is_store(i) ? maker.store_by_rope(i) : maker.job(i));
    i = jobs.back().steps.back() + 1;
  }
  return jobs;
}

}  // namespace tessera::cuda
