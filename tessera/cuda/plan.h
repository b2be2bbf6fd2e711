// A graph as recorded launches of kernels: CUDA graphs, which the driver starts with one call each. Kernels run one
// after the other. On devices that can, a kernel is brought to its start while the one before it ends.
#pragma once

#include <vector>

#include "tessera/cuda/context.h"
#include "tessera/cuda/jobs.h"
#include "tessera/gpu/step_list.h"

namespace tessera::cuda {

class CudaPlan final : public GraphPlan {
 public:
  /// number: unique among the plans of a backend. stream: of the backend.
  CudaPlan(const Context& context, CuStream stream, uint64_t number)
      : context_(context), stream_(stream), number_(number) {}
  CudaPlan(const CudaPlan&) = delete;
  CudaPlan& operator=(const CudaPlan&) = delete;
  ~CudaPlan() override;

  /// Binds the steps of a graph to memory. Errors: limit (the work memory is too small); errors of kernels.
  Result<> compile(const StepContext& of_any_node, const StepMemory& memory, size_t work_bytes);

  uint64_t number() const { return number_; }
  const StepList& steps() const { return steps_; }
  /// Bytes for the start of the work memory, which plans of a backend share; empty if no step needs any. And the
  /// address of that memory.
  std::span<const std::byte> image() const { return image_; }
  uint64_t work() const { return work_; }
  /// In order. Each starts when the previous one has finished, so a run can be cancelled between them.
  std::span<const CuGraphExec> submissions() const { return submissions_; }

  /// Starts every launch between events. Errors: those of the driver.
  Result<> run_timed();
  /// Returns when each node ran in the last run_timed(), which has finished.
  Result<std::vector<NodeTime>> times() const;

 private:
  /// Independent jobs of the same kernel.
  struct Launch {
    CuFunction function = nullptr;
    std::vector<Job> jobs{};
  };

  void find_constant_weights(const StepContext& of_any_node);
  void omit_conversions();
  bool changes(const Step& step, size_t i, const Step& conversion) const;
  Result<> make_launches();
  bool joins(const Launch& launch, const Job& job) const;
  void add_prefetches();
  bool depends(const Job& job, const Job& other) const;
  Result<> record();
  Result<> record_submission(std::span<const Launch> launches);
  Result<> start(const Launch& launch, bool is_early) const;

  const Context& context_;
  CuStream stream_;
  uint64_t number_;
  const Graph* graph_ = nullptr;
  StepList steps_;
  uint64_t work_ = 0;
  std::vector<bool> is_omitted_;            // by step: its result is there already
  std::vector<bool> has_constant_weights_;  // by step: no kernel writes its second operand
  std::vector<Launch> launches_;
  std::vector<std::byte> image_;
  std::vector<CuGraphExec> submissions_;
  std::vector<CuEvent> events_;  // one before each launch and one at the end
};

}  // namespace tessera::cuda
