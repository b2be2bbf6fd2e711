// Report of a session's steps: the schedule, the memory of values, and the timeline. `tessera graph` collects it and
// writes it as a page (graph_page), as DOT (graph_dot) or as JSON.
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
  std::vector<MemoryPlan> memories;  // one per memory of the executor
  RunLog log;
  double run_us = 0;
};

/// The devices and memories belong to the session that ran the steps, which must outlive the report.
struct GraphReport {
  std::string model;  // its name; may contain any bytes
  std::string architecture;
  std::vector<const Device*> devices;
  std::vector<const BufferType*> memories;
  std::vector<size_t> reserved_bytes;  // by memory
  MemoryReport buffers;
  std::vector<GraphStep> steps;
};

/// Copies the data that a step's observer gets.
GraphStep copy_step(const StepView& view, std::string title);

/// Tokens of a prefill step, or of the text of a diffusion model, if nothing else is asked for and as many fit.
inline constexpr int64_t kUsualStepTokens = 512;

/// Runs a prefill step of n_tokens and a decode step in a session, which it clears, and reports the fastest of three
/// rounds. Of a diffusion model it runs one step on a text of n_tokens. n_tokens 0: 512, or as many as fit. Errors:
/// limit (more tokens than a micro-batch or the context has); those of Session::decode() and encode().
Result<GraphReport> measure_steps(Session& session, int64_t n_tokens, const CancelToken* cancel);

/// Returns the report with the layout of each step (graph_layout.h) as ASCII JSON, the data of the page.
std::string graph_json(const GraphReport& report);

/// Returns the graphs of all steps as DOT: a cluster per step, and in it a cluster per slice. Copies are dashed.
std::string graph_dot(const GraphReport& report);

/// Returns a self-contained HTML page. Names from the model file are always shown as text.
std::string graph_page(const GraphReport& report);

}  // namespace tessera::observe
