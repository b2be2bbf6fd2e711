#include "tessera/observe/time_account.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/graph/op_info.h"

namespace tessera::observe {

namespace {

constexpr std::string_view kFamilies[] = {
#define TESSERA_OP(name, family, parameters, devices) #family,
#include "tessera/graph/ops.def"
};

constexpr std::pair<std::string_view, std::string_view> kLabels[] = {
    {"attention", "attention"},
    {"elementwise", "element-wise operations"},
    {"experts", "choice of experts"},
    {"kv", "writing the KV cache"},
    {"norm", "norms"},
    {"recurrent", "recurrent layers"},
    {"rope", "RoPE"},
    {"rows", "rows of tables"},
    {"self_attention", "attention"},
    {"shape", "rearranging values"},
};

bool is_product(Op op) { return kFamilies[to_size(op)] == "matmul" || op == Op::mul_mat_experts; }

DType weight_type(const Graph& graph, NodeId product) { return graph[graph[product].sources[0]].spec.dtype; }

std::string part_of(const Graph& graph, NodeId id) {
  const Op op = graph[id].op;
  if (is_product(op)) return fmt::format("products {}", info(weight_type(graph, id)).name);
  const std::string_view family = kFamilies[to_size(op)];
  const auto* found = std::ranges::find(kLabels, family, [](const auto& label) { return label.first; });
  return std::string(found == std::end(kLabels) ? family : found->second);
}

double us_at(double amount, double giga_per_second) {
  return giga_per_second > 0 ? amount * 1e-3 / giga_per_second : 0.0;
}

}  // namespace

void TimeAccountant::add_work(Sums& part, const StepView& step, NodeId id, int64_t position) const {
  const Schedule& schedule = step.graph.schedule();
  const Graph& graph = schedule.graph;
  const Node& node = graph[id];
  const DevicePeaks& peaks = peaks_[to_size(schedule.assignment.device(id))];
  double macs = 0, bytes = 0;
  Arithmetic arithmetic = Arithmetic::f32;
  if (is_product(node.op)) {
    const ProductCost product = product_cost(graph, id);
    macs = product.macs;
    bytes = product.weight_bytes;
    arithmetic = product_arithmetic(product.type, activations_);
  } else if (node.op == Op::paged_attention || node.op == Op::choose_keys) {
    const auto* params = std::get_if<AttentionParams>(&node.params);
    if (params != nullptr && params->int16 && peaks.int16_gmacs > 0) arithmetic = Arithmetic::int16;
    const AttentionCost of_attention = attention_cost(graph, node);
    macs = of_attention.macs_at(position, step.n_tokens);
    bytes = of_attention.bytes_at(position, step.n_tokens);
  } else if (kFamilies[to_size(node.op)] == "recurrent") {
    macs = static_cast<double>(cost(graph, id).macs);
  }
  part.macs += macs;
  part.bytes += bytes;
  double* const bounds[] = {&part.f32_us, &part.int16_us, &part.int8_us};
  const double compute_us = us_at(macs, peaks.gmacs(arithmetic));
  const double read_us = us_at(bytes, peaks.read_gbps);
  double& bound = read_us >= compute_us ? part.read_us : *bounds[to_size(arithmetic)];
  bound += std::max(read_us, compute_us);
}

// The work of a node that the log lacks is part of the node before it, with which the device has fused it.
void TimeAccountant::add_nodes(const StepView& step, int64_t position) {
  const Graph& graph = step.graph.schedule().graph;
  std::vector<const NodeTime*> times(to_size(graph.size()));
  for (const NodeTime& time : step.log.nodes) times[to_size(time.node)] = &time;
  Sums* part = nullptr;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (const NodeTime* time = times[to_size(id)]) {
      part = &parts_[part_of(graph, id)];
      part->us += time->us - time->prepare_us - time->wait_us;
      parts_["packing activations"].us += time->prepare_us;
      parts_["waiting for other threads"].us += time->wait_us;
    }
    if (part != nullptr) add_work(*part, step, id, position);
  }
}

// The time of slices in which no node ran, and of devices that do not measure nodes.
void TimeAccountant::add_gaps(const StepView& step) {
  const Schedule& schedule = step.graph.schedule();
  std::vector<double> us(schedule.slices.size());
  double end = 0, of_slices = 0;
  for (const RunLog::Slice& slice : step.log.slices) {
    us[slice.index] = slice.us;
    of_slices += slice.us;
    end = std::max(end, slice.begin_us + slice.us);
  }
  for (size_t i = 0; i < us.size(); ++i) {
    const Slice& slice = schedule.slices[i];
    double of_nodes = 0;
    for (const NodeTime& time : step.log.nodes)
      if (time.node >= slice.begin && time.node < slice.end) of_nodes += time.us;
    if (of_nodes > 0)
      parts_["between operations"].us += std::max(us[i] - of_nodes, 0.0);
    else
      parts_["operations that are not measured"].us += us[i];
  }
  parts_["between operations"].us += std::max(end - of_slices, 0.0);  // slices may overlap
  for (const NodeTime& copy : step.log.copies) parts_["copies between devices"].us += copy.us;
  steps_us_ += end;
}

void TimeAccountant::add(const StepView& step, int64_t position) {
  add_nodes(step, position);
  add_gaps(step);
}

TimeAccount TimeAccountant::account(double total_us) const {
  TimeAccount account{.us = total_us};
  const auto add_part = [&](const std::string& name, const Sums& sums) {
    if (sums.us <= 0) return;
    WorkPart part{.name = name, .us = sums.us, .macs = sums.macs, .bytes = sums.bytes, .bound = ""};
    part.bound_us = sums.int8_us + sums.int16_us + sums.f32_us + sums.read_us;
    if (part.bound_us > 0)
      part.bound = std::max({std::pair(sums.int8_us, std::string_view("int8")),
                             {sums.int16_us, "int16"},
                             {sums.f32_us, "f32"},
                             {sums.read_us, "read"}})
                       .second;
    account.bound_us += part.bound_us;
    account.parts.push_back(std::move(part));
  };
  for (const auto& [name, sums] : parts_) add_part(name, sums);
  add_part("between steps", {.us = total_us - steps_us_});
  std::ranges::stable_sort(account.parts, std::greater(), &WorkPart::lost_us);
  return account;
}

}  // namespace tessera::observe
