// The KV cache operations share how a cache tensor is laid out: [dim, 64, n_heads_kv, n_blocks], each block of
// one head being the backend's own order of 64 tokens. A cell is block * 64 + slot.
#pragma once

#include <cstdint>

namespace tessera {

enum class KvSide : uint8_t { k, v };

struct KvParams {
  KvSide side = KvSide::k;
};

/// Tokens of one cache block; a 64-bit mask tells which of them are stored.
inline constexpr int64_t kKvBlockTokens = 64;

}  // namespace tessera
