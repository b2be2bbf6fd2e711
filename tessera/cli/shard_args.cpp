#include "tessera/cli/shard_args.h"

#include <charconv>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/gguf/limits.h"

namespace tessera::cli {

namespace {

// Parses "500M" or "2G" in decimal units, the units in which file hosts state their limits.
Result<uint64_t> parse_shard_bytes(std::string_view text) {
  uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::string_view unit(end, to_size(text.data() + text.size() - end));
  const uint64_t scale = unit == "M" ? 1'000'000 : unit == "G" ? 1'000'000'000 : 0;
  const auto n_bytes = checked_mul(count, scale);
  if (error != std::errc() || scale == 0 || count == 0 || !n_bytes)
    return fail(ErrorCode::invalid_argument, "'{}' is not a shard size: want e.g. 500M or 2G (decimal)", text);
  return *n_bytes;
}

}  // namespace

void ShardArgs::add_to(FlagTable& table, const std::string& default_tensors) {
  table.common("--split-max-tensors", "N", "largest number of tensors in a shard",
               set_integer(max_tensors, 1, int64_t{kGgufMaxTensors}), default_tensors);
  table.common("--split-max-size", "N(M|G)", "largest size of the tensors in a shard, in decimal units",
               [this](std::string_view text) -> Result<> {
                 TESSERA_ASSIGN(max_bytes, parse_shard_bytes(text));
                 return {};
               });
  table.common("--no-tensor-first-split", "", "put only the keys into the first shard",
               set_switch(is_first_tensorless));
}

convert::ShardLimits ShardArgs::limits(uint64_t default_tensors) const {
  const uint64_t n = max_tensors != 0 ? static_cast<uint64_t>(max_tensors) : max_bytes != 0 ? 0 : default_tensors;
  return {.max_tensors = n, .max_bytes = max_bytes, .is_first_tensorless = is_first_tensorless};
}

}  // namespace tessera::cli
