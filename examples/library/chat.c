/* Talks with a model, in a terminal or a pipe: each line of the input is a message.
 *
 *     cc chat.c $(pkg-config --cflags --libs tessera) -o chat
 *     ./chat MODEL.gguf
 *     ./chat MODEL.gguf --template chatml --tokens 64
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/tessera.h>

static tessera_error error = TESSERA_ERROR_INIT;

static int failed(void) {
  fprintf(stderr, "error: %s\n", error.text);
  return 1;
}

/* ---- A text that grows ---- */

typedef struct {
  char* bytes; /* ended by a NUL, or NULL */
  size_t n, room;
} text;

/* Makes room for n more bytes and the NUL. */
static void reserve(text* to, size_t n) {
  if (to->room - to->n > n) return;
  to->room = 2 * (to->n + n + 1);
  to->bytes = realloc(to->bytes, to->room);
  if (to->bytes == NULL) abort();
}

static void append(text* to, const char* bytes, size_t n) {
  reserve(to, n);
  if (n > 0) memcpy(to->bytes + to->n, bytes, n);
  to->n += n;
  to->bytes[to->n] = '\0';
}

static void append_text(text* to, const char* more) { append(to, more, strlen(more)); }

/* Appends a line as a JSON string. */
static void append_quoted(text* to, const char* line) {
  char escape[8];
  append_text(to, "\"");
  for (; *line != '\0'; ++line) {
    unsigned char c = (unsigned char)*line;
    sprintf(escape, c < 0x20 || c == '"' || c == '\\' ? "\\u%04x" : "%c", c);
    append_text(to, escape);
  }
  append_text(to, "\"");
}

/* ---- The conversation ---- */

typedef struct {
  const tessera_template* chat_template;
  tessera_session* session;
  tessera_sampler* sampler;
  tessera_generation_options generate;
  tessera_reply_options parse;
  text messages; /* JSON without its last bracket */
  text prompt;
  text reply;   /* of the model, so far */
  text message; /* the same as JSON */
  size_t n_shown;
} chat;

/* Prints what is new in the content of the message, {"role": "assistant", "content": "... */
static void show_content(chat* to) {
  static const char before[] = "{\"role\": \"assistant\", \"content\": \"";
  static const char escapes[] = "n\nt\tr\rb\bf\f";
  const char* at = to->message.bytes + sizeof before - 1;
  size_t n = 0;
  for (; *at != '"'; ++at, ++n) {
    int c = *at;
    if (c == '\\') {
      const char* known = strchr(escapes, *++at);
      c = known != NULL ? known[1] : *at;
      if (*at == 'u') { /* \u001b: a control character */
        c = (int)strtol(at + 3, NULL, 16) & 0x1f;
        at += 4;
      }
    }
    if (n >= to->n_shown) putchar(c);
  }
  to->n_shown = n;
  fflush(stdout);
}

/* Reads the reply so far and shows it. Returns 0 for success. */
static int read_reply(chat* of) {
  uint64_t needed = 0;
  tessera_status status;
  do {
    reserve(&of->message, (size_t)needed);
    status = tessera_reply_parse(of->chat_template, of->reply.bytes, (int64_t)of->reply.n, &of->parse,
                                 of->message.bytes, of->message.room, &needed, &error);
  } while (status == TESSERA_LIMIT && needed > of->message.room);
  if (status == TESSERA_OK) show_content(of);
  return status != TESSERA_OK;
}

/* A token of the reply. */
static int32_t take_token(void* user, const tessera_generated* next) {
  chat* to = user;
  append(&to->reply, next->text, (size_t)next->n_bytes);
  if (next->stop == TESSERA_STOP_END) to->parse.end = TESSERA_REPLY_ENDED;
  if (next->stop > TESSERA_STOP_END) to->parse.end = TESSERA_REPLY_CUT;
  return read_reply(to);
}

