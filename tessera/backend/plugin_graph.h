// Converts a graph to the C structs of the plugin interface.
#pragma once

#include <vector>

#include "tessera/backend_plugin.h"
#include "tessera/graph/node.h"

namespace tessera {

/// A graph in C structs. Points into the original graph, which must outlive it.
class PluginGraph {
 public:
  /// All nodes.
  explicit PluginGraph(const Graph& graph);
  /// One node and its sources, which appear without their own sources.
  PluginGraph(const Graph& graph, NodeId id);
  PluginGraph(const PluginGraph&) = delete;
  PluginGraph& operator=(const PluginGraph&) = delete;

  const tessera_plugin_graph* get() const { return &graph_; }
  /// The last node. For a graph of one node with its sources, this is that node.
  const tessera_plugin_node* last() const { return pointers_.back(); }

 private:
  void fill(const Graph& graph, std::span<const NodeId> ids, size_t first_with_sources);

  std::vector<tessera_plugin_node> nodes_;
  std::vector<const tessera_plugin_node*> pointers_;
  std::vector<const tessera_plugin_node*> sources_;
  std::vector<tessera_plugin_param> params_;
  tessera_plugin_graph graph_{};
};

}  // namespace tessera
