// tessera bench --ops: single operations by shape and type, each as a graph of one node on the device, at the sizes of
// a model of 1 to 8 billion weights. Rows are printed as they are measured.
#pragma once

#include <optional>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/base/tensor_pattern.h"
#include "tessera/cli/bench_report.h"

namespace tessera::cli {

enum class OpSizes : uint8_t { model, small };  // small: to see that everything runs; speeds mean nothing

struct OpBenchOptions {
  std::optional<TensorPattern> pattern;  // of names as "mul_mat q4_K 2048x8192 t512"; absent: no operation
  std::vector<DType> types;              // of weights; empty: all that the device multiplies
  OpSizes sizes = OpSizes::model;
  int64_t n_repetitions = 5;
};

/// Benches the operations whose names match with the threads and activations of `backend`. Errors: not_found (none
/// matches), unsupported (a type that the device does not multiply), out_of_memory, cancelled.
Result<> bench_ops(const Device& device, const OpBenchOptions& options, const BackendOptions& backend,
                   const CancelToken& cancel, BenchReport& report);

}  // namespace tessera::cli
