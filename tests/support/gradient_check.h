// Checks an operation and its gradients. A case defines how y is built from leaves, and a reference in double
// precision. On every instruction set, check_gradients() compares
//   - y with the reference,
//   - the gradients of add_gradients() with central differences of the reference,
//   - all outputs for 1 to 3 threads, which must have the same bits.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <span>

#include "tessera/graph/autodiff.h"
#include "tessera/graph/op_info.h"
#include "tessera/isa/sets.h"
#include "tessera/quant/formats.h"
#include "tests/support/graph_runner.h"

namespace tessera::testing {

/// A leaf of a graph: f32 values with a gradient (a tensor) or without (an input), i32 numbers (an input), or a frozen
/// tensor of another type. For the latter, the reference receives the decoded values.
struct GradientLeaf {
  Shape shape{};
  float low = -1.0f, high = 1.0f;  // range of random values
  std::vector<float> values{};     // used instead of random values
  std::vector<int32_t> numbers{};  // values of a leaf of type i32
  bool is_parameter = true;        // only for f32 leaves: has a gradient
  DType dtype = DType::f32;
};

struct GradientCase {
  std::vector<GradientLeaf> leaves{};
  /// Builds y from the leaves, in their order.
  std::function<Value(GraphBuilder&, const std::vector<Value>&)> build{};
  /// Computes the elements of y from the elements of the leaves.
  std::function<std::vector<double>(const std::vector<std::vector<double>>&)> reference{};
  std::vector<Op> gradient_ops{};    // operations that compute the gradients
  double forward_tolerance = 1e-5;   // of y's largest magnitude
  double gradient_tolerance = 1e-4;  // of the largest magnitude of a parameter's gradient
  uint64_t seed = 1;
};

/// The leaves of a case with their bytes, placed in the memory of a device.
class GradientLeaves {
 public:
  GradientLeaves(const GradientCase& c, const Device& device) : leaves_(c.leaves) {
    Rng rng(c.seed);
    for (size_t i = 0; i < leaves_.size(); ++i) {
      const GradientLeaf& leaf = leaves_[i];
      const std::string name = name_of(i);
      if (!leaf.numbers.empty()) {
        exact_.emplace_back(leaf.numbers.begin(), leaf.numbers.end());
        inputs_[name] = bytes_of(leaf.numbers);
        continue;
      }
      std::vector<float> values = leaf.values;
      while (std::ssize(values) < leaf.shape.n_elements()) values.push_back(rng.next_float(leaf.low, leaf.high));
      Bytes bytes = encode(leaf, values);
      exact_.emplace_back(values.begin(), values.end());
      if (is_tensor(leaf))
        tensors_.emplace_back(i, OwnedTensor(device.buffer_type(), name, leaf.dtype, leaf.shape, bytes));
      else
        inputs_[name] = std::move(bytes);
    }
  }

  std::vector<Value> add_to(GraphBuilder& b) const {
    std::vector<Value> values(leaves_.size());
    for (size_t i = 0; i < leaves_.size(); ++i)
      if (!is_tensor(leaves_[i]))
        values[i] = b.input(name_of(i), leaves_[i].numbers.empty() ? DType::f32 : DType::i32, leaves_[i].shape);
    for (const auto& [i, owned] : tensors_) values[i] = b.tensor(owned.tensor);
    return values;
  }

  std::vector<const Tensor*> parameters() const {
    std::vector<const Tensor*> parameters;
    for (const auto& [i, owned] : tensors_)
      if (leaves_[i].dtype == DType::f32) parameters.push_back(&owned.tensor);
    return parameters;
  }

  const NamedBytes& inputs() const { return inputs_; }
  const std::vector<std::vector<double>>& exact() const { return exact_; }
  bool is_parameter(size_t i) const { return is_tensor(leaves_[i]) && leaves_[i].dtype == DType::f32; }
  static std::string name_of(size_t i) { return fmt::format("leaf{}", i); }

 private:
  static bool is_tensor(const GradientLeaf& leaf) {
    return leaf.numbers.empty() && (leaf.is_parameter || leaf.dtype != DType::f32);
  }
  // Returns the encoded bytes, and stores their decoded values in `values`.
  static Bytes encode(const GradientLeaf& leaf, std::vector<float>& values) {
    const quant::Format* format = quant::find_format(leaf.dtype);
    Bytes bytes(nbytes(leaf.dtype, leaf.shape).value());
    const int64_t n = leaf.shape[0];
    for (int64_t row = 0; row < leaf.shape.n_rows(); ++row) {
      std::byte* at = bytes.data() + static_cast<size_t>(row) * row_bytes(leaf.dtype, n).value();
      format->quantize_row_compat(values.data() + row * n, nullptr, n, at);
      format->dequantize_row(at, n, values.data() + row * n);
    }
    return bytes;
  }

