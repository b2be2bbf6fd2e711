#include "tessera/backend/plugin_graph.h"

#include <algorithm>
#include <numeric>

#include "tessera/base/index.h"
#include "tessera/graph/op_info.h"

namespace tessera {

PluginGraph::PluginGraph(const Graph& graph) {
  std::vector<NodeId> ids(to_size(graph.size()));
  std::iota(ids.begin(), ids.end(), NodeId{0});
  fill(graph, ids, 0);
}

PluginGraph::PluginGraph(const Graph& graph, NodeId id) {
  std::vector<NodeId> ids;
  for (const NodeId source : graph[id].inputs())
    if (source != kNoNode && std::ranges::find(ids, source) == ids.end()) ids.push_back(source);
  std::ranges::sort(ids);
  ids.push_back(id);
  fill(graph, ids, ids.size() - 1);
}

void PluginGraph::fill(const Graph& graph, std::span<const NodeId> ids, size_t first_with_sources) {
  nodes_.resize(ids.size());
  const auto find = [&](NodeId id) -> const tessera_plugin_node* {
    const auto found = std::ranges::lower_bound(ids, id);
    return found == ids.end() || *found != id ? nullptr : &nodes_[to_size(found - ids.begin())];
  };
  std::vector<size_t> first_params, first_sources;
  for (size_t i = 0; i < ids.size(); ++i) {
    const Node& node = graph[ids[i]];
    first_params.push_back(params_.size());
    first_sources.push_back(sources_.size());
    const ParamList params = list_params(node.params);
    for (const Param& param : params.all()) params_.push_back({param.name, param.integer, param.number});
    tessera_plugin_node& out = nodes_[i];
    out.size = sizeof out;
    out.index = static_cast<uint32_t>(ids[i]);
    out.op = info(node.op).name.data();  // a string literal: ends with a NUL
    out.name = node.name.c_str();
    out.dtype = static_cast<int32_t>(node.spec.dtype);
    out.is_output = node.is_output ? 1 : 0;
    std::ranges::copy(node.spec.layout.shape.ne, out.ne);
    std::ranges::copy(node.spec.layout.nb, out.nb);
    out.n_params = static_cast<uint32_t>(params_.size() - first_params[i]);
    if (i < first_with_sources) continue;
    out.n_sources = node.n_sources;
    for (const NodeId source : node.inputs()) sources_.push_back(source == kNoNode ? nullptr : find(source));
    if (node.alias_of != kNoNode) out.alias_of = find(node.alias_of);
    out.alias_offset = node.alias_offset;
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    nodes_[i].params = params_.data() + first_params[i];
    nodes_[i].sources = sources_.data() + first_sources[i];
    pointers_.push_back(&nodes_[i]);
  }
  graph_ = {.size = sizeof graph_, .n_nodes = static_cast<uint32_t>(ids.size()), .nodes = pointers_.data()};
}

}  // namespace tessera