/* Writes the prompt of the messages as text, whose end the reply begins with, and returns its tokens, or NULL. */
static int32_t* write_prompt(chat* of, uint64_t* count) {
  const char* messages = of->messages.bytes;
  uint64_t needed = 0, reply_at = 0;
  tessera_status status;
  int32_t* tokens = NULL;
  do {
    reserve(&of->prompt, (size_t)needed);
    status = tessera_template_render(of->chat_template, messages, -1, NULL, of->prompt.bytes, of->prompt.room, &needed,
                                     &reply_at, &error);
  } while (status == TESSERA_LIMIT && needed > of->prompt.room);
  if (status != TESSERA_OK) return NULL;
  of->parse.prompt = of->prompt.bytes + reply_at;
  status = tessera_template_tokenize(of->chat_template, messages, -1, NULL, NULL, 0, count, &error);
  if (status == TESSERA_LIMIT) tokens = malloc((size_t)*count * sizeof *tokens);
  if (tokens == NULL) return NULL;
  status = tessera_template_tokenize(of->chat_template, messages, -1, NULL, tokens, *count, count, &error);
  if (status == TESSERA_OK) return tokens;
  free(tokens);
  return NULL;
}

/* Adds a message of the user and the reply of the model to the conversation. Returns 0 for success. */
static int answer(chat* of, const char* line) {
  uint64_t count = 0;
  int32_t* tokens;
  tessera_status status;
  append_text(&of->messages, of->messages.n == 0 ? "[" : ",");
  append_text(&of->messages, "{\"role\": \"user\", \"content\": ");
  append_quoted(&of->messages, line);
  append_text(&of->messages, "}]");
  tokens = write_prompt(of, &count);
  --of->messages.n; /* the bracket */
  if (tokens == NULL) return failed();
  of->reply.n = of->n_shown = 0;
  of->parse.end = TESSERA_REPLY_GROWS;
  ++of->parse.seed; /* the calls of each reply have other ids */
  status = tessera_generate(of->session, of->sampler, 0, &of->generate, tokens, count, take_token, of, NULL, &error);
  free(tokens);
  putchar('\n');
  if (status != TESSERA_OK) return failed();
  append_text(&of->messages, ",");
  append_text(&of->messages, of->message.bytes);
  return 0;
}

static int talk(chat* with) {
  char line[4096];
  int result = 0;
  while (result == 0 && fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    result = answer(with, line);
  }
  return result;
}

int main(int argc, char** argv) {
  tessera_runtime* runtime = NULL;
  tessera_model* model = NULL;
  tessera_template* chat_template = NULL;
  tessera_sampler_options sampling;
  const char* source = NULL;
  chat with = {0};
  int result = 1, i;
  tessera_sampler_options_init(&sampling, sizeof sampling);
  sampling.temperature = 0; /* always the most probable token */
  tessera_generation_options_init(&with.generate, sizeof with.generate);
  with.generate.flags = TESSERA_GENERATE_SPECIAL;
  tessera_reply_options_init(&with.parse, sizeof with.parse);
  for (i = 2; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--template") == 0) source = argv[i + 1];
    if (strcmp(argv[i], "--tokens") == 0) with.generate.n_predict = atoll(argv[i + 1]);
  }
  if (argc < 2) {
    fprintf(stderr, "usage: chat MODEL.gguf [--template NAME] [--tokens N]\n");
    return 2;
  }
  if (tessera_runtime_create(NULL, &runtime, &error) != TESSERA_OK ||
      tessera_model_open(runtime, argv[1], NULL, &model, &error) != TESSERA_OK ||
      tessera_template_open(model, source, -1, 0, &chat_template, &error) != TESSERA_OK ||
      tessera_model_load(model, NULL, NULL, NULL, &error) != TESSERA_OK ||
      tessera_session_create(model, NULL, &with.session, &error) != TESSERA_OK ||
      tessera_sampler_create(model, &sampling, tessera_session_n_ctx(with.session), &with.sampler, &error) !=
          TESSERA_OK) {
    failed();
  } else {
    with.chat_template = chat_template;
    result = talk(&with);
  }
  free(with.messages.bytes);
  free(with.prompt.bytes);
  free(with.reply.bytes);
  free(with.message.bytes);
  tessera_sampler_release(with.sampler);
  tessera_session_release(with.session);
  tessera_template_release(chat_template);
  tessera_model_release(model);
  tessera_runtime_release(runtime);
  return result;
}
