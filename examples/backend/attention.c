/* Attention over the paged cache, in f32. A cache block holds 64 rows of one head, one per token. The layout within a
 * block is private to the backend, since no other device reads it. */
#include <math.h>
#include <string.h>

#include "example.h"

enum { kTokens = 64 }; /* of a block */

int supports_kv_store(const tessera_plugin_node* node) {
  return tessera_plugin_source(node, 0)->dtype == TESSERA_PLUGIN_F32 &&
         tessera_plugin_source(node, 1)->dtype == TESSERA_PLUGIN_F32;
}

/* Stores rows of x [dim, n_heads, n] in cells of the cache [dim, 64, n_heads, n_blocks]. The result is the cache. */
int32_t run_kv_store(const step* step, char* text, size_t text_bytes) {
  const tessera_plugin_node *cache = step->in[0].node, *x = step->in[1].node;
  const int32_t* cells = row_of(step->in[2], 0, 0, 0);
  for (int64_t t = 0; t < x->ne[2]; ++t) {
    const int64_t cell = cells[t], n_cells = cache->ne[3] * kTokens;
    if (cell == -1) continue;
    if (cell < 0 || cell >= n_cells) return out_of_range(step, "cell", cell, n_cells, text, text_bytes);
    for (int64_t head = 0; head < x->ne[1]; ++head)
      memcpy(row_of(step->in[0], cell % kTokens, head, cell / kTokens), row_of(step->in[1], head, t, 0),
             (size_t)x->ne[0] * sizeof(float));
  }
  return TESSERA_PLUGIN_OK;
}

/* Supported: causal or not, with or without a window. Not supported: soft caps, ALiBi slopes, sinks, biases, and a K
 * cache that also holds V. */
int supports_attention(const tessera_plugin_node* node) {
  const tessera_plugin_node *k = tessera_plugin_source(node, 1), *v = tessera_plugin_source(node, 2);
  return k->dtype == TESSERA_PLUGIN_F32 && v != NULL && v->dtype == TESSERA_PLUGIN_F32 &&
         tessera_plugin_number(node, "soft_cap", 0) == 0 && tessera_plugin_number(node, "max_alibi", 0) == 0 &&
         tessera_plugin_integer(node, "latent_v", 0) == 0 && tessera_plugin_source(node, 7) == NULL &&
         tessera_plugin_source(node, 8) == NULL;
}

/* Scratch memory: one score for each position that a sequence may have. */
uint64_t attention_work(const tessera_plugin_node* node) { return (uint64_t)node->sources[5]->ne[0] * kTokens; }

typedef struct query {
  int64_t position, first, end; /* it attends to the stored positions in [first, end) */
  const int32_t* blocks;
  const uint64_t* valid;
} query;

/* Reads the positions and cache blocks that token t attends to, and checks every index that will be used. */
static int32_t read_query(const step* step, int64_t t, query* query, char* text, size_t text_bytes) {
  const tessera_plugin_node *out = step->out.node, *k = step->in[1].node, *blocks = step->in[5].node;
  const int64_t position = ((const int32_t*)row_of(step->in[3], 0, 0, 0))[t];
  const int64_t slot = ((const int32_t*)row_of(step->in[4], 0, 0, 0))[t], n_positions = blocks->ne[0] * kTokens;
  if (slot < 0 || slot >= blocks->ne[1]) return out_of_range(step, "sequence", slot, blocks->ne[1], text, text_bytes);
  if (position < 0 || position >= n_positions)
    return out_of_range(step, "position", position, n_positions, text, text_bytes);
  const int64_t window = tessera_plugin_integer(out, "window", 0);
  query->position = position;
  query->first = window > 0 && position >= window ? position - window + 1 : 0;
  query->end = tessera_plugin_integer(out, "causal", 1) != 0 ? position + 1 : n_positions;
  if (window > 0 && query->end > position + window) query->end = position + window;
  query->blocks = row_of(step->in[5], slot, 0, 0);
  query->valid = row_of(step->in[6], slot, 0, 0);
  for (int64_t block = query->first / kTokens; block * kTokens < query->end; ++block)
    if (query->blocks[block] < -1 || query->blocks[block] >= k->ne[3])
      return out_of_range(step, "block", query->blocks[block], k->ne[3], text, text_bytes);
  return TESSERA_PLUGIN_OK;
}

static int is_stored(const query* query, int64_t position) {
  return query->blocks[position / kTokens] >= 0 && (query->valid[position / kTokens] >> position % kTokens & 1) != 0;
}

static const float* cache_row(operand cache, const query* query, int64_t position, int64_t head) {
  return row_of(cache, position % kTokens, head, query->blocks[position / kTokens]);
}

static void attend(const step* step, const query* query, int64_t head, int64_t t) {
  const tessera_plugin_node* k = step->in[1].node;
  const int64_t head_kv = head / (step->out.node->ne[1] / k->ne[2]), v_dim = step->out.node->ne[0];
  const float scale = (float)tessera_plugin_number(step->out.node, "scale", 1);
  const float* q = row_of(step->in[0], head, t, 0);
  float* out = row_of(step->out, head, t, 0);
  float most = -INFINITY, sum = 0;
  for (int64_t p = query->first; p < query->end; ++p) {
    if (!is_stored(query, p)) continue;
    step->work[p] = scale * dot(q, cache_row(step->in[1], query, p, head_kv), k->ne[0]);
    most = fmaxf(most, step->work[p]);
  }
  memset(out, 0, (size_t)v_dim * sizeof(float));
  for (int64_t p = query->first; p < query->end; ++p) {
    if (!is_stored(query, p)) continue;
    const float weight = expf(step->work[p] - most);
    const float* v = cache_row(step->in[2], query, p, head_kv);
    sum += weight;
    for (int64_t i = 0; i < v_dim; ++i) out[i] += weight * v[i];
  }
  for (int64_t i = 0; i < v_dim && sum > 0; ++i) out[i] /= sum;
}

int32_t run_attention(const step* step, char* text, size_t text_bytes) {
  for (int64_t t = 0; t < step->out.node->ne[2]; ++t) {
    query seen = {0};
    const int32_t code = read_query(step, t, &seen, text, text_bytes);
    if (code != TESSERA_PLUGIN_OK) return code;
    for (int64_t head = 0; head < step->out.node->ne[1]; ++head) attend(step, &seen, head, t);
  }
  return TESSERA_PLUGIN_OK;
}
