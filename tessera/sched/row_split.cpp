#include "tessera/sched/row_split.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/graph/builder.h"
#include "tessera/graph/op_info.h"

namespace tessera {

namespace {

class RowSplitter {
 public:
  explicit RowSplitter(const Graph& graph)
      : graph_(graph),
        changed_(changed_storages(graph)),
        ids_(to_size(graph.size()), kNoNode),
        products_(to_size(graph.size())) {}

  Result<RowSplit> run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (is_split(id)) continue;  // its parts are added with the products
      if (is_split_product(id)) {
        if (products_[to_size(id)].empty()) multiply_all(id);
        put_together(id);
        continue;
      }
      for (const NodeId source : graph_[id].inputs())
        if (source != kNoNode && is_split(graph_.storage(source)))
          return fail(ErrorCode::unsupported, "{} reads {}, whose rows lie in several memories", describe(graph_, id),
                      graph_[graph_.storage(source)].name);
      Node node = graph_[id];
      for (size_t i = 0; i < node.n_sources; ++i)
        if (node.sources[i] != kNoNode) node.sources[i] = new_id(node.sources[i]);
      if (node.alias_of != kNoNode) node.alias_of = new_id(node.alias_of);
      keep(id, builder_.append(std::move(node)));
    }
    for (NodeId id = 0; id < graph_.size(); ++id)
      if (is_split(id)) keep(id, part(id, 0).id());
    TESSERA_ASSIGN(Graph graph, std::move(builder_).finish());
    std::vector<NodeId> given(to_size(graph.size()), kNoNode);
    for (NodeId id = 0; id < graph_.size(); ++id) given[to_size(new_id(id))] = id;
    return RowSplit{std::move(graph), std::move(ids_), std::move(given)};
  }

 private:
  const std::vector<Tensor>& parts_of(NodeId matrix) const { return *graph_[matrix].tensor->row_parts; }
  bool is_split(NodeId id) const { return graph_[id].tensor != nullptr && graph_[id].tensor->row_parts != nullptr; }
  bool is_split_product(NodeId id) const { return graph_[id].op == Op::mul_mat && is_split(graph_[id].sources[0]); }

  NodeId new_id(NodeId id) const { return ids_[to_size(id)]; }
  void keep(NodeId id, NodeId now) { ids_[to_size(id)] = now; }

  Value part(NodeId matrix, size_t i) {
    Value& leaf = leaves_[{matrix, i}];
    if (!leaf.present()) leaf = builder_.tensor(parts_of(matrix)[i]);
    return leaf;
  }

  // The parts of a product and of later products with the same x: first parts on other devices, then on the primary
  // one.
  void multiply_all(NodeId first) {
    const NodeId x = graph_[first].sources[1];
    std::vector<NodeId> group = {first};
    if (!changed_[to_size(graph_.storage(x))])
      for (NodeId id = first + 1; id < graph_.size(); ++id)
        if (is_split_product(id) && graph_[id].sources[1] == x) group.push_back(id);
    for (const bool on_primary : {false, true})
      for (const NodeId id : group) {
        const NodeId matrix = graph_[id].sources[0];
        const std::vector<Tensor>& parts = parts_of(matrix);
        std::vector<Value>& products = products_[to_size(id)];
        products.resize(parts.size());
        for (size_t i = 0; i < parts.size(); ++i) {
          if ((parts[i].buffer_type == graph_[matrix].tensor->buffer_type) != on_primary) continue;
          const Value product = builder_.mul_mat(part(matrix, i), builder_.at(new_id(x)));
          products[i] = builder_.name(product, parts[i].name);
        }
      }
  }

  void put_together(NodeId id) {
    const std::vector<Value>& products = products_[to_size(id)];
    Value sum = products[0];
    for (size_t i = 1; i < products.size(); ++i) sum = builder_.concat(sum, products[i]);
    const Node& node = graph_[id];
    keep(id, (node.is_output ? builder_.output(sum, node.name) : builder_.name(sum, node.name)).id());
  }

  const Graph& graph_;
  const std::vector<bool> changed_;
  GraphBuilder builder_;
  std::vector<NodeId> ids_;
  std::vector<std::vector<Value>> products_;           // of parts, by product of the given graph
  std::map<std::pair<NodeId, size_t>, Value> leaves_;  // by matrix and part
};

}  // namespace

Result<std::optional<RowSplit>> split_rows(const Graph& graph) {
  const auto is_split = [](const Node& node) { return node.tensor != nullptr && node.tensor->row_parts != nullptr; };
  if (std::ranges::none_of(graph.nodes(), is_split)) return std::nullopt;
  TESSERA_ASSIGN(RowSplit split, RowSplitter(graph).run());
  return split;
}

}  // namespace tessera
