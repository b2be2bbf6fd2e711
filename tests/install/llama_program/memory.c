/* The stored tokens of sequences, and their states. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

enum { ROOM = 64 };

static llama_token tokens[ROOM];
static int32_t n_tokens;

/* With caches of their own, the original keeps other sequences and ends the process at partial copies. */
static llama_context* context_with_tokens(uint32_t n_seq_max) {
  n_tokens = tokenize("Once upon a time there was", tokens, ROOM);
  llama_context_params params = small_context(256 * n_seq_max, n_seq_max);
  params.kv_unified = true;
  llama_context* c = create_context(params);
  require(decode(c, tokens, n_tokens) == 0, "tokens can be decoded");
  return c;
}

/* The best tokens after one more token of a sequence. */
static const char* next_of(llama_context* c, llama_seq_id sequence) {
  const int32_t status = decode_one(c, 300, CALL(memory_seq_pos_max)(CALL(get_memory)(c), sequence) + 1, sequence);
  return status == 0 ? best_of(CALL(get_logits_ith)(c, -1), 4) : "not decoded";
}

void run_memory(void) {
  llama_context* c = context_with_tokens(3);
  const llama_memory_t m = CALL(get_memory)(c);
  show_ranges("stored", 0, c, 3);
  show_ranges("remove the last", CALL(memory_seq_rm)(m, 0, n_tokens - 1, -1), c, 1);
  show_ranges("again", decode_one(c, tokens[n_tokens - 1], n_tokens - 1, 0), c, 1);
  show("remove none", "%d %d", CALL(memory_seq_rm)(m, 0, 3, 3), CALL(memory_seq_rm)(m, 0, 4, 2));
  show("remove of an empty one", "%d", CALL(memory_seq_rm)(m, 2, -1, -1));
  CALL(memory_seq_cp)(m, 0, 1, -1, -1);
  CALL(memory_seq_cp)(m, 1, 2, 0, -1);
  show_ranges("copies", 0, c, 3);
  show("the next of a copy", "%s", next_of(c, 1));
  show("the next of another", "%s", next_of(c, 2));
  show("the next of the first", "%s", next_of(c, 0));
  show_ranges("remove of all", CALL(memory_seq_rm)(m, -1, 4, -1), c, 3);
  CALL(memory_seq_keep)(m, 1);
  show_ranges("keep", 0, c, 3);
  CALL(memory_seq_cp)(m, 1, 1, -1, -1);
  CALL(memory_clear)(m, false);
  show_ranges("cleared", 0, c, 3);
  require(decode(c, tokens, n_tokens) == 0, "tokens can be decoded");
  show("can shift", "%d", CALL(memory_can_shift)(m));
  CALL(memory_seq_rm)(m, 0, 1, 3);
  CALL(memory_seq_add)(m, 0, 3, -1, -2);
  show_ranges("shifted", 0, c, 1);
  show("the next", "%s", next_of(c, 0));
  CALL(memory_seq_add)(m, 0, 2, 2, 1);
  CALL(memory_seq_add)(m, 0, 2, -1, 0);
  CALL(memory_seq_div)(m, 0, 0, -1, 1);
  show_ranges("not changed", 0, c, 1);
  CALL(memory_clear)(m, true);
  require(decode(c, tokens, n_tokens) == 0, "tokens can be decoded");
  show_ranges("remove the first", CALL(memory_seq_rm)(m, 0, -1, 2), c, 1);
  CALL(memory_seq_add)(m, 0, -1, -1, -2);
  show_ranges("moved to the start", 0, c, 1);
  show("the next", "%s", next_of(c, 0));
  CALL(free)(c);
}

static void show_damaged(const char* name, llama_context* c, const uint8_t* state, size_t size) {
  CALL(memory_clear)(CALL(get_memory)(c), true);
  require(decode(c, tokens, 3) == 0, "tokens can be decoded");
  const size_t read = CALL(state_seq_set_data)(c, state, size, 0);
  show(name, "%d", read > 0);
  differs(name, "the original removes the sequence once it has read some of it", "up to %d",
          CALL(memory_seq_pos_max)(CALL(get_memory)(c), 0));
}

