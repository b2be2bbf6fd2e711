#include "tessera/nn/attention.h"

namespace tessera::nn {

Value attend(GraphBuilder& b, Value x, const Attention& a, const BatchInputs& in, Value rope, const KvCache& cache,
             int64_t layer) {
  const int64_t n_tokens = b.spec(x).shape()[1];
  // The three products stand together: a backend packs or quantizes x once for them.
  Value q = b.mul_mat(b.tensor(*a.q.weight), x);
  Value k = b.mul_mat(b.tensor(*a.k.weight), x);
  Value v = b.mul_mat(b.tensor(*a.v.weight), x);
  q = b.reshape(finish_linear(b, q, a.q), {a.k_dim, a.n_heads, n_tokens});
  k = b.reshape(finish_linear(b, k, a.k), {a.k_dim, a.n_heads_kv, n_tokens});
  v = b.reshape(finish_linear(b, v, a.v), {a.v_dim, a.n_heads_kv, n_tokens});
  if (rope.present()) {
    q = b.rope(q, rope, a.pairs);
    k = b.rope(k, rope, a.pairs);
  }
  // Stored before it is attended to, so that what a token sees does not depend on how a batch was split.
  const Value k_cache = b.kv_store(b.tensor(cache.k(layer)), k, in.cells, KvSide::k);
  const Value v_cache = b.kv_store(b.tensor(cache.v(layer)), v, in.cells, KvSide::v);
  const Value heads =
      b.attention(q, k_cache, v_cache, in.positions, in.sequences, in.blocks, in.valid, {}, {.scale = a.scale});
  return b.reshape(heads, {a.v_dim * a.n_heads, n_tokens});
}

}  // namespace tessera::nn
