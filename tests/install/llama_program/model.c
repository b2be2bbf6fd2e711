/* Models and what they tell, vocabularies, and texts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

struct progress {
  int n;
  float last;
  bool grows;
  bool goes_on;
};

static bool note_progress(float share, void* user) {
  struct progress* progress = user;
  progress->grows &= share >= progress->last;
  progress->last = share;
  ++progress->n;
  return progress->goes_on;
}

static llama_model* load(const char* path, llama_model_params params) {
  return CALL(model_load_from_file)(path, params);
}

static void show_loading(void) {
  struct progress progress = {0, 0, true, true};
  llama_model_params params = CALL(model_default_params)();
  params.n_gpu_layers = 0; /* a GPU rounds in another way */
  params.progress_callback = note_progress;
  params.progress_callback_user_data = &progress;
  program.model = load(program.model_path, params);
  require(program.model != NULL, "the model can be loaded");
  program.vocab = CALL(model_get_vocab)(program.model);
  show("progress", "some %d, grows %d, last %g", progress.n > 0, progress.grows, (double)progress.last);
  progress.goes_on = false;
  show("stopped", "%d", load(program.model_path, params) == NULL);
  params = CALL(model_default_params)();
  show("no file", "%d", load("/no/such/file.gguf", params) == NULL);
  show("a folder", "%d", load("/tmp", params) == NULL);
  llama_model* other = CALL(load_model_from_file)(program.model_path, params);
  show("loaded by the old name", "%d", other != NULL);
  CALL(free_model)(other);
  const char* paths[] = {program.model_path};
  other = CALL(model_load_from_splits)(paths, 1, params);
  show("loaded as one part", "%d", other != NULL);
  CALL(model_free)(other);
  show("loaded from no parts", "%d", CALL(model_load_from_splits)(paths, 0, params) != NULL);
  CALL(model_free)(NULL);
  CALL(free_model)(NULL);
  for (int32_t mode = -1; mode <= 4; ++mode) {
    params = CALL(model_default_params)();
    params.load_mode = mode;
    params.check_tensors = true;
    params.use_extra_bufts = mode % 2 == 0;
    if (mode == 2 || mode == 3) continue; /* locked memory may not be allowed */
    other = load(program.model_path, params);
    show("load mode", "%d: %d", mode, other != NULL);
    CALL(model_free)(other);
  }
  params = CALL(model_default_params)();
  params.vocab_only = true;
  other = load(program.model_path, params);
  show("vocabulary only", "%d tokens, %d values, %d layers, context %d",
       CALL(vocab_n_tokens)(CALL(model_get_vocab)(other)), CALL(model_n_embd)(other), CALL(model_n_layer)(other),
       CALL(model_n_ctx_train)(other));
  if (program.is_ours) require(CALL(model_n_head)(other) >= 0, "a number of heads");
  show("vocabulary only", "%llu bytes, %llu parameters, %d keys", (unsigned long long)CALL(model_size)(other),
       (unsigned long long)CALL(model_n_params)(other), CALL(model_meta_count)(other));
  CALL(model_free)(other);
}

static void show_facts(void) {
  const llama_model* m = program.model;
  char text[128];
  show("sizes", "context %d %d, width %d %d, in %d, out %d", CALL(model_n_ctx_train)(m), CALL(n_ctx_train)(m),
       CALL(model_n_embd)(m), CALL(n_embd)(m), CALL(model_n_embd_inp)(m), CALL(model_n_embd_out)(m));
  show("layers", "%d %d, of next tokens %d, window %d", CALL(model_n_layer)(m), CALL(n_layer)(m),
       CALL(model_n_layer_nextn)(m), CALL(model_n_swa)(m));
  show("heads", "%d %d, of keys %d", CALL(model_n_head)(m), CALL(n_head)(m), CALL(model_n_head_kv)(m));
  show("rope", "type %d, scale %g", CALL(model_rope_type)(m), (double)CALL(model_rope_freq_scale_train)(m));
  show("classes", "%u, label %s, no label %s", CALL(model_n_cls_out)(m), quoted(CALL(model_cls_label)(m, 0), -1),
       quoted(CALL(model_cls_label)(m, 9), -1));
  show("weights", "%llu bytes, %llu values, type %d", (unsigned long long)CALL(model_size)(m),
       (unsigned long long)CALL(model_n_params)(m), CALL(model_ftype)(m));
  const int32_t n = CALL(model_desc)(m, text, sizeof text);
  show("description", "%d %s", n, text);
  const int32_t cut = CALL(model_desc)(m, text, 6);
  show("description in 6 bytes", "%d %s", cut, text);
  show("templates of the model", "%s %s", quoted(CALL(model_chat_template)(m, NULL), -1),
       quoted(CALL(model_chat_template)(m, "tool_use"), -1));
  show("kind", "encoder %d, decoder %d, recurrent %d, hybrid %d, diffusion %d, start token %d",
       CALL(model_has_encoder)(m), CALL(model_has_decoder)(m), CALL(model_is_recurrent)(m), CALL(model_is_hybrid)(m),
       CALL(model_is_diffusion)(m), CALL(model_decoder_start_token)(m));
}

