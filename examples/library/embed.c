/* Compares texts by their meaning: prints the similarity of each text to the first one.
 *
 *     cc embed.c $(pkg-config --cflags --libs tessera) -o embed
 *     ./embed MODEL.gguf "a cat on a mat" "a dog on a rug" "stocks fell on Monday"
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tessera/tessera.h>

/* What the callback needs: the texts, and the vector of the first one. */
typedef struct comparison {
  char** texts;
  float* first;
} comparison;

/* Takes the vector of text number `index`. Vectors have length 1, so their product is their cosine similarity. */
static int32_t compare(void* user, uint64_t index, const float* vector, uint64_t count) {
  comparison* with = user;
  double product = 0;
  uint64_t i;
  if (index == 0) {
    with->first = malloc((size_t)count * sizeof *vector);
    if (with->first == NULL) return 1; /* stops */
    memcpy(with->first, vector, (size_t)count * sizeof *vector);
    return 0;
  }
  for (i = 0; i < count; ++i) product += (double)vector[i] * with->first[i];
  printf("%.4f %s\n", product, with->texts[index]);
  return 0;
}

int main(int argc, char** argv) {
  tessera_error error = TESSERA_ERROR_INIT;
  tessera_runtime* runtime = NULL;
  tessera_model* model = NULL;
  tessera_embed_options options;
  comparison with = {NULL, NULL};
  int result = 0;
  if (argc < 4) {
    fprintf(stderr, "usage: embed MODEL.gguf TEXT TEXT...\n");
    return 2;
  }
  with.texts = argv + 2;
  tessera_embed_options_init(&options, sizeof options);
  options.pooling = TESSERA_POOLING_DEFAULT; /* as the model's file says */
  options.normalization = TESSERA_NORMALIZE_EUCLIDEAN;

  if (tessera_runtime_create(NULL, &runtime, &error) != TESSERA_OK ||
      tessera_model_open(runtime, argv[1], NULL, &model, &error) != TESSERA_OK ||
      tessera_model_load(model, NULL, NULL, NULL, &error) != TESSERA_OK ||
      tessera_embed(model, (const char* const*)with.texts, NULL, (uint64_t)argc - 2, &options, compare, &with, NULL,
                    &error) != TESSERA_OK) {
    fprintf(stderr, "error: %s\n", error.text);
    result = 1;
  }
  free(with.first);
  tessera_model_release(model);
  tessera_runtime_release(runtime);
  return result;
}
