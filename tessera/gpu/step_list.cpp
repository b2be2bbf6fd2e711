#include "tessera/gpu/step_list.h"

#include <algorithm>
#include <cstring>

#include "tessera/base/checked.h"
#include "tessera/gpu/buffer.h"
#include "tessera/graph/op_info.h"

namespace tessera::gpu {

namespace {

constexpr size_t kParamsAlignment = 16, kScratchAlignment = 256;

// Tensors without memory occur only when sizes are computed; their address is 0.
uint64_t address_of(const Tensor& tensor) {
  if (tensor.buffer == nullptr) return 0;
  return static_cast<const GpuBuffer*>(tensor.buffer)->address() + tensor.offset;
}

OperandParams operand_of(const Tensor& tensor) {
  OperandParams params{.data = address_of(tensor), .ne = {}, .nb = {}};
  for (size_t i = 0; i < kMaxRank; ++i) {
    params.ne[i] = static_cast<uint32_t>(tensor.layout.shape.ne[i]);
    params.nb[i] = static_cast<uint32_t>(tensor.layout.nb[i]);
  }
  return params;
}

size_t params_bytes_of(const Step& step) {
  return round_up(sizeof(StepParams) + step.extra.size() * sizeof(uint32_t), kParamsAlignment);
}

std::string_view name_of(uint32_t fault) {
  constexpr std::string_view kNames[] = {"value", "row",    "cell",  "sequence", "position",
                                         "block", "expert", "token", "state"};
  return kNames[fault < std::size(kNames) ? fault : 0];
}

}  // namespace

Result<> StepList::make(const StepContext& of_any_node, const OwnKernels& own) {
  graph_ = &of_any_node.graph;
  const Graph& graph = of_any_node.graph;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph[id];
    const OpKernel* kernel = kernel_of(node.op, own);
    if (kernel == nullptr) continue;
    const StepContext context{.graph = graph,
                              .node = node,
                              .tensors = of_any_node.tensors,
                              .n_lanes = of_any_node.n_lanes,
                              .matrices = of_any_node.matrices,
                              .is_precise = of_any_node.is_precise,
                              .shared_bytes = of_any_node.shared_bytes,
                              .has_wide = of_any_node.has_wide};
    Step step{.node = &node, .params = {}, .extra = {}};
    std::vector<Touched> touched;
    const auto touch = [&](const Tensor& tensor, bool is_written) {
      const uint64_t begin = address_of(tensor);
      touched.push_back({begin, begin + span_bytes(tensor.dtype, tensor.layout), is_written});
    };
    const Tensor& tensor = of_any_node.tensors[to_size(id)];
    step.params.y = operand_of(tensor);
    touch(tensor, true);
    for (size_t i = 0; i < node.n_sources; ++i) {
      if (!context.has(i)) continue;
      step.params.x[i] = operand_of(context.tensor(i));
      touch(context.tensor(i), writes_operand(node, i));
    }
    Step merge = step;
    TESSERA_TRY(kernel->prepare(context, step));
    const size_t scratch = kernel->scratch_bytes == nullptr ? 0 : kernel->scratch_bytes(context);
    if (scratch != 0) TESSERA_TRY(kernel->prepare_merge(context, merge));
    add(std::move(step), touched, scratch != 0);
    if (scratch != 0) add(std::move(merge), std::move(touched), true);
    scratch_bytes_ = std::max(scratch_bytes_, scratch);
  }
  return {};
}

// A step without work also reserves space for its parameters, so that the size depends only on the nodes.
void StepList::add(Step step, std::vector<Touched> touched, bool uses_scratch) {
  const size_t offset = params_bytes_;
  params_bytes_ += params_bytes_of(step);
  if (step.params.n_groups == 0) return;
  has_extra_ |= !step.extra.empty();
  if (uses_scratch) uses_scratch_.push_back(steps_.size());
  steps_.push_back(std::move(step));
  touched_.push_back(std::move(touched));
  params_offsets_.push_back(offset);
}

size_t StepList::scratch_offset() const { return round_up(params_bytes_, kScratchAlignment); }

void StepList::bind(const StepMemory& memory) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    StepParams& params = steps_[i].params;
    params.tables = memory.tables;
    params.fault = memory.fault;
    params.id = static_cast<uint32_t>(i);
    params.extra = memory.work + params_offsets_[i] + sizeof(StepParams);
  }
  const uint64_t scratch = memory.work + scratch_offset();
  for (const size_t i : uses_scratch_) {
    steps_[i].params.scratch = scratch;
    touched_[i].push_back({scratch, scratch + scratch_bytes_, true});
  }
}

std::vector<std::byte> StepList::image() const {
  std::vector<std::byte> image(params_bytes_);
  for (size_t i = 0; i < steps_.size(); ++i) {
    std::byte* to = image.data() + params_offsets_[i];
    std::memcpy(to, &steps_[i].params, sizeof(StepParams));
    const std::vector<uint32_t>& extra = steps_[i].extra;
    if (!extra.empty()) std::memcpy(to + sizeof(StepParams), extra.data(), extra.size() * sizeof(uint32_t));
  }
  return image;
}

Result<> StepList::check(const FaultWords& fault) const {
  if (fault.step == 0) return {};
  const Node& node = *steps_[fault.step - 1].node;
  return fail(ErrorCode::invalid_argument, "{} {}: {} {}, want 0 to {}", info(node.op).name, node.name,
              name_of(fault.what), fault.value, int64_t{fault.limit} - 1);
}

}  // namespace tessera::gpu
