// Helpers shared by the operations to describe a dispatch.
#pragma once

#include <bit>
#include <limits>

#include "tessera/base/checked.h"
#include "tessera/gpu/step.h"

namespace tessera::gpu {

inline uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }
inline uint32_t count(int64_t n) { return static_cast<uint32_t>(n); }

/// The most positions and blocks of a sequence's table: kernels have numbers of 32 bits for positions.
inline constexpr int64_t kMostPositions = std::numeric_limits<int32_t>::max();
inline constexpr int64_t kMostBlocks = kMostPositions / kKvBlockTokens;

inline constexpr uint64_t kWideBytes = 16;

/// Whether rows can be read 16 bytes at a time by formats_wide.glsl.
inline bool is_wide(const OperandParams& rows, DType dtype) {
  const DTypeInfo& type = info(dtype);
  return type.is_format && (!type.is_blocked() || type.block_bytes % int64_t{kWideBytes} == 0) &&
         (rows.data | rows.nb[1] | rows.nb[2] | rows.nb[3]) % kWideBytes == 0;
}

/// Sets the number of workgroups for n items, per_group items each. Errors: limit (too many workgroups).
inline Result<> set_groups(Step& step, int64_t n, int64_t per_group = 1) {
  constexpr int64_t kMost = int64_t{1} << 31;
  const int64_t groups = div_ceil(n, per_group);
  if (groups > kMost) return fail(ErrorCode::limit, "{}: {} workgroups, limit {}", step.node->name, groups, kMost);
  step.params.n_groups = count(groups);
  return {};
}

}  // namespace tessera::gpu
