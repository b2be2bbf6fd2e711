// Single operations by shape and type, each as a graph of one node on the device, at the sizes of
// a model of 1 to 8 billion weights. `tessera bench --ops` prints the rows as they are measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/base/function_ref.h"
#include "tessera/base/tensor_pattern.h"

namespace tessera::observe {

enum class OpSizes : uint8_t { model, small };  // small: to see that everything runs; speeds mean nothing

struct OpBenchOptions {
  std::optional<TensorPattern> pattern;  // of names as "mul_mat q4_K 2048x8192 t512"; absent: no operation
  std::vector<DType> types;              // of weights; empty: all that the device multiplies
  OpSizes sizes = OpSizes::model;
  int64_t n_repetitions = 5;
};

/// One operation, run by itself.
struct BenchOpRow {
  std::string op, type, shape;
  int64_t n_tokens = 0;
  int n_threads = 0;
  std::vector<double> seconds{};  // of one run, in each repetition; at least one
  bool is_int8 = false;           // the multiply-adds are those of integers
  double macs = 0;                // multiply-adds of one run
  double bytes = 0;               // that one run reads and writes
  double streamed_bytes = 0;  // of weights or cache that pass by until the same are read again; 0: operands stay cached
};

/// Benches the operations whose names match, with the threads and activations of `backend`, and adds a row for each as
/// soon as it is measured. Errors: those of add(); not_found (none matches), unsupported (a type that the device does
/// not multiply), out_of_memory, cancelled.
Result<> bench_ops(const Device& device, const OpBenchOptions& options, const BackendOptions& backend,
                   const CancelToken& cancel, FunctionRef<Result<>(const BenchOpRow&)> add);

}  // namespace tessera::observe