static int compare_texts(const void* a, const void* b) { return strcmp(a, b); }

/* The keys come in another order than that of the file in the original. */
static void show_keys(void) {
  static char lines[64][600];
  const llama_model* m = program.model;
  char key[256], value[256];
  const int32_t n = CALL(model_meta_count)(m);
  show("keys", "%d", n);
  require(n <= 62, "a model of this test has few keys");
  for (int32_t i = -1; i <= n; ++i) {
    strcpy(key, "unchanged");
    strcpy(value, "unchanged");
    const int32_t n_key = CALL(model_meta_key_by_index)(m, i, key, sizeof key);
    const int32_t n_value = CALL(model_meta_val_str_by_index)(m, i, value, sizeof value);
    snprintf(lines[i + 1], sizeof lines[0], "%s %d = %s %d", quoted(key, -1), n_key, quoted(value, -1), n_value);
  }
  qsort(lines, (size_t)n + 2, sizeof lines[0], compare_texts);
  for (int32_t i = 0; i < n + 2; ++i) show("key", "%s", lines[i]);
  const char* const asked[] = {"general.name", "llama.block_count", "no.such.key", "tokenizer.ggml.tokens", ""};
  for (size_t i = 0; i < sizeof asked / sizeof *asked; ++i) {
    strcpy(value, "unchanged");
    const int32_t length = CALL(model_meta_val_str)(m, asked[i], value, sizeof value);
    show("value", "%s: %d %s", asked[i], length, quoted(value, -1));
  }
  const int32_t length = CALL(model_meta_val_str)(m, "general.name", value, 3);
  show("value in 3 bytes", "%d %s", length, value);
}

void run_model(void) {
  show_loading();
  show_facts();
  show_keys();
}

static void show_special_tokens(void) {
  const llama_vocab* v = program.vocab;
  show("special", "bos %d %d, eos %d %d, eot %d %d, sep %d %d, nl %d %d, pad %d %d", CALL(vocab_bos)(v),
       CALL(token_bos)(v), CALL(vocab_eos)(v), CALL(token_eos)(v), CALL(vocab_eot)(v), CALL(token_eot)(v),
       CALL(vocab_sep)(v), CALL(token_sep)(v), CALL(vocab_nl)(v), CALL(token_nl)(v), CALL(vocab_pad)(v),
       CALL(token_pad)(v));
  show("special", "mask %d, cls %d %d", CALL(vocab_mask)(v), CALL(vocab_cls)(v), CALL(token_cls)(v));
  show("added", "bos %d %d, eos %d %d, sep %d", CALL(vocab_get_add_bos)(v), CALL(add_bos_token)(v),
       CALL(vocab_get_add_eos)(v), CALL(add_eos_token)(v), CALL(vocab_get_add_sep)(v));
  show("infill", "pre %d %d, suf %d %d, mid %d %d, pad %d %d, rep %d %d, sep %d %d", CALL(vocab_fim_pre)(v),
       CALL(token_fim_pre)(v), CALL(vocab_fim_suf)(v), CALL(token_fim_suf)(v), CALL(vocab_fim_mid)(v),
       CALL(token_fim_mid)(v), CALL(vocab_fim_pad)(v), CALL(token_fim_pad)(v), CALL(vocab_fim_rep)(v),
       CALL(token_fim_rep)(v), CALL(vocab_fim_sep)(v), CALL(token_fim_sep)(v));
  int32_t n = -7;
  const llama_token* suppressed = CALL(vocab_get_suppress_tokens)(v, &n);
  show("suppressed", "%d, %d", n, suppressed != NULL && n > 0);
}

