// Random graphs of operations that the memory planner treats differently: in place or not, views, stores into values,
// unused values, outputs. For property tests of the planner and the executor.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/base/rng.h"
#include "tessera/graph/builder.h"

namespace tessera::testing {

struct RandomGraph {
  Graph graph;
  std::vector<std::pair<std::string, Shape>> inputs;  // f32
};

/// Returns about n_nodes nodes on values [16, rows]. keep_all: the same nodes, but every value is an output, so that
/// none share memory.
inline RandomGraph random_graph(uint64_t seed, int n_nodes, bool keep_all) {
  constexpr int64_t kRow = 16;
  Rng rng(seed);
  const auto below = [&](size_t n) { return rng.next_u32() % static_cast<uint32_t>(n); };
  GraphBuilder b;
  RandomGraph result;
  std::vector<Value> values;
  const auto add_input = [&](int64_t rows) {
    const std::string name = "x" + std::to_string(result.inputs.size());
    const Shape shape{kRow, rows};
    result.inputs.emplace_back(name, shape);
    values.push_back(b.input(name, DType::f32, shape));
  };
  for (const int64_t rows : {1, 3, 16, 3, 16}) add_input(rows);
  for (int i = 0; i < n_nodes; ++i) {
    const Value x = values[below(values.size())];
    const int64_t rows = b.spec(x).shape()[1];
    Value y = values[below(values.size())];
    const bool fits = b.spec(y).shape() == b.spec(x).shape();
    Value made;
    switch (below(9)) {
      case 0:
        made = b.silu(x);
        break;
      case 1:
        made = fits ? b.add(x, y) : b.scale(x, 0.5f);
        break;
      case 2:
        made = fits ? b.swiglu(x, y) : b.scale(x, -2.0f);
        break;
      case 3:
        made = b.rms_norm(x, values[0], 1e-5f);
        break;
      case 4:
        made = b.reshape(x, {kRow, rows});
        break;
      case 5: {  // the last row
        const auto& nb = b.spec(x).layout.nb;
        made = b.view(x, {.shape = {kRow, 1}, .nb = nb}, static_cast<size_t>((rows - 1) * nb[1]));
        break;
      }
      case 6:
      case 7:
        made = rows == 16 ? b.mul_mat(x, y) : b.mul(x, values[0]);
        break;  // consecutive nodes may share y
      default:
        made = b.soft_max(x);
        break;
    }
    const bool is_output = below(12) == 0;
    if (keep_all || is_output) made = b.output(made, "y" + std::to_string(i));
    values.push_back(made);
  }
  b.output(b.silu(values.back()), "last");
  result.graph = std::move(b).finish().value();
  return result;
}

}  // namespace tessera::testing
