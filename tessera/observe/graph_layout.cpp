#include "tessera/observe/graph_layout.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tessera/base/index.h"
#include "tessera/engine/inspect.h"

namespace tessera::observe {

namespace {

constexpr int kSweeps = 6;
constexpr double kBendWidth = 14;
constexpr double kRowPitch = GraphLayout::kNodeHeight + GraphLayout::kGapY;

// An item in a row of a block: a node, or the point where edges of `node` pass.
struct Item {
  NodeId node;
  bool is_bend;
  size_t row;
  double x = 0;  // of its center
  std::vector<size_t> above{}, below{};

  double width() const { return is_bend ? kBendWidth : GraphLayout::kNodeWidth; }
};

// Arranges one block in rows.
class BlockLayouter {
 public:
  BlockLayouter(GraphLayout& layout, const std::vector<std::vector<NodeId>>& sources, GraphLayout::Block& block)
      : layout_(layout), sources_(sources), block_(block) {}

  void run() {
    for (const NodeId id : block_.nodes) add_node(id);
    for (size_t item = 0; item < block_.nodes.size(); ++item)
      for (const NodeId source : sources_of(block_.nodes[item]))
        if (is_here(source)) add_edge(item_of(source), item);
    for (std::vector<size_t>& row : rows_) spread(row);
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      for (size_t y = 1; y < rows_.size(); ++y) settle(rows_[y], &Item::above);
      for (size_t y = rows_.size() - 1; y-- > 0;) settle(rows_[y], &Item::below);
    }
    place();
  }

 private:
  GraphLayout::Place& place_of(NodeId id) { return layout_.places[to_size(id)]; }
  const std::vector<NodeId>& sources_of(NodeId id) const { return sources_[to_size(id)]; }
  bool is_here(NodeId id) { return place_of(id).block == place_of(block_.nodes[0]).block; }
  size_t item_of(NodeId id) const { return to_size(std::ranges::lower_bound(block_.nodes, id) - block_.nodes.begin()); }

  void add_node(NodeId id) {
    size_t row = 0;
    for (const NodeId source : sources_of(id))
      if (is_here(source)) row = std::max(row, items_[item_of(source)].row + 1);
    add_item({.node = id, .is_bend = false, .row = row});
  }

  size_t add_item(Item item) {
    if (item.row >= rows_.size()) rows_.resize(item.row + 1);
    rows_[item.row].push_back(items_.size());
    items_.push_back(std::move(item));
    return items_.size() - 1;
  }

  // Edges of one node pass a row at the same point.
  void add_edge(size_t from, size_t to) {
    size_t last = from;
    for (size_t row = items_[from].row + 1; row < items_[to].row; ++row) {
      const auto [entry, is_new] = bends_.try_emplace({from, row}, items_.size());
      const size_t bend = entry->second;
      if (is_new) {
        add_item({.node = items_[from].node, .is_bend = true, .row = row});
        connect(last, bend);
      }
      last = bend;
    }
    connect(last, to);
    edges_.push_back({from, to});
  }

  void connect(size_t above, size_t below) {
    items_[above].below.push_back(below);
    items_[below].above.push_back(above);
  }

  static double pitch(const Item& left, const Item& right) {
    return (left.width() + right.width()) / 2 + GraphLayout::kGapX;
  }

