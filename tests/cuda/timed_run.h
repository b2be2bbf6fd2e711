// Runs a graph on the device and tells which launches it takes.
#pragma once

#include <deque>
#include <functional>
#include <set>
#include <vector>

#include "tests/gpu/ops_testing.h"

namespace tessera::testing {

struct TimedRun {
  NamedBytes outputs;
  std::multiset<Op> launches;  // the first operation of each
};

/// The tensors are in memory of the given usage, with 256 more bytes each.
inline Result<TimedRun> run_timed(BufferUsage usage, const std::vector<TestTensor>& tensors,
                                  const BuildOnTensors& build, const NamedBytes& inputs) {
  TESSERA_ASSIGN(const auto backend, gpu_device()->create_backend({}));
  GraphBuilder b;
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::deque<Tensor> placed;  // the graph refers to them
  std::vector<Value> values;
  for (const TestTensor& tensor : tensors) {
    TESSERA_ASSIGN(auto buffer, gpu_device()->buffer_type().allocate(tensor.data.size() + 256, usage));
    TESSERA_ASSIGN(const Layout layout, contiguous_layout(tensor.dtype, tensor.shape));
    placed.push_back({{tensor.dtype, layout}, tensor.name, &buffer->type(), buffer.get(), 0});
    TESSERA_TRY(buffer->set(placed.back(), 0, tensor.data));
    values.push_back(b.tensor(placed.back()));
    buffers.push_back(std::move(buffer));
  }
  build(b, values);
  TESSERA_ASSIGN(Graph graph, std::move(b).finish());
  Executor executor(*backend);
  TESSERA_TRY(executor.reserve({&graph, 1}));
  TESSERA_ASSIGN(const auto prepared, executor.prepare(std::move(graph)));
  TESSERA_TRY(set_inputs(*prepared, inputs));
  TESSERA_TRY(executor.run(*prepared));
  TimedRun run;
  TESSERA_ASSIGN(run.outputs, outputs_of(*prepared));
  RunLog log;
  TESSERA_TRY(set_inputs(*prepared, inputs));
  TESSERA_TRY(executor.run(*prepared, {.log = &log}));
  for (const auto& node : log.nodes) run.launches.insert(prepared->graph()[node.node].op);
  return run;
}

}  // namespace tessera::testing
