// Splits a model into files and merges them again: `tessera split` and `tessera merge`. The tensors' bytes are copied
// as they are, in their order; files are written with alignment 32, whatever the source's. The parts of a model appear
// when all are complete, and the first of them last: a first part that is there has its others.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/gguf/split.h"

namespace tessera::convert {

/// Called with the share of the bytes that are copied, 0 to 1; returns false to stop.
using CopyProgress = std::function<bool(float)>;

struct ShardLimits {
  uint64_t max_tensors = 128;        // 0: any number
  uint64_t max_bytes = 0;            // of tensor data with its padding; 0: any number
  bool is_first_tensorless = false;  // the first shard holds the keys alone
};

/// What one shard holds of a model's tensors().
struct Shard {
  size_t first_tensor = 0;
  size_t n_tensors = 0;
  uint64_t n_bytes = 0;  // of tensor data with its padding
};

/// Fills one shard after the other, in the order of the tensors; one that alone passes max_bytes gets a shard of its
/// own. Error: limit (more shards than the format can number).
Result<std::vector<Shard>> plan_shards(const ModelFiles& model, const ShardLimits& limits);

/// Writes split_path(prefix, i, shards.size()) for every shard. The first has the model's keys, all have those of the
/// split. Errors: invalid_argument (one of the files exists), io, cancelled, unsupported (a key that is not written);
/// then none of the files appears.
Result<> write_shards(const ModelFiles& model, std::span<const Shard> shards, const std::string& prefix,
                      const CopyProgress& progress = {});

/// Writes all parts of a model as one file without the keys of the split; it appears only when complete. Errors:
/// invalid_argument (the file exists, the model is not split), io, cancelled, unsupported.
Result<> merge_shards(const ModelFiles& model, const std::string& path, const CopyProgress& progress = {});

}  // namespace tessera::convert
