/* The operations of a transformer of the llama family, computed row by row on one thread, without optimizations. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "example.h"

enum { kBlock = 32, kBlockBytes = 34, kPartials = 8 }; /* q8_0: an f16 scale and 32 int8 */

int32_t out_of_range(const step* step, const char* what, int64_t got, int64_t limit, char* text, size_t text_bytes) {
  snprintf(text, text_bytes, "%s %s: %s %lld, want 0 to %lld", step->out.node->op, step->out.node->name, what,
           (long long)got, (long long)limit - 1);
  return TESSERA_PLUGIN_INVALID_ARGUMENT;
}

/* --- numbers */

static float float_of_half(uint16_t half) {
  const uint32_t sign = (uint32_t)(half >> 15) << 31, exponent = (half >> 10) & 31, mantissa = half & 1023;
  if (exponent == 0) { /* zero or subnormal: mantissa * 2^-24 */
    const float value = (float)mantissa * (1.0f / 16777216.0f);
    return sign != 0 ? -value : value;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  const uint32_t bits = sign | wide << 23 | mantissa << 13;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static float half_at(const void* data) {
  uint16_t half;
  memcpy(&half, data, sizeof half);
  return float_of_half(half);
}

static float sum_of(const float* partials) {
  float sum = 0;
  for (int i = 0; i < kPartials; ++i) sum += partials[i];
  return sum;
}

float dot(const float* x, const float* y, int64_t n) {
  float partials[kPartials] = {0};
  int64_t i = 0;
  for (; i + kPartials <= n; i += kPartials)
    for (int j = 0; j < kPartials; ++j) partials[j] += x[i + j] * y[i + j];
  for (; i < n; ++i) partials[i % kPartials] += x[i] * y[i];
  return sum_of(partials);
}

static float dot_q8_0(const char* weights, const float* x, int64_t n) {
  float sum = 0;
  for (int64_t block = 0; block < n / kBlock; ++block, weights += kBlockBytes, x += kBlock) {
    const int8_t* q = (const int8_t*)(weights + 2);
    float partials[kPartials] = {0};
    for (int i = 0; i < kBlock; i += kPartials)
      for (int j = 0; j < kPartials; ++j) partials[j] += (float)q[i + j] * x[i + j];
    sum += half_at(weights) * sum_of(partials);
  }
  return sum;
}

/* Converts a row of any type that the backend reads to floats. */
static void decode_row(const char* row, int32_t dtype, int64_t n, float* out) {
  if (dtype == TESSERA_PLUGIN_F32) memcpy(out, row, (size_t)n * sizeof(float));
  if (dtype == TESSERA_PLUGIN_F16)
    for (int64_t i = 0; i < n; ++i) out[i] = half_at(row + 2 * i);
  if (dtype == TESSERA_PLUGIN_Q8_0)
    for (int64_t i = 0; i < n; ++i) {
      const char* block = row + i / kBlock * kBlockBytes;
      out[i] = half_at(block) * (float)((const int8_t*)(block + 2))[i % kBlock];
    }
}

/* --- element by element and row by row */

typedef float (*binary)(float, float);

/* out = f(a, b), where b is repeated along dimensions of extent 1. out may share memory with a. */
static int32_t run_binary(const step* step, binary f) {
  const tessera_plugin_node *out = step->out.node, *b = step->in[1].node;
  for (int64_t i3 = 0; i3 < out->ne[3]; ++i3)
    for (int64_t i2 = 0; i2 < out->ne[2]; ++i2)
      for (int64_t i1 = 0; i1 < out->ne[1]; ++i1) {
        const float* x = row_of(step->in[0], i1, i2, i3);
        const float* y = row_of(step->in[1], i1 % b->ne[1], i2 % b->ne[2], i3 % b->ne[3]);
        float* z = row_of(step->out, i1, i2, i3);
        for (int64_t i = 0; i < out->ne[0]; ++i) z[i] = f(x[i], y[b->ne[0] == 1 ? 0 : i]);
      }
  return TESSERA_PLUGIN_OK;
}

static float add(float a, float b) { return a + b; }
static float mul(float a, float b) { return a * b; }
static float swiglu(float gate, float up) { return gate / (1.0f + expf(-gate)) * up; }

static int32_t run_add(const step* step, char* text, size_t text_bytes) {
  (void)text, (void)text_bytes;
  return run_binary(step, add);
}
static int32_t run_mul(const step* step, char* text, size_t text_bytes) {
  (void)text, (void)text_bytes;
  return run_binary(step, mul);
}
static int32_t run_swiglu(const step* step, char* text, size_t text_bytes) {
  (void)text, (void)text_bytes;
  return run_binary(step, swiglu);
}

static int32_t run_rms_norm(const step* step, char* text, size_t text_bytes) {
  (void)text, (void)text_bytes;
  const tessera_plugin_node* out = step->out.node;
  const float eps = (float)tessera_plugin_number(out, "eps", 0);
  const float* weight = step->in[1].node == NULL ? NULL : row_of(step->in[1], 0, 0, 0);
  for (int64_t i3 = 0; i3 < out->ne[3]; ++i3)
    for (int64_t i2 = 0; i2 < out->ne[2]; ++i2)
      for (int64_t i1 = 0; i1 < out->ne[1]; ++i1) {
        const float* x = row_of(step->in[0], i1, i2, i3);
        float* y = row_of(step->out, i1, i2, i3);
        const float scale = 1.0f / sqrtf(dot(x, x, out->ne[0]) / (float)out->ne[0] + eps);
        for (int64_t i = 0; i < out->ne[0]; ++i) y[i] = x[i] * scale * (weight == NULL ? 1.0f : weight[i]);
      }
  return TESSERA_PLUGIN_OK;
}

/* --- matrices */

static int has_rows(const tessera_plugin_node* node) {
  const int32_t dtype = tessera_plugin_source(node, 0)->dtype;
  return dtype == TESSERA_PLUGIN_F32 || dtype == TESSERA_PLUGIN_F16 || dtype == TESSERA_PLUGIN_Q8_0;
}

static int has_matrix(const tessera_plugin_node* node) {
  const int32_t dtype = tessera_plugin_source(node, 0)->dtype;
  return dtype == TESSERA_PLUGIN_F32 || dtype == TESSERA_PLUGIN_Q8_0;
}

/* y[n, t] = sum over k of w[k, n] * x[k, t] */
static int32_t run_mul_mat(const step* step, char* text, size_t text_bytes) {
  (void)text, (void)text_bytes;
  const tessera_plugin_node *out = step->out.node, *w = step->in[0].node;
  for (int64_t t = 0; t < out->ne[1]; ++t) {
    const float* x = row_of(step->in[1], t, 0, 0);
    float* y = row_of(step->out, t, 0, 0);
    for (int64_t n = 0; n < out->ne[0]; ++n) {
      const char* row = row_of(step->in[0], n, 0, 0);
      y[n] = w->dtype == TESSERA_PLUGIN_F32 ? dot((const float*)row, x, w->ne[0]) : dot_q8_0(row, x, w->ne[0]);
    }
  }
  return TESSERA_PLUGIN_OK;
}

static int32_t run_get_rows(const step* step, char* text, size_t text_bytes) {
  const tessera_plugin_node *out = step->out.node, *table = step->in[0].node;
  const int32_t* ids = row_of(step->in[1], 0, 0, 0);
  for (int64_t i = 0; i < out->ne[1]; ++i) {
    if (ids[i] < 0 || ids[i] >= table->ne[1]) return out_of_range(step, "row", ids[i], table->ne[1], text, text_bytes);
    decode_row(row_of(step->in[0], ids[i], 0, 0), table->dtype, out->ne[0], row_of(step->out, i, 0, 0));
  }
  return TESSERA_PLUGIN_OK;
}

/* --- rotary positions */

/* Supports neither YaRN nor frequency factors: models that use them run this operation on another device. */
static int supports_rope_table(const tessera_plugin_node* node) {
  return tessera_plugin_source(node, 1) == NULL && tessera_plugin_number(node, "yarn_ext", 0) == 0;
}

static int32_t run_rope_table(const step* step, char* text, size_t text_bytes) {
  (void)text, (void)text_bytes;
  const tessera_plugin_node* out = step->out.node;
  const int32_t* positions = row_of(step->in[0], 0, 0, 0);
  const double base = tessera_plugin_number(out, "freq_base", 1), scale = tessera_plugin_number(out, "freq_scale", 1);
  const float magnitude = (float)tessera_plugin_number(out, "magnitude", 1);
  for (int64_t t = 0; t < out->ne[1]; ++t) {
    float* row = row_of(step->out, t, 0, 0);
    for (int64_t i = 0; i < out->ne[0]; i += 2) {
      const double angle = pow(base, -(double)i / (double)out->ne[0]) * scale * positions[t];
      row[i] = (float)cos(angle) * magnitude;
      row[i + 1] = (float)sin(angle) * magnitude;
    }
  }
  return TESSERA_PLUGIN_OK;
}

static int supports_rope(const tessera_plugin_node* node) { return tessera_plugin_integer(node, "inverse", 0) == 0; }

/* Pairs are adjacent elements, or the same element of both halves. out may share memory with x. */
static int32_t run_rope(const step* step, char* text, size_t text_bytes) {
  (void)text, (void)text_bytes;
  const tessera_plugin_node* out = step->out.node;
  const int64_t n_rot = step->in[1].node->ne[0];
  const int halves = tessera_plugin_integer(out, "halves", 0) != 0;
  for (int64_t t = 0; t < out->ne[2]; ++t) {
    const float* angles = row_of(step->in[1], t, 0, 0);
    for (int64_t head = 0; head < out->ne[1]; ++head) {
      const float* x = row_of(step->in[0], head, t, 0);
      float* y = row_of(step->out, head, t, 0);
      for (int64_t i = 0; i < n_rot; i += 2) {
        const int64_t first = halves ? i / 2 : i, second = halves ? first + n_rot / 2 : i + 1;
        const float a = x[first], b = x[second];
        y[first] = a * angles[i] - b * angles[i + 1];
        y[second] = a * angles[i + 1] + b * angles[i];
      }
      memmove(y + n_rot, x + n_rot, (size_t)(out->ne[0] - n_rot) * sizeof(float));
    }
  }
  return TESSERA_PLUGIN_OK;
}

/* --- the table */

static const operation kOperations[] = {
    {"add", {0}, NULL, NULL, run_add},
    {"mul", {0}, NULL, NULL, run_mul},
    {"swiglu", {0}, NULL, NULL, run_swiglu},
    {"rms_norm", {"eps"}, NULL, NULL, run_rms_norm},
    {"mul_mat", {0}, has_matrix, NULL, run_mul_mat},
    {"get_rows", {0}, has_rows, NULL, run_get_rows},
    {"rope_table",
     {"n_rot", "freq_base", "freq_scale", "yarn_ext", "yarn_low", "yarn_high", "magnitude"},
     supports_rope_table,
     NULL,
     run_rope_table},
    {"rope", {"halves", "inverse"}, supports_rope, NULL, run_rope},
    {"kv_store", {"v"}, supports_kv_store, NULL, run_kv_store},
    {"paged_attention",
     {"scale", "causal", "window", "soft_cap", "max_alibi", "latent_v", "int16"},
     supports_attention,
     attention_work,
     run_attention},
};

/* A parameter added by a later version changes the meaning of an operation, so unknown parameters are refused. */
static int knows_params(const operation* operation, const tessera_plugin_node* node) {
  for (uint32_t i = 0; i < node->n_params; ++i) {
    int known = 0;
    for (int j = 0; j < 8 && operation->params[j] != NULL; ++j)
      known |= strcmp(operation->params[j], node->params[i].name) == 0;
    if (!known) return 0;
  }
  return 1;
}

const operation* find_operation(const tessera_plugin_node* node) {
  for (size_t i = 0; i < sizeof kOperations / sizeof kOperations[0]; ++i) {
    const operation* operation = &kOperations[i];
    if (strcmp(operation->name, node->op) != 0) continue;
    if (node->n_sources > kMaxSources || !knows_params(operation, node)) return NULL;
    return operation->supports == NULL || operation->supports(node) ? operation : NULL;
  }
  return NULL;
}
