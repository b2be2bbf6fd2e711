// A Vulkan device for tests, with the validation layer if it is installed, and functions to run graphs on it and on the
// CPU.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/vulkan/backend.h"
#include "tests/support/graph_runner.h"

namespace tessera::testing {

/// The messages of the validation layer. No test may cause any.
class ValidationMessages {
 public:
  void add(std::string_view text) {
    const std::lock_guard lock(mutex_);
    all_.emplace_back(text);
  }
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(all_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> all_;
};
inline ValidationMessages& validation_messages() {
  static ValidationMessages messages;
  return messages;
}

inline vulkan::Options validated_options() {
  validation_messages();  // outlives the devices that report to it
  vulkan::Options options;
  options.validates = true;
  options.on_message = [](std::string_view text) { validation_messages().add(text); };
  options.cache_folder = "";
  return options;
}

/// The devices, created once for all tests because compiling shaders is slow. maps_memory false: as on most GPUs, the
/// host cannot address the memory.
inline const Registry& vulkan_registry(bool maps_memory = true) {
  static const auto make = [](bool maps) {
    vulkan::Options options = validated_options();
    options.maps_memory = maps;
    auto registry = std::make_unique<Registry>();
    for (auto& device : vulkan::find_devices(options)) registry->add(std::move(device));
    return registry;
  };
  static const auto mapped = make(true);
  if (maps_memory) return *mapped;
  static const auto unmapped = make(false);
  return *unmapped;
}

/// The first device; null if there is none.
inline const Device* vulkan_device(bool maps_memory = true) {
  const auto devices = vulkan_registry(maps_memory).devices();
  return devices.empty() ? nullptr : devices.front().get();
}

/// The first device, with workgroups of 64 invocations as on GPUs.
inline const Device* vulkan_device_of_64_lanes() {
  static const std::vector<std::unique_ptr<Device>> devices = [] {
    vulkan::Options options = validated_options();
    options.n_lanes = 64;
    return vulkan::find_devices(options);
  }();
  return devices.empty() ? nullptr : devices.front().get();
}

/// Skips tests without a device. Fails a test that caused messages of the validation layer.
class VulkanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (vulkan_device() == nullptr) GTEST_SKIP() << "no Vulkan device";
  }
  void TearDown() override {
    for (const std::string& message : validation_messages().take()) ADD_FAILURE() << message;
  }
};

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
inline Result<TestOutputs> run_on(const Device& device, const TestGraph& test, int n_runs = 1) {
  TESSERA_ASSIGN(const auto backend,
                 device.create_backend({.threads = {.n_threads = 1}, .activations = ActivationPrecision::float32}));
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
                             const Device* device = vulkan_device()) {
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
