// Steps of a session as they are shown: the schedule, where values lie, when what ran. `tessera graph` gathers them
// and writes them as a page (graph_page), as DOT (graph_dot) or as JSON.
#pragma once

#include <string>
#include <vector>

#include "tessera/engine/session.h"

namespace tessera::observe {

struct GraphStep {
  std::string title;  // "prefill"
  int64_t n_tokens = 0;
  int64_t n_outputs = 0;
  Schedule schedule;
  std::vector<MemoryPlan> memories;  // by memory of the executor
  RunLog log;
  double run_us = 0;
};

/// The devices and memories are those of the session that ran the steps; it must outlive the report.
struct GraphReport {
  std::string model;  // its name, which may be any bytes
  std::string architecture;
  std::vector<const Device*> devices;
  std::vector<const BufferType*> memories;
  std::vector<size_t> reserved_bytes;  // by memory
  MemoryReport buffers;
  std::vector<GraphStep> steps;
};

/// A copy of what a step's observer is shown.
GraphStep copy_step(const StepView& view, std::string title);

/// The report with the layout of each step (graph_layout.h), as ASCII JSON: the page's data.
std::string graph_json(const GraphReport& report);

/// The graph of every step: a cluster for each, in it one for each slice; copies are dashed.
std::string graph_dot(const GraphReport& report);

/// One page that needs nothing from elsewhere. Whatever names hold stays text.
std::string graph_page(const GraphReport& report);

}  // namespace tessera::observe
