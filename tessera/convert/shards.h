// Splits a model into files and merges them again: `tessera split` and `tessera merge`. Tensor bytes are copied
// unchanged and in order. Files are written with alignment 32, regardless of the source. The parts of a model appear
// when all are complete, and the first part appears last. If a first part exists, the others exist too.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/gguf/split.h"

namespace tessera::convert {

/// Called with the share of the copied bytes, 0 to 1. Returns false to stop.
using CopyProgress = std::function<bool(float)>;

struct ShardLimits {
  uint64_t max_tensors = 128;        // 0: any number
  uint64_t max_bytes = 0;            // of tensor data with padding; 0: any number
  bool is_first_tensorless = false;  // the first shard contains only the keys
};

/// The range of a model's tensors() in one shard.
struct Shard {
  size_t first_tensor = 0;
  size_t n_tensors = 0;
  uint64_t n_bytes = 0;  // of tensor data with padding
};

/// Fills shards one after the other, in the order of the tensors. A tensor that alone exceeds max_bytes gets its own
/// shard. Error: limit (more shards than the format can number).
Result<std::vector<Shard>> plan_shards(const ModelFiles& model, const ShardLimits& limits);

/// The same for tensors of these sizes without padding. name: of the model, for errors.
Result<std::vector<Shard>> plan_shards(std::span<const uint64_t> tensor_bytes, const std::string& name,
                                       const ShardLimits& limits);

/// Writes split_path(prefix, i, shards.size()) for every shard. The first has the model's keys, and all have the keys
/// of the split. Errors: invalid_argument (one of the files exists), io, cancelled, unsupported (a key that cannot be
/// written). After an error none of the files exists.
Result<> write_shards(const ModelFiles& model, std::span<const Shard> shards, const std::string& prefix,
                      const CopyProgress& progress = {});

/// Writes all parts of a model to one file without the keys of the split. The file appears only when complete. Errors:
/// invalid_argument (the file exists, the model is not split), io, cancelled, unsupported.
Result<> merge_shards(const ModelFiles& model, const std::string& path, const CopyProgress& progress = {});

}  // namespace tessera::convert