void run_vocabulary(void) {
  const llama_vocab* v = program.vocab;
  const int32_t n = CALL(vocab_n_tokens)(v);
  show("vocabulary", "type %d, %d %d tokens", CALL(vocab_type)(v), n, CALL(n_vocab)(v));
  show_special_tokens();
  for (llama_token id = 0; id < n; id += id < 10 || (id > 250 && id < 270) ? 1 : 17) {
    show("token", "%d %s %.3f %d%s%s", id, quoted(CALL(vocab_get_text)(v, id), -1),
         (double)CALL(vocab_get_score)(v, id), CALL(vocab_get_attr)(v, id), CALL(vocab_is_eog)(v, id) ? " ends" : "",
         CALL(vocab_is_control)(v, id) ? " control" : "");
    const bool is_same = strcmp(CALL(token_get_text)(v, id), CALL(vocab_get_text)(v, id)) == 0 &&
                         CALL(token_get_attr)(v, id) == CALL(vocab_get_attr)(v, id) &&
                         CALL(token_is_eog)(v, id) == CALL(vocab_is_eog)(v, id) &&
                         CALL(token_is_control)(v, id) == CALL(vocab_is_control)(v, id) &&
                         CALL(token_get_score)(v, id) <= CALL(vocab_get_score)(v, id);
    require(is_same, "the old names tell the same");
  }
  show("no token", "ends %d", CALL(vocab_is_eog)(v, -1));
}

static void show_tokens(const char* text) {
  llama_token tokens[256];
  char back[1024];
  for (int i = 0; i < 4; ++i) {
    const bool adds = i % 2 != 0, parses = i / 2 != 0;
    const int32_t n = CALL(tokenize)(program.vocab, text, (int32_t)strlen(text), tokens, 256, adds, parses);
    show("tokens", "%s %d%d: %d: %s", quoted(text, -1), adds, parses, n, listed(tokens, n));
    for (int j = 0; j < 4; ++j) {
      const int32_t length = CALL(detokenize)(program.vocab, tokens, n, back, sizeof back, j % 2 != 0, j / 2 != 0);
      show(" text", "%d %s", length, quoted(back, length < 0 ? 0 : length));
    }
  }
}

void run_texts(void) {
  const char* const texts[] = {
      "Once upon a time", " a  b", "<s>x</s> y",   "\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80", "", " ",
      "\n\n\t",           "<unk>", "one two three"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) show_tokens(texts[i]);
  const llama_vocab* v = program.vocab;
  llama_token tokens[16];
  const int32_t n_bad = CALL(tokenize)(v, "a\xff\xfe z", 5, tokens, 16, true, false);
  differs("tokens of bytes that are no UTF-8", "bytes behind them are text again", "%s", listed(tokens, n_bad));
  show("tokens in a small array", "%d", CALL(tokenize)(v, "Once upon a time", 16, tokens, 3, true, false));
  show("tokens in no array", "%d", CALL(tokenize)(v, "Once upon a time", 16, NULL, 0, true, false));
  char text[64];
  const int32_t n = CALL(tokenize)(v, "Once upon", 9, tokens, 16, true, false);
  show("text in a small buffer", "%d", CALL(detokenize)(v, tokens, n, text, 3, false, false));
  show("no tokens", "%d", CALL(detokenize)(v, tokens, 0, text, sizeof text, false, false));
  const llama_token pieces[] = {0, 1, 2, 3, 13, 45, 261, 262, 403, 511};
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; ++i)
    for (int32_t strip = 0; strip < 3; ++strip)
      for (int special = 0; special < 2; ++special) {
        const int32_t length = CALL(token_to_piece)(v, pieces[i], text, sizeof text, strip, special != 0);
        show("piece", "%d %d %d: %d %s", pieces[i], strip, special, length, quoted(text, length < 0 ? 0 : length));
      }
  show("piece in a small buffer", "%d %d", CALL(token_to_piece)(v, 403, text, 1, 0, false),
       CALL(token_to_piece)(v, 403, text, 0, 0, false));
}
