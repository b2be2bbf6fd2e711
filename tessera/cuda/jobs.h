// A kernel computes a step, or a few whose results it passes on by itself. That saves launches, which take longer than
// the work of few tokens.
//   a sum and the norm of it
//   the products of gate and up, and their combination
//   rope of k, and storing the result in the cache
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tessera/cuda/kernels.h"
#include "tessera/gpu/step_list.h"

namespace tessera::cuda {

struct Job {
  std::vector<size_t> steps;  // in order
  std::string kernel;         // its name in the images
  KernelParams params;
  uint32_t n_blocks = 0, n_threads = 0, shared_bytes = 0;
};

/// The jobs of all steps but the omitted ones, in order. Both flags are by step. has_constant_weights: no kernel writes
/// the second operand.
std::vector<Job> make_jobs(const Graph& graph, const StepList& steps, const std::vector<bool>& is_omitted,
                           const std::vector<bool>& has_constant_weights);

/// Whether an operand of two steps is the same memory in the same shape.
bool is_same_operand(const OperandParams& a, const OperandParams& b);

/// The address after the last element of an operand of floats.
uint64_t end_of(const OperandParams& x);

}  // namespace tessera::cuda
