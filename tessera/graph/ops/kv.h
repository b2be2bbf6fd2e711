// Reads and writes of a KV cache. A cache tensor is [dim, 64, n_heads_kv, n_blocks]. A block of one head contains 64
// tokens in an order that the backend chooses. A cell is block * 64 + the block offset of the token.
#pragma once

#include <cstdint>

#include "tessera/graph/params.h"
#include "tessera/graph/value.h"

namespace tessera {

enum class KvSide : uint8_t { k, v };

struct KvParams {
  KvSide side = KvSide::k;
  void list(ParamList& params) const { params.integer("v", side == KvSide::v); }
};

/// Tokens per cache block. A 64-bit mask records which of them are stored.
inline constexpr int64_t kKvBlockTokens = 64;

/// The part of GraphBuilder that reads and writes KV caches.
class KvOps {
 public:
  /// Writes x [dim, n_heads_kv, n] (f32, or rows of the cache's dtype) into cells of a cache tensor. Cell -1 is
  /// skipped. Returns the cache, so that readers can depend on the write.
  Value kv_store(Value cache, Value x, Value cells, KvSide side);
  /// Reads cells of a cache as rows of its dtype [dim, n_heads_kv, n].
  Value kv_load(Value cache, Value cells, KvSide side);
};

}  // namespace tessera
