// The functions of ggml that are refused, one for each row of refused.def. The caller removes the arguments, so a
// function without parameters serves calls with any, and the null pointer that it returns is also 0 and false.
#include "tessera/llama/boundary.h"

#include "tessera/llama/ggml/api.h"

using namespace tessera::llama;

#define TESSERA_GGML_REFUSED(name, reason)                      \
  TESSERA_LLAMA_API void* tessera_##name() {                    \
    log_line(LogLevel::error, #name, "not supported: " reason); \
    return nullptr;                                             \
  }
#include "tessera/llama/ggml/refused.def"
#undef TESSERA_GGML_REFUSED
