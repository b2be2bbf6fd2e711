// Views of rows and heads.
#pragma once

#include "tessera/base/index.h"
#include "tessera/graph/builder.h"

namespace tessera::nn {

/// `count` elements of each row of x, from `first` on.
inline Value part_of_rows(GraphBuilder& b, Value x, int64_t first, int64_t count) {
  Layout layout = b.spec(x).layout;
  layout.shape[0] = count;
  return b.view(x, layout, to_size(first * layout.nb[0]));
}

/// x [n, t] as a single head per token [n, 1, t].
inline Value as_head(GraphBuilder& b, Value x) {
  const Layout layout = b.spec(x).layout;
  const int64_t token_bytes = layout.nb[1], n_tokens = layout.shape[1];
  return b.view(
      x,
      {.shape = {layout.shape[0], 1, n_tokens}, .nb = {layout.nb[0], token_bytes, token_bytes, token_bytes * n_tokens}},
      0);
}

/// x [n, 1, t] repeated for n_heads heads.
inline Value repeat_head(GraphBuilder& b, Value x, int64_t n_heads) {
  Layout layout = b.spec(x).layout;
  layout.shape[1] = n_heads;
  layout.nb[1] = 0;
  return b.view(x, layout, 0);
}

}  // namespace tessera::nn
