/* What the files of the example share: steps are what a graph is compiled to, and operations are rows of a table. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include "tessera/backend_plugin.h"

/* A value: what the graph says of it, and where it is. */
typedef struct operand {
  const tessera_plugin_node* node; /* NULL: absent */
  char* data;
} operand;

enum { kMaxSources = 9 };

typedef struct step {
  const struct operation* operation;
  operand out;
  operand in[kMaxSources];
  float* work; /* shared by all steps, which run one after another */
} step;

typedef struct operation {
  const char* name;
  const char* params[8]; /* the names that it knows */
  /* Whether it can be run on these operands; NULL: on any that the graph has. */
  int (*supports)(const tessera_plugin_node* node);
  /* Floats of scratch memory; NULL: none. */
  uint64_t (*work)(const tessera_plugin_node* node);
  int32_t (*run)(const step* step, char* text, size_t text_bytes);
} operation;

/* The operation of a node if this backend runs it, else NULL. */
const operation* find_operation(const tessera_plugin_node* node);

/* An index in the data that is out of range: the message, and the code to return. */
int32_t out_of_range(const step* step, const char* what, int64_t got, int64_t limit, char* text, size_t text_bytes);

/* Row (i1, i2, i3) of a value. */
static inline void* row_of(operand x, int64_t i1, int64_t i2, int64_t i3) {
  return x.data + i1 * x.node->nb[1] + i2 * x.node->nb[2] + i3 * x.node->nb[3];
}

/* Sum of x[i] * y[i]: eight partial sums, which a compiler can keep in a vector, in one fixed order. */
float dot(const float* x, const float* y, int64_t n);

/* attention.c */
int supports_kv_store(const tessera_plugin_node* node);
int32_t run_kv_store(const step* step, char* text, size_t text_bytes);
int supports_attention(const tessera_plugin_node* node);
uint64_t attention_work(const tessera_plugin_node* node);
int32_t run_attention(const step* step, char* text, size_t text_bytes);

#endif