static void show_state_in_memory(void) {
  llama_context* c = context_with_tokens(2);
  const size_t size = CALL(state_seq_get_size)(c, 0);
  require(size > 0 && CALL(state_seq_get_size_ext)(c, 0, 0) == size, "a size of the state");
  differs("size of a state", "a format of its own", "%zu", size);
  uint8_t* state = malloc(size + 16);
  uint8_t* other = malloc(size + 16);
  show("state", "%d %d", CALL(state_seq_get_data)(c, state, size, 0) == size,
       CALL(state_seq_get_data_ext)(c, other, size + 9, 0, 0) == size);
  show("the same bytes", "%d", memcmp(state, other, size) == 0);
  show("a small buffer", "%zu", CALL(state_seq_get_data)(c, other, size - 1, 0));
  const char* want = next_of(c, 0);
  show_ranges("restored", CALL(state_seq_set_data)(c, state, size, 1) == size, c, 2);
  show("the next", "%d", strcmp(next_of(c, 1), want) == 0);
  show_ranges("restored over it", CALL(state_seq_set_data_ext)(c, state, size, 1, 0) == size, c, 2);
  show("the next", "%d", strcmp(next_of(c, 1), want) == 0);
  for (size_t n = 0; n < size; n += size / 4 + 1) show_damaged("a cut state", c, state, n);
  memset(other, 0, size);
  show_damaged("zeros", c, other, size);
  CALL(memory_clear)(CALL(get_memory)(c), true);
  show_ranges("restored after that", CALL(state_seq_set_data)(c, state, size, 0) == size, c, 2);
  free(state);
  free(other);
  CALL(free)(c);
}

static void show_whole_state(void) {
  llama_context* c = context_with_tokens(2);
  CALL(memory_seq_cp)(CALL(get_memory)(c), 0, 1, 0, 4);
  const size_t size = CALL(state_get_size)(c);
  show("size", "%d %d", size > 0, CALL(get_state_size)(c) == size);
  uint8_t* state = malloc(size);
  uint8_t* other = malloc(size);
  const size_t written = CALL(state_get_data)(c, state, size);
  show("state", "%d %d", written > 0 && written <= size, CALL(copy_state_data)(c, other) == written);
  CALL(memory_clear)(CALL(get_memory)(c), true);
  show_ranges("restored", CALL(state_set_data)(c, state, written) == written, c, 2);
  CALL(memory_clear)(CALL(get_memory)(c), true);
  show_ranges("restored by the old name", CALL(set_state_data)(c, other) == written, c, 2);
  show("the next", "%s", next_of(c, 0));
  show("the next of the other", "%s", next_of(c, 1));
  free(state);
  free(other);
  CALL(free)(c);
}

static void show_state_files(void) {
  llama_context* c = context_with_tokens(2);
  const char* const path = path_of("sequence.state");
  llama_token found[ROOM];
  size_t n = 0;
  const size_t size = CALL(state_seq_save_file)(c, path, 0, tokens, (size_t)n_tokens);
  show("saved", "%d", size > 0);
  show_ranges("loaded", CALL(state_seq_load_file)(c, path, 1, found, ROOM, &n) == size, c, 2);
  show("its tokens", "%s", listed(found, (int32_t)n));
  show("the next", "%s", next_of(c, 1));
  show("room for few tokens", "%zu", CALL(state_seq_load_file)(c, path, 1, found, 2, &n));
  differs("after that", "the sequence of a refused file is empty, as node-llama-cpp expects", "up to %d",
          CALL(memory_seq_pos_max)(CALL(get_memory)(c), 1));
  CALL(memory_seq_rm)(CALL(get_memory)(c), 1, -1, -1);
  show("no file", "%zu", CALL(state_seq_load_file)(c, "/no/such/file", 1, found, ROOM, &n));
  show("no folder", "%zu", CALL(state_seq_save_file)(c, "/no/such/folder/x", 0, tokens, 1));
  const char* const all = path_of("all.state");
  show("all saved", "%d %d", CALL(state_save_file)(c, all, tokens, (size_t)n_tokens),
       CALL(save_session_file)(c, all, tokens, (size_t)n_tokens));
  CALL(memory_clear)(CALL(get_memory)(c), true);
  show_ranges("all loaded", CALL(state_load_file)(c, all, found, ROOM, &n), c, 2);
  show("its tokens", "%s", listed(found, (int32_t)n));
  CALL(memory_clear)(CALL(get_memory)(c), true);
  show_ranges("loaded by the old name", CALL(load_session_file)(c, all, found, ROOM, &n), c, 2);
  show_ranges("room for few tokens", CALL(state_load_file)(c, all, found, 2, &n), c, 2);
  show("no file", "%d", CALL(state_load_file)(c, "/no/such/file", found, ROOM, &n));
  CALL(free)(c);
}

void run_states(void) {
  show_state_in_memory();
  show_whole_state();
  show_state_files();
}