  void spread(std::span<const size_t> row) {
    double x = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) x += pitch(items_[row[i - 1]], items_[row[i]]);
      items_[row[i]].x = x;
    }
    for (const size_t item : row) items_[item].x -= x / 2;
  }

  // Moves each item to the mean of its neighbours in one direction. Items that would overlap are pushed to the right,
  // and then the row is moved back by the mean of the pushes.
  void settle(std::vector<size_t>& row, std::vector<size_t> Item::*neighbours) {
    std::vector<std::pair<double, size_t>> wanted;
    for (const size_t item : row) {
      double sum = 0;
      for (const size_t other : items_[item].*neighbours) sum += items_[other].x;
      const auto n = static_cast<double>((items_[item].*neighbours).size());
      wanted.emplace_back(n == 0 ? items_[item].x : sum / n, item);
    }
    std::ranges::stable_sort(wanted, {}, &std::pair<double, size_t>::first);
    double pushed = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = wanted[i].second;
      Item& item = items_[row[i]];
      item.x = wanted[i].first;
      if (i > 0) item.x = std::max(item.x, items_[row[i - 1]].x + pitch(items_[row[i - 1]], item));
      pushed += item.x - wanted[i].first;
    }
    for (const size_t item : row) items_[item].x -= pushed / static_cast<double>(row.size());
  }

  void place() {
    double left = HUGE_VAL, right = -HUGE_VAL;
    for (const Item& item : items_) {
      left = std::min(left, item.x - item.width() / 2);
      right = std::max(right, item.x + item.width() / 2);
    }
    for (Item& item : items_) {
      item.x -= left;
      if (item.is_bend) continue;
      place_of(item.node).x = std::round(item.x - item.width() / 2);
      place_of(item.node).y = static_cast<double>(item.row) * kRowPitch;
    }
    for (const auto& [from, to] : edges_) {
      GraphLayout::Edge edge{items_[from].node, items_[to].node, {}};
      for (size_t row = items_[from].row + 1; row < items_[to].row; ++row)
        edge.bends.emplace_back(std::round(items_[bends_.at({from, row})].x), static_cast<double>(row) * kRowPitch);
      layout_.edges.push_back(std::move(edge));
    }
    block_.width = std::round(right - left);
    block_.height = static_cast<double>(rows_.size()) * kRowPitch - GraphLayout::kGapY;
  }

  GraphLayout& layout_;
  const std::vector<std::vector<NodeId>>& sources_;  // drawn ones, by node
  GraphLayout::Block& block_;
  std::vector<Item> items_;  // the block's nodes in order, then bends
  std::vector<std::vector<size_t>> rows_;
  std::map<std::pair<size_t, size_t>, size_t> bends_;  // (item, row) to the bend of its edges
  std::vector<std::pair<size_t, size_t>> edges_;
};

class Layouter {
 public:
  explicit Layouter(const Schedule& schedule) : schedule_(schedule), graph_(schedule.graph) {}

  GraphLayout run() {
    layout_.places.resize(to_size(graph_.size()));
    make_blocks();
    find_sources();
    for (GraphLayout::Block& block : layout_.blocks) BlockLayouter(layout_, sources_, block).run();
    for (NodeId id = 0; id < graph_.size(); ++id)
      for (const NodeId source : sources_[to_size(id)])
        if (block_of(source) != block_of(id)) layout_.edges.push_back({source, id, {}});
    return std::move(layout_);
  }

 private:
  int block_of(NodeId id) const { return layout_.places[to_size(id)].block; }

  // Consecutive nodes of the same layer and slice form one block.
  void make_blocks() {
    const std::vector<int> layers = layers_of(graph_);
    size_t slice = 0;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      while (slice < schedule_.slices.size() && id >= schedule_.slices[slice].end) ++slice;
      if (!graph_[id].is_work()) continue;
      const bool is_inside = slice < schedule_.slices.size() && id >= schedule_.slices[slice].begin;
      const int in_slice = is_inside ? static_cast<int>(slice) : -1;
      const int layer = layers[to_size(id)];
      auto& blocks = layout_.blocks;
      if (blocks.empty() || blocks.back().layer != layer || blocks.back().slice != in_slice)
        blocks.push_back({.layer = layer, .slice = in_slice, .nodes = {}});
      blocks.back().nodes.push_back(id);
      layout_.places[to_size(id)].block = static_cast<int>(blocks.size()) - 1;
    }
  }

  void find_sources() {
    sources_.resize(to_size(graph_.size()));
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!layout_.is_drawn(id)) continue;
      std::vector<NodeId>& sources = sources_[to_size(id)];
      for (const NodeId source : graph_[id].inputs()) {
        const NodeId from = source == kNoNode ? kNoNode : drawn_source(graph_, source);
        if (from != kNoNode && std::ranges::find(sources, from) == sources.end()) sources.push_back(from);
      }
    }
  }

  const Schedule& schedule_;
  const Graph& graph_;
  std::vector<std::vector<NodeId>> sources_;  // drawn ones, by node
  GraphLayout layout_;
};

}  // namespace

NodeId drawn_source(const Graph& graph, NodeId source) {
  while (graph[source].op == Op::view) source = graph[source].sources[0];
  return graph[source].is_leaf() ? kNoNode : source;
}

GraphLayout layout_graph(const Schedule& schedule) { return Layouter(schedule).run(); }

}  // namespace tessera::observe
