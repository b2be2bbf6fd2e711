#include "tessera/sched/memory_plan.h"

#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/graph/op_info.h"

namespace tessera {

namespace {

// Free ranges below `end`, ordered by offset and never adjacent. Best fit keeps large holes whole.
class FreeList {
 public:
  Result<size_t> take(size_t bytes) {
    auto best = holes_.end();
    for (auto hole = holes_.begin(); hole != holes_.end(); ++hole)
      if (hole->bytes >= bytes && (best == holes_.end() || hole->bytes < best->bytes)) best = hole;
    if (best != holes_.end()) {
      const size_t offset = best->offset;
      best->offset += bytes;
      best->bytes -= bytes;
      if (best->bytes == 0) holes_.erase(best);
      return offset;
    }
    // No hole fits, so the buffer grows. The new range begins in the last hole if that hole touches the end.
    size_t offset = end_;
    if (!holes_.empty() && holes_.back().offset + holes_.back().bytes == end_) {
      offset = holes_.back().offset;
      holes_.pop_back();
    }
    const auto end = checked_add(offset, bytes);
    if (!end) return fail(ErrorCode::limit, "compute buffer: size overflows");
    end_ = *end;
    return offset;
  }

  void give_back(size_t offset, size_t bytes) {
    auto next = std::ranges::lower_bound(holes_, offset, {}, &Hole::offset);
    if (next != holes_.end() && offset + bytes == next->offset) {
      next->offset = offset;
      next->bytes += bytes;
    } else {
      next = holes_.insert(next, {offset, bytes});
    }
    if (next == holes_.begin()) return;
    const auto previous = next - 1;
    if (previous->offset + previous->bytes != next->offset) return;
    previous->bytes += next->bytes;
    holes_.erase(next);
  }

  size_t end() const { return end_; }

 private:
  struct Hole {
    size_t offset;
    size_t bytes;
  };
  std::vector<Hole> holes_;
  size_t end_ = 0;
};

class Planner {
 public:
  Planner(const Graph& graph, size_t alignment, const std::function<bool(NodeId)>& is_here)
      : graph_(graph), alignment_(alignment), n_(to_size(graph.size())), is_stored_(n_), last_use_(n_), bytes_(n_) {
    for (NodeId id = 0; id < graph_.size(); ++id)
      is_stored_[to_size(id)] =
          graph_[id].op != Op::tensor && graph_[id].alias_of == kNoNode && (!is_here || is_here(id));
  }

  Result<MemoryPlan> run() {
    plan_.offsets.assign(n_, MemoryPlan::kElsewhere);
    find_last_uses();
    for (NodeId id = 0; id < graph_.size(); ++id)
      if (graph_[id].op == Op::input && is_stored(id)) TESSERA_TRY(assign_offset(id, 0));
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (graph_[id].op != Op::input && is_stored(id)) TESSERA_TRY(assign_offset(id, id));
      release_dead(id);
    }
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const size_t at = plan_.offsets[to_size(graph_.storage(id))];
      if (at != MemoryPlan::kElsewhere) plan_.offsets[to_size(id)] = at + graph_.storage_offset(id);
    }
    plan_.bytes = free_.end();
    return std::move(plan_);
  }

 private:
  bool is_stored(NodeId id) const { return is_stored_[to_size(id)]; }

  // The readers of all aliases of a value read it. A value without readers lives for its own node only.
  void find_last_uses() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      last_use_[to_size(id)] = id;
      for (const NodeId source : graph_[id].inputs())
        if (source != kNoNode) last_use_[to_size(graph_.storage(source))] = id;
    }
    for (NodeId id = 0; id < graph_.size(); ++id)
      if (graph_[id].is_output) last_use_[to_size(graph_.storage(id))] = graph_.size();
  }

  Result<> assign_offset(NodeId id, NodeId first) {
    const TensorSpec& spec = graph_[id].spec;
    const auto rounded = checked_round_up(std::max<size_t>(span_bytes(spec.dtype, spec.layout), 1), alignment_);
    if (!rounded) return fail(ErrorCode::limit, "node {}: size overflows", graph_[id].name);
    bytes_[to_size(id)] = *rounded;
    plan_.lifetimes.push_back({id, first, std::min(last_use_[to_size(id)], graph_.size() - 1), *rounded});
    if (const NodeId reused = operand_to_replace(id); reused != kNoNode) {
      plan_.offsets[to_size(id)] = plan_.offsets[to_size(reused)];
      bytes_[to_size(reused)] = 0;  // its bytes now belong to the result
      return {};
    }
    TESSERA_ASSIGN(plan_.offsets[to_size(id)], free_.take(*rounded));
    return {};
  }

  // An operand whose last reader is this node, and whose bytes the result can overwrite element by element.
  NodeId operand_to_replace(NodeId id) const {
    const Node& node = graph_[id];
    for (size_t i = 0; i < node.n_sources; ++i) {
      const NodeId source = node.sources[i];
      if (source == kNoNode || !may_run_in_place(node.op, i)) continue;
      const NodeId storage = graph_.storage(source);
      const bool whole = graph_.storage_offset(source) == 0 && graph_[source].spec.layout == node.spec.layout &&
                         graph_[source].spec.dtype == node.spec.dtype;
      if (whole && is_stored(storage) && last_use_[to_size(storage)] == id &&
          bytes_[to_size(storage)] == bytes_[to_size(id)] && !is_read_elsewhere(node, storage, i))
        return storage;
    }
    return kNoNode;
  }

  // The same storage as another operand could be read after it was overwritten.
  bool is_read_elsewhere(const Node& node, NodeId storage, size_t except) const {
    for (size_t i = 0; i < node.n_sources; ++i)
      if (i != except && node.sources[i] != kNoNode && graph_.storage(node.sources[i]) == storage) return true;
    return false;
  }

  // Releases the values whose last reader is node id: its operands, and its own value if nobody reads it.
  void release_dead(NodeId id) {
    release_if_last(id, id);
    for (const NodeId source : graph_[id].inputs())
      if (source != kNoNode) release_if_last(graph_.storage(source), id);
  }

  void release_if_last(NodeId storage, NodeId reader) {
    size_t& bytes = bytes_[to_size(storage)];
    if (!is_stored(storage) || last_use_[to_size(storage)] != reader || bytes == 0) return;
    free_.give_back(plan_.offsets[to_size(storage)], bytes);
    bytes = 0;
  }

  const Graph& graph_;
  const size_t alignment_;
  const size_t n_;
  std::vector<bool> is_stored_;   // values of their own in this buffer
  std::vector<NodeId> last_use_;  // per storage: the last node that reads it; size() for outputs
  std::vector<size_t> bytes_;     // per storage: the bytes it holds now
  FreeList free_;
  MemoryPlan plan_;
};

}  // namespace

Result<MemoryPlan> plan_memory(const Graph& graph, size_t alignment, const std::function<bool(NodeId)>& is_here) {
  return Planner(graph, alignment, is_here).run();
}

}  // namespace tessera
