// Benchmarks of single operations by shape and type. Each is a graph of one node on the device, at the sizes of a model
// of 1 to 8 billion weights. `tessera bench --ops` prints the rows as soon as they are measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/base/function_ref.h"
#include "tessera/base/tensor_pattern.h"

namespace tessera::observe {

enum class OpSizes : uint8_t { model, small };  // small: smoke test, its speeds mean nothing

struct OpBenchOptions {
  std::optional<TensorPattern> pattern;  // for names like "mul_mat q4_K 2048x8192 t512"; absent: no operation
  std::vector<DType> types;              // of weights; empty: all types that the device multiplies
  OpSizes sizes = OpSizes::model;
  int64_t n_repetitions = 5;
};

/// The result of one operation.
struct BenchOpRow {
  std::string op, type, shape;
  int64_t n_tokens = 0;
  int n_threads = 0;
  std::vector<double> seconds{};  // of one run, in each repetition; at least one
  Arithmetic arithmetic = Arithmetic::f32;
  double macs = 0;            // multiply-adds of one run
  double bytes = 0;           // read and written by one run
  double streamed_bytes = 0;  // weights or KV cache read before the same are read again; 0: operands stay cached
};

/// Measures the operations whose names match, with the threads and activations of `backend`, and calls add() with each
/// row as soon as it is measured. Errors: the errors of add(); not_found (none matches), unsupported (a type that the
/// device does not multiply), out_of_memory, cancelled.
Result<> bench_ops(const Device& device, const OpBenchOptions& options, const BackendOptions& backend,
                   const CancelToken& cancel, FunctionRef<Result<>(const BenchOpRow&)> add);

}  // namespace tessera::observe
