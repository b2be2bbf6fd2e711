// Self-attention over the paged cache.
#pragma once

#include "tessera/nn/inputs.h"
#include "tessera/nn/linear.h"

namespace tessera::nn {

struct Attention {
  Linear q, k, v, out;
  int64_t n_heads = 0;
  int64_t n_heads_kv = 0;
  int64_t k_dim = 0;
  int64_t v_dim = 0;
  float scale = 1.0f;
  RopePairs pairs = RopePairs::adjacent;
};

/// Projects x [n_embd, n_tokens], rotates q and k by `rope` (absent: not at all), stores k and v in the cache's layer,
/// and attends. Returns the heads' outputs [n_heads * v_dim, n_tokens], before the output projection.
Value attend(GraphBuilder& b, Value x, const Attention& attention, const BatchInputs& in, Value rope,
             const KvCache& cache, int64_t layer);

}  // namespace tessera::nn