  std::vector<GradientLeaf> leaves_;
  std::vector<std::vector<double>> exact_;
  NamedBytes inputs_;
  std::deque<std::pair<size_t, OwnedTensor>> tensors_;  // a deque, since graphs store addresses
};

/// Like all_settings(), with float activations, so that products with frozen quantized weights are exact.
inline std::deque<Setting>& float_settings() {
  static std::deque<Setting> settings = [] {
    std::deque<Setting> all;
    for (const std::string& isa : isa::usable_isas())
      for (const int n_threads : {1, 2, 3})
        all.push_back(
            {.isa = isa, .n_threads = n_threads, .runner = GraphRunner(isa, n_threads, ActivationPrecision::float32)});
    return all;
  }();
  return settings;
}

/// Builds a graph with the output "y" and, for every parameter that has one, the gradient of sum(dy * y) as
/// "d_leaf<i>".
inline Result<Graph> build_with_gradients(const GradientCase& c, const GradientLeaves& leaves,
                                          const std::function<std::vector<Value>(Value y)>& checkpoints = {}) {
  GraphBuilder b;
  const Value y = c.build(b, leaves.add_to(b));
  const Value dy = b.input("dy", DType::f32, b.spec(y).shape());
  std::map<std::string, Value> sums;
  const GradientSink sink = [&](const Tensor& parameter, Value gradient) {
    Value& sum = sums["d_" + parameter.name];
    sum = sum.present() ? b.add(sum, gradient) : gradient;
  };
  const std::vector<Value> kept = checkpoints ? checkpoints(y) : std::vector<Value>();
  add_gradients(b, y, dy, leaves.parameters(), sink, {.checkpoints = kept});
  // Copies, because y and gradients may be leaves.
  b.output(b.scale(y, 1.0f), "y");
  for (const auto& [name, gradient] : sums) b.output(b.scale(gradient, 1.0f), name);
  return std::move(b).finish();
}

/// Returns d sum(dy * y) / d (element j of leaf i), computed by a central difference.
inline double central_difference(const GradientCase& c, std::vector<std::vector<double>>& leaves, size_t i, size_t j,
                                 const std::vector<float>& dy) {
  const double x = leaves[i][j], step = 1e-5 * std::max(1.0, std::abs(x));
  const auto objective = [&](double value) {
    leaves[i][j] = value;
    const std::vector<double> y = c.reference(leaves);
    double sum = 0;
    for (size_t k = 0; k < y.size(); ++k) sum += dy[k] * y[k];
    return sum;
  };
  const double difference = (objective(x + step) - objective(x - step)) / (2 * step);
  leaves[i][j] = x;
  return difference;
}

/// Expects each value within `tolerance` times the largest expected magnitude.
inline void expect_near_largest(const std::vector<float>& values, const std::vector<double>& expected, double tolerance,
                                const std::string& what) {
  ASSERT_EQ(values.size(), expected.size()) << what;
  double largest = 1e-30;
  for (const double v : expected) largest = std::max(largest, std::abs(v));
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(values[i], expected[i], tolerance * largest) << what << " at " << i;
}

inline void check_gradients(const GradientCase& c) {
  const GradientLeaves reference(c, float_settings().front().runner.device());
  std::vector<std::vector<double>> exact = reference.exact();
  const std::vector<double> y = c.reference(exact);
  Rng rng(c.seed + 100);
  const std::vector<float> dy = random_values(rng, std::ssize(y));
  std::map<std::string, std::vector<double>> gradients;
  for (size_t i = 0; i < exact.size(); ++i)
    if (reference.is_parameter(i))
      for (size_t j = 0; j < exact[i].size(); ++j)
        gradients["d_" + GradientLeaves::name_of(i)].push_back(central_difference(c, exact, i, j, dy));

  NamedBytes first;
  for (const Setting& setting : float_settings()) {
    const std::string where = fmt::format("{}, {} threads", setting.isa, setting.n_threads);
    const GradientLeaves leaves(c, setting.runner.device());
    auto graph = build_with_gradients(c, leaves);
    ASSERT_OK(graph);
    for (const Op op : c.gradient_ops)
      ASSERT_TRUE(std::ranges::find(graph->nodes(), op, &Node::op) != graph->nodes().end())
          << tessera::info(op).name << " computes no gradient";
    NamedBytes inputs = leaves.inputs();
    inputs["dy"] = bytes_of(dy);
    const auto outputs = setting.runner.run(std::move(*graph), inputs);
    ASSERT_OK(outputs);
    if (setting.n_threads > 1) {
      ASSERT_EQ(*outputs, first) << where;
      continue;
    }
    first = *outputs;
    expect_near_largest(values_of<float>(first.at("y")), y, c.forward_tolerance, "y on " + where);
    for (const auto& [name, expected] : gradients) {
      const auto found = first.find(name);  // none: no path from the parameter to y
      const std::vector<float> got =
          found == first.end() ? std::vector<float>(expected.size()) : values_of<float>(found->second);
      expect_near_largest(got, expected, c.gradient_tolerance, name + " on " + where);
    }
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace tessera::testing
