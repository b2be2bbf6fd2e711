// Runs small graphs on the CPU with a given instruction set and number of threads. Inputs and outputs are identified by
// name. The tests of cpu/, sched/ and nn/ use operations through it, like the engine through the backend interface.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/rng.h"
#include "tessera/cpu/backend.h"
#include "tessera/graph/builder.h"
#include "tessera/isa/sets.h"
#include "tessera/sched/executor.h"
#include "tests/support/testing.h"

namespace tessera::testing {

using Bytes = std::vector<std::byte>;
using NamedBytes = std::map<std::string, Bytes>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

inline std::vector<float> random_values(Rng& rng, int64_t n, float limit = 1.0f) {
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values) v = rng.next_float(-limit, limit);
  return values;
}

/// A tensor in its own buffer, filled from bytes in file layout.
struct OwnedTensor {
  Tensor tensor;
  std::unique_ptr<Buffer> buffer;

  OwnedTensor(const BufferType& type, std::string name, DType dtype, const Shape& shape, const Bytes& data) {
    tensor = {{dtype, contiguous_layout(dtype, shape).value()}, std::move(name)};
    buffer = type.allocate(type.tensor_bytes(dtype, shape).value(), BufferUsage::any).value();
    tensor.buffer_type = &type;
    tensor.buffer = buffer.get();
    if (!data.empty()) EXPECT_OK(buffer->set(tensor, 0, data));
  }

  Bytes read() const {
    Bytes data(nbytes(tensor.dtype, tensor.shape()).value());
    EXPECT_OK(tensor.buffer->get(tensor, 0, data));
    return data;
  }
};

/// `inputs` names every input of the graph.
inline Result<> set_inputs(const PreparedGraph& prepared, const NamedBytes& inputs, size_t pipeline_slot = 0) {
  const Graph& g = prepared.graph();
  for (NodeId id = 0; id < g.size(); ++id) {
    if (g[id].op != Op::input) continue;
    const Tensor& tensor = prepared.tensor(id, pipeline_slot);
    TESSERA_TRY(tensor.buffer->set(tensor, 0, inputs.at(g[id].name)));
  }
  return {};
}

/// The bytes of all outputs by name.
inline Result<NamedBytes> outputs_of(const PreparedGraph& prepared, size_t pipeline_slot = 0) {
  const Graph& g = prepared.graph();
  NamedBytes outputs;
  for (NodeId id = 0; id < g.size(); ++id) {
    if (!g[id].is_output) continue;
    const Tensor& tensor = prepared.tensor(id, pipeline_slot);
    Bytes& bytes = outputs[g[id].name];
    bytes.resize(span_bytes(tensor.dtype, tensor.layout));
    TESSERA_TRY(tensor.buffer->get(tensor, 0, bytes));
  }
  return outputs;
}

class GraphRunner {
 public:
  explicit GraphRunner(const std::string& isa = "", int n_threads = 1,
                       ActivationPrecision activations = ActivationPrecision::automatic)
      : device_(cpu::create_device(isa).value()),
        backend_(device_->create_backend({.threads = {.n_threads = n_threads}, .activations = activations}).value()) {}

  const Device& device() const { return *device_; }
  Backend& backend() const { return *backend_; }

  /// Runs a graph and returns the bytes of all outputs by name. `inputs` has every input of the graph.
  Result<NamedBytes> run(Graph graph, const NamedBytes& inputs, const CancelToken* cancel = nullptr) const {
    Executor executor(*backend_);
    TESSERA_TRY(executor.reserve({&graph, 1}));
    TESSERA_ASSIGN(const auto prepared, executor.prepare(std::move(graph)));
    TESSERA_TRY(set_inputs(*prepared, inputs));
    TESSERA_TRY(executor.run(*prepared, {.cancel = cancel}));
    return outputs_of(*prepared);
  }

  /// Runs a graph and returns the output "y" as floats.
  Result<std::vector<float>> run_y(Graph graph, const NamedBytes& inputs) const {
    TESSERA_ASSIGN(const NamedBytes outputs, run(std::move(graph), inputs));
    return values_of<float>(outputs.at("y"));
  }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Backend> backend_;
};

/// A runner for an instruction set and a number of threads. all_settings() has one for every usable instruction set
/// with 1, 2 and 3 threads, created once because starting threads takes longer than a test.
struct Setting {
  std::string isa;
  int n_threads;
  GraphRunner runner{isa, n_threads};
};
inline std::deque<Setting>& all_settings() {
  static std::deque<Setting> settings = [] {
    std::deque<Setting> all;
    for (const std::string& isa : isa::usable_isas())
      for (const int n_threads : {1, 2, 3}) all.push_back({.isa = isa, .n_threads = n_threads});
    return all;
  }();
  return settings;
}

/// Runs the graph of build(device) in all settings. Checks that the output "y" has the same bits for every number of
/// threads, and calls check(y) once per instruction set.
template <class BuildGraph, class Check>
void run_everywhere(BuildGraph build, const NamedBytes& inputs, Check check) {
  std::vector<float> first;
  for (Setting& setting : all_settings()) {
    const auto y = setting.runner.run_y(build(setting.runner.device()), inputs);
    ASSERT_OK(y);
    if (setting.n_threads == 1) {
      first = *y;
      check(first);
    }
    ASSERT_EQ(bytes_of(*y), bytes_of(first)) << setting.isa << ", " << setting.n_threads << " threads";
  }
}

/// Expects each value within `relative` times the larger of 1 and the expected magnitude.
inline void expect_near(const std::vector<float>& values, const std::vector<double>& expected, double relative) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(values[i], expected[i], relative * std::max(1.0, std::abs(expected[i]))) << "at " << i;
}

/// Whether two vectors have the same bits. Unlike ==, it distinguishes -0 from 0, and NaN equals itself.
inline bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) { return bytes_of(a) == bytes_of(b); }

}  // namespace tessera::testing
