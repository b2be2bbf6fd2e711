/* Shared by the files of the example. A graph is compiled to a list of steps; operations are rows of a table. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include "tessera/backend_plugin.h"

/* A value: its description in the graph and its address. */
typedef struct operand {
  const tessera_plugin_node* node; /* NULL: absent */
  char* data;
} operand;

enum { kMaxSources = 9 };

typedef struct step {
  const struct operation* operation;
  operand out;
  operand in[kMaxSources];
  float* work; /* scratch memory, shared by all steps because they run one after another */
} step;

typedef struct operation {
  const char* name;
  const char* params[8]; /* names of the parameters it knows */
  /* Whether it supports these operands; NULL: all valid operands. */
  int (*supports)(const tessera_plugin_node* node);
  /* Floats of scratch memory; NULL: none. */
  uint64_t (*work)(const tessera_plugin_node* node);
  int32_t (*run)(const step* step, char* text, size_t text_bytes);
} operation;

/* Returns the operation of a node if this backend supports it, else NULL. */
const operation* find_operation(const tessera_plugin_node* node);

/* Writes the message for an index in the data that is out of range. Returns the code to return from run(). */
int32_t out_of_range(const step* step, const char* what, int64_t got, int64_t limit, char* text, size_t text_bytes);

/* Row (i1, i2, i3) of a value. */
static inline void* row_of(operand x, int64_t i1, int64_t i2, int64_t i3) {
  return x.data + i1 * x.node->nb[1] + i2 * x.node->nb[2] + i3 * x.node->nb[3];
}

/* Sum of x[i] * y[i] in a fixed order, with eight partial sums that a compiler can keep in a vector. */
float dot(const float* x, const float* y, int64_t n);

/* attention.c */
int supports_kv_store(const tessera_plugin_node* node);
int32_t run_kv_store(const step* step, char* text, size_t text_bytes);
int supports_attention(const tessera_plugin_node* node);
uint64_t attention_work(const tessera_plugin_node* node);
int32_t run_attention(const step* step, char* text, size_t text_bytes);

#endif
