// Differences between the values of a step's nodes in two sessions of one model.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/engine/session.h"

namespace tessera::observe {

enum class CompareMode : uint8_t {
  whole,  // the second session runs the whole step, so errors accumulate as in normal use
  each,   // each node of the second session reads the operands of the first: errors of single operations
};

/// Returns the normalised mean square error of got against want: sum (got - want)^2 / sum want^2. It is infinite if the
/// quotient is not finite.
double nmse(std::span<const float> want, std::span<const float> got);

/// True for nodes whose values are compared: nodes that compute floats into memory of their own.
bool is_compared(const Graph& graph, NodeId id);

struct ComparedNode {
  std::string step;  // "prefill"
  NodeId node = kNoNode;
  std::string op, label, operation;  // operation: readable text with the operands
  int layer = -1;
  double nmse = 0;
  double largest_difference = 0;
};

/// Records the values and inputs of the steps that a session runs.
class StepRecorder {
 public:
  struct Step {
    Graph graph;
    std::map<NodeId, std::vector<std::byte>> bytes;  // of inputs and of nodes that compute into memory of their own
  };

  /// Returns a value for SessionOptions::watch. The recorder must outlive the session.
  ValueWatch watch();
  void clear() { steps_.clear(); }
  void begin_step() { steps_.emplace_back(); }
  const std::vector<Step>& steps() const { return steps_; }

 private:
  Result<> see(const PreparedGraph& prepared, NodeId id);
  std::vector<Step> steps_;
};

/// Compares the records of a step in two sessions. Errors: mismatch (the graphs differ).
Result<std::vector<ComparedNode>> compare_recorded(const StepRecorder::Step& want, const StepRecorder::Step& got,
                                                   const std::string& name);

/// Runs each node of a recorded step by itself on the device of the session's schedule, with the session's weights and
/// caches and the given backends of its devices. Errors: unsupported (recurrent layers); the errors of a run.
Result<std::vector<ComparedNode>> compare_each(const StepRecorder::Step& want, const Session& session,
                                               const Schedule& schedule,
                                               std::span<const std::unique_ptr<Backend>> backends,
                                               const std::string& name);

}  // namespace tessera::observe
