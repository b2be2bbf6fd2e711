// Limits of the files that a model is divided into: flags of `tessera split` and `tessera convert`.
#pragma once

#include <cstdint>

#include "tessera/cli/args.h"
#include "tessera/convert/shards.h"

namespace tessera::cli {

struct ShardArgs {
  int64_t max_tensors = 0;
  uint64_t max_bytes = 0;
  bool is_first_tensorless = false;

  /// default_tensors: the text of the help for the largest number of tensors.
  void add_to(FlagTable& table, const std::string& default_tensors);
  bool has_any() const { return max_tensors != 0 || max_bytes != 0; }
  /// Without --split-max-tensors and --split-max-size, shards have at most so many tensors.
  convert::ShardLimits limits(uint64_t default_tensors) const;
};

}  // namespace tessera::cli
