// The values of a step's nodes on two sessions of one model: how far the second's are from the first's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/engine/session.h"

namespace tessera::observe {

enum class CompareMode : uint8_t {
  whole,  // the second session runs the step by itself, so that errors add up as they do in use
  each,   // each node of the second gets the operands that the first had: errors of one operation at a time
};

/// The normalised mean square error of got against want: sum (got - want)^2 / sum want^2; infinite where it has none.
double nmse(std::span<const float> want, std::span<const float> got);

/// The nodes whose values are compared: those that make floats of their own.
bool is_compared(const Graph& graph, NodeId id);

struct ComparedNode {
  std::string step;  // "prefill"
  NodeId node = kNoNode;
  std::string op, label, operation;  // operation: with its operands, for people
  int layer = -1;
  double nmse = 0;
  double largest_difference = 0;
};

/// The values of the steps that a session runs, and what their inputs were.
class StepRecorder {
 public:
  struct Step {
    Graph graph;
    std::map<NodeId, std::vector<std::byte>> bytes;  // of inputs and of nodes that make values of their own
  };

  /// To be a session's SessionOptions::watch; the recorder must outlive the session.
  ValueWatch watch();
  void clear() { steps_.clear(); }
  void begin_step() { steps_.emplace_back(); }
  const std::vector<Step>& steps() const { return steps_; }

 private:
  Result<> see(const PreparedGraph& prepared, NodeId id);
  std::vector<Step> steps_;
};

/// Compares what two sessions have recorded of a step. Errors: mismatch (the graphs differ).
Result<std::vector<ComparedNode>> compare_recorded(const StepRecorder::Step& want, const StepRecorder::Step& got,
                                                   const std::string& name);

/// Runs each node of a recorded step by itself where a session's schedule has it, with the session's weights and
/// caches, on backends of its devices. Errors: unsupported (recurrent layers); those of running.
Result<std::vector<ComparedNode>> compare_each(const StepRecorder::Step& want, const Session& session,
                                               const Schedule& schedule,
                                               std::span<const std::unique_ptr<Backend>> backends,
                                               const std::string& name);

}  // namespace tessera::observe
