// The steps of a graph, bound to memory. Steps run in order. Their parameters and the partial results that a node's
// first dispatch leaves for its second are in work memory, whose size is known before anything is allocated.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tessera/gpu/step.h"

namespace tessera::gpu {

/// Words in which kernels report faults. The host reads them after each run.
struct FaultWords {
  uint32_t step;  // index of the step + 1, or 0
  uint32_t what;
  int32_t value;
  uint32_t limit;
};

/// Device memory that steps use besides their operands.
struct StepMemory {
  uint64_t work = 0;  // address of work_bytes() bytes
  uint64_t tables = 0, fault = 0;
};

/// A range of device memory that a step accesses.
struct Touched {
  uint64_t begin, end;
  bool is_written;
};

class StepList {
 public:
  /// Prepares the steps of all nodes. Tensors without a buffer have the address 0, which suffices for work_bytes().
  /// The graph must outlive this. Errors: errors of the kernels.
  Result<> make(const StepContext& of_any_node, const OwnKernels& own);
  /// Sets the addresses of the memory besides operands.
  void bind(const StepMemory& memory);

  bool empty() const { return steps_.empty(); }
  size_t size() const { return steps_.size(); }
  const Step& operator[](size_t i) const { return steps_[i]; }
  std::span<const Touched> touched(size_t i) const { return touched_[i]; }
  NodeId node_of(size_t i) const { return static_cast<NodeId>(steps_[i].node - graph_->nodes().data()); }

  /// Bytes of work memory. A graph of the same nodes with smaller values does not need more.
  size_t work_bytes() const { return scratch_offset() + scratch_bytes_; }
  /// The place of step i's parameters in the work memory.
  size_t params_offset(size_t i) const { return params_offsets_[i]; }
  /// Whether a step has words besides its parameters.
  bool has_extra() const { return has_extra_; }
  /// The bytes at the start of the work memory: parameters and additional words of all steps.
  std::vector<std::byte> image() const;

  /// Returns the error of a fault that a kernel reported; success if there is none.
  Result<> check(const FaultWords& fault) const;

 private:
  void add(Step step, std::vector<Touched> touched, bool uses_scratch);
  size_t scratch_offset() const;

  const Graph* graph_ = nullptr;
  std::vector<Step> steps_;
  std::vector<std::vector<Touched>> touched_;  // by step
  std::vector<size_t> params_offsets_;         // by step
  std::vector<size_t> uses_scratch_;           // indices of steps
  size_t params_bytes_ = 0, scratch_bytes_ = 0;
  bool has_extra_ = false;
};

}  // namespace tessera::gpu
