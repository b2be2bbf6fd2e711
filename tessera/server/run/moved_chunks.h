// Parts of a prompt that an earlier sequence had at later places (`n_cache_reuse`).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::server {

/// Equal tokens of two sequences.
struct MovedChunk {
  int64_t from = 0;  // the place in the earlier sequence
  int64_t to = 0;    // the place in the new one, not after `from`
  int64_t n = 0;
  bool operator==(const MovedChunk&) const = default;
};

/// The chunks of at least n_least tokens, in order, that follow the n_common first tokens of `wanted` without a gap.
/// They are the peer's: the first places in `held` that fit. Takes linear time.
std::vector<MovedChunk> moved_chunks(std::span<const int32_t> held, std::span<const int32_t> wanted, int64_t n_common,
                                     int64_t n_least);

}  // namespace tessera::server
