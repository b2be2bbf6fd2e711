#include "tessera/sched/slice_waits.h"

#include <algorithm>

#include "tessera/base/index.h"
#include "tessera/graph/op_info.h"

namespace tessera {

SliceWaits::SliceWaits(const Graph& graph, std::span<const Device* const> devices)
    : graph_(graph),
      devices_(devices),
      n_up_to_writer_(to_size(graph.size())),
      n_slices_(devices.size()),
      n_up_to_copier_(devices.size(), std::vector<uint32_t>(devices.size())) {}

void SliceWaits::add_copy(Slice& slice, NodeId storage, const BufferType& memory) {
  const auto to = to_size(slice.device);
  const bool is_tensor = graph_[storage].op == Op::tensor;
  slice.ended.resize(devices_.size());
  for (size_t from = 0; from < devices_.size(); ++from) {
    if (!devices_[from]->can_use(memory)) continue;
    n_up_to_copier_[to][from] = n_slices_[to] + 1;
    if (is_tensor) slice.ended[from] = n_slices_[from];
  }
  if (is_tensor || n_up_to_writer(storage) == 0) return;
  const Made& writer = slices_[n_up_to_writer(storage) - 1];
  slice.ended[writer.device] = std::max(slice.ended[writer.device], writer.number + 1);
}

bool SliceWaits::add_slice(Slice& slice, NodeId begin, NodeId end) {
  const auto own = to_size(slice.device);
  slice.ended.resize(devices_.size());
  slice.copied.resize(devices_.size());
  for (size_t other = 0; other < devices_.size(); ++other) {
    if (other == own) continue;
    // Devices with shared memory make no copies from which dependencies could be found, so their slices keep their
    // order.
    const Device &a = *devices_[own], &b = *devices_[other];
    if (a.can_use(b.buffer_type()) || b.can_use(a.buffer_type())) slice.ended[other] = n_slices_[other];
    slice.copied[other] = n_up_to_copier_[other][own];
  }
  const bool can_overlap = !slices_.empty() && slices_.back().device != own &&
                           slice.ended[slices_.back().device] < n_slices_[slices_.back().device];
  slices_.push_back({own, n_slices_[own]++});
  for (NodeId id = begin; id < end; ++id) {
    const Node& node = graph_[id];
    if (!node.is_work()) continue;
    n_up_to_writer_[to_size(graph_.storage(id))] = slices_.size();
    for (size_t i = 0; i < node.n_sources; ++i)
      if (node.sources[i] != kNoNode && writes_operand(node, i))
        n_up_to_writer_[to_size(graph_.storage(node.sources[i]))] = slices_.size();
  }
  return can_overlap;
}

}  // namespace tessera
