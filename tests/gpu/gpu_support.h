// Functions to run graphs on a GPU's device and on the CPU. The tests of this folder are part of the tests of each GPU
// backend, which defines the device: gpu_registry(), gpu_device(), gpu_device_of_64_lanes(), GpuTest.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#ifdef TESSERA_TEST_CUDA
#include "tests/cuda/cuda_device.h"
#else
#include "tests/vulkan/vulkan_device.h"
#endif
#include "tests/support/graph_runner.h"

namespace tessera::testing {

/// A tensor of a test, placed in the memory of each device.
struct TestTensor {
  std::string name;
  DType dtype;
  Shape shape;
  Bytes data;
};

/// Builds a graph with tensors, given in the order of the list.
using BuildOnTensors = std::function<void(GraphBuilder& b, const std::vector<Value>& tensors)>;

struct TestGraph {
  std::vector<TestTensor> tensors;
  BuildOnTensors build;
  NamedBytes inputs;
};

struct TestOutputs {
  NamedBytes outputs;
  std::vector<Bytes> tensors;  // their contents after the run
};

/// Runs a graph on a device `n_runs` times with the same memory.
inline Result<TestOutputs> run_on(const Device& device, const TestGraph& test, int n_runs = 1,
                                  ActivationPrecision activations = ActivationPrecision::float32) {
  TESSERA_ASSIGN(const auto backend, device.create_backend({.threads = {.n_threads = 1}, .activations = activations}));
  std::vector<std::unique_ptr<OwnedTensor>> tensors;
  for (const TestTensor& t : test.tensors)
    tensors.push_back(std::make_unique<OwnedTensor>(device.buffer_type(), t.name, t.dtype, t.shape, t.data));
  GraphBuilder b;
  std::vector<Value> values;
  for (const auto& tensor : tensors) values.push_back(b.tensor(tensor->tensor));
  test.build(b, values);
  TESSERA_ASSIGN(Graph graph, std::move(b).finish());
  Executor executor(*backend);
  TESSERA_TRY(executor.reserve({&graph, 1}));
  TESSERA_ASSIGN(const auto prepared, executor.prepare(std::move(graph)));
  const Graph& g = prepared->graph();
  TestOutputs result;
  for (int run = 0; run < n_runs; ++run) {
    for (NodeId id = 0; id < g.size(); ++id) {
      if (g[id].op != Op::input) continue;
      const Tensor& tensor = prepared->tensor(id);
      TESSERA_TRY(tensor.buffer->set(tensor, 0, test.inputs.at(g[id].name)));
    }
    TESSERA_TRY(executor.run(*prepared));
  }
  for (NodeId id = 0; id < g.size(); ++id) {
    if (!g[id].is_output) continue;
    const Tensor& tensor = prepared->tensor(id);
    Bytes& bytes = result.outputs[g[id].name];
    bytes.resize(span_bytes(tensor.dtype, tensor.layout));
    TESSERA_TRY(tensor.buffer->get(tensor, 0, bytes));
  }
  for (const auto& tensor : tensors) result.tensors.push_back(tensor->read());
  return result;
}

/// Sum of squared differences over the sum of squares; values that are not finite must be equal.
inline double relative_error(const std::vector<float>& values, const std::vector<float>& expected) {
  double error = 0, power = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool same = values[i] == expected[i] || (std::isnan(values[i]) && std::isnan(expected[i]));
    if (same && !std::isfinite(expected[i])) continue;
    error += (double{values[i]} - expected[i]) * (double{values[i]} - expected[i]);
    power += double{expected[i]} * expected[i];
  }
  return power == 0 ? error : error / power;
}

/// Compares the output "y" of a graph on the device with the CPU.
inline void expect_as_on_cpu(const TestGraph& test, double bound, const std::string& what,
                             const Device* device = gpu_device()) {
  static const std::unique_ptr<Device> cpu = cpu::create_device("").value();
  ASSERT_OK_AND_ASSIGN(const TestOutputs expected, run_on(*cpu, test));
  const auto got = run_on(*device, test);
  ASSERT_TRUE(got.has_value()) << what << ": " << got.error().message();
  const auto values = values_of<float>(got->outputs.at("y")), wanted = values_of<float>(expected.outputs.at("y"));
  ASSERT_EQ(values.size(), wanted.size()) << what;
  const double error = relative_error(values, wanted);
  EXPECT_LE(error, bound) << what;
  EXPECT_FALSE(std::isnan(error)) << what;
  ::testing::Test::RecordProperty(what, fmt::format("{:.1e}", error));
}

}  // namespace tessera::testing
