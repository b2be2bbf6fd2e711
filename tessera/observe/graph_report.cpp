#include "tessera/observe/graph_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tessera/base/index.h"
#include "tessera/engine/inspect.h"
#include "tessera/graph/op_info.h"
#include "tessera/observe/graph_layout.h"

namespace tessera::observe {

namespace {

using Json = nlohmann::ordered_json;

std::string_view kind_of(const MemoryPart& part) {
  constexpr std::string_view kNames[] = {"weights", "kv", "compute", "output"};
  return kNames[to_size(part.kind)];
}

// One step as JSON. Members with the default value are omitted.
class StepJson {
 public:
  StepJson(const GraphReport& report, const GraphStep& step)
      : report_(report),
        step_(step),
        graph_(step.schedule.graph),
        layout_(layout_graph(step.schedule)),
        layers_(layers_of(graph_)),
        times_(to_size(graph_.size())),
        slices_(to_size(graph_.size()), -1) {
    for (const std::vector<NodeTime>* list : {&step.log.nodes, &step.log.copies})
      for (const NodeTime& time : *list) times_[to_size(time.node)] = &time;
    for (size_t s = 0; s < step.schedule.slices.size(); ++s)
      for (NodeId id = step.schedule.slices[s].begin; id < step.schedule.slices[s].end; ++id)
        slices_[to_size(id)] = static_cast<int>(s);
  }

  Json json() const {
    Json out = {{"title", step_.title},
                {"n_tokens", step_.n_tokens},
                {"n_outputs", step_.n_outputs},
                {"us", step_.run_us},
                {"n_copies", step_.schedule.n_copies()}};
    out["slices"] = slices();
    out["blocks"] = Json::array();
    for (const GraphLayout::Block& block : layout_.blocks)
      out["blocks"].push_back(
          {{"layer", block.layer}, {"slice", block.slice}, {"w", block.width}, {"h", block.height}});
    out["edges"] = Json::array();
    for (const GraphLayout::Edge& edge : layout_.edges) {
      Json bends = Json::array();
      for (const auto& [x, y] : edge.bends) bends.insert(bends.end(), {x, y});
      out["edges"].push_back({edge.from, edge.to, std::move(bends)});
    }
    out["values"] = Json::array();
    for (size_t m = 0; m < step_.memories.size(); ++m)
      for (const MemoryPlan::Lifetime& life : step_.memories[m].lifetimes)
        out["values"].push_back(
            {life.node, m, step_.memories[m].offsets[to_size(life.node)], life.bytes, life.first, life.last});
    out["nodes"] = Json::array();
    for (NodeId id = 0; id < graph_.size(); ++id) out["nodes"].push_back(node(id));
    return out;
  }

 private:
  Json slices() const {
    Json list = Json::array();
    for (const Slice& slice : step_.schedule.slices)
      list.push_back({{"device", slice.device},
                      {"begin", slice.begin},
                      {"end", slice.end},
                      {"copies", slice.copies},
                      {"begin_us", 0.0},
                      {"us", 0.0}});
    for (const RunLog::Slice& time : step_.log.slices) {
      list[time.index]["begin_us"] = time.begin_us;
      list[time.index]["us"] = time.us;
    }
    return list;
  }

  Json node(NodeId id) const {
    const Node& node = graph_[id];
    const Assignment::Entry& entry = step_.schedule.assignment.entries[to_size(id)];
    const GraphLayout::Place& at = layout_.places[to_size(id)];
    Json sources = Json::array();
    for (const NodeId source : node.inputs()) sources.push_back(source);
    Json out = {{"op", info(node.op).name},
                {"label", label_of(graph_, id)},
                {"dtype", info(node.spec.dtype).name},
                {"shape", to_string(node.spec.shape())},
                {"bytes", span_bytes(node.spec.dtype, node.spec.layout)},
                {"sources", std::move(sources)},
                {"device", entry.device},
                {"cause", name_of(entry.cause)}};
    if (!node.name.empty()) out["name"] = node.name;
    if (entry.reason != kNoNode) out["reason"] = entry.reason;
    if (layers_[to_size(id)] >= 0) out["layer"] = layers_[to_size(id)];
    if (slices_[to_size(id)] >= 0) out["slice"] = slices_[to_size(id)];
    if (node.is_output) out["output"] = true;
    if (at.block >= 0) out["at"] = {at.block, at.x, at.y};
    if (node.alias_of != kNoNode) out["alias_of"] = graph_.storage(id);
    if (const Cost c = cost(graph_, id); c.macs > 0) out["macs"] = c.macs;
    if (const NodeTime* time = times_[to_size(id)]) out["time"] = {time->begin_us, time->us};
    add_place(id, out);
    return out;
  }

  void add_place(NodeId id, Json& out) const {
    const Node& storage = graph_[graph_.storage(id)];
    if (storage.tensor != nullptr) {
      if (storage.tensor->buffer_type != nullptr) out["memory"] = storage.tensor->buffer_type->name();
      return;
    }
    for (size_t m = 0; m < step_.memories.size(); ++m) {
      const size_t offset = step_.memories[m].offsets[to_size(id)];
      if (offset == MemoryPlan::kElsewhere) continue;
      out["memory"] = report_.memories[m]->name();
      out["offset"] = offset;
    }
  }

  const GraphReport& report_;
  const GraphStep& step_;
  const Graph& graph_;
  GraphLayout layout_;
  std::vector<int> layers_;
  std::vector<const NodeTime*> times_;  // by node; null: not reported
  std::vector<int> slices_;             // by node; -1: none
};

}  // namespace

GraphStep copy_step(const StepView& view, std::string title) {
  GraphStep step{.title = std::move(title),
                 .n_tokens = view.n_tokens,
                 .n_outputs = view.n_outputs,
                 .schedule = view.graph.schedule(),
                 .memories = view.graph.memories(),
                 .log = view.log};
  for (const RunLog::Slice& slice : view.log.slices) step.run_us = std::max(step.run_us, slice.begin_us + slice.us);
  return step;
}

std::string graph_json(const GraphReport& report) {
  Json devices = Json::array(), memories = Json::array(), buffers = Json::array(), steps = Json::array();
  for (const Device* device : report.devices)
    devices.push_back({{"name", device->name()}, {"description", device->description()}});
  for (size_t m = 0; m < report.memories.size(); ++m)
    memories.push_back({{"name", report.memories[m]->name()},
                        {"device", report.memories[m]->device().name()},
                        {"reserved", report.reserved_bytes[m]}});
  for (const MemoryPart& part : report.buffers.parts)
    buffers.push_back(
        {{"device", part.device}, {"buffer", part.buffer}, {"what", kind_of(part)}, {"bytes", part.bytes}});
  for (const GraphStep& step : report.steps) steps.push_back(StepJson(report, step).json());
  const Json all = {{"model", report.model},
                    {"architecture", report.architecture},
                    {"devices", devices},
                    {"memories", memories},
                    {"buffers", buffers},
                    {"node_width", GraphLayout::kNodeWidth},
                    {"node_height", GraphLayout::kNodeHeight},
                    {"steps", steps}};
  return all.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace tessera::observe
