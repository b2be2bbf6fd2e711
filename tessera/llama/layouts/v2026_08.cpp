// libllama.so for programs that were built with llama.h of August 2026.
#include "tessera/llama/layouts/v2026_08.h"

#include "tessera/llama/layouts/common.h"

namespace {

using namespace tessera::llama;

constexpr int32_t kMapped = 1;

void set_defaults(llama_model_params& params) {
  set_common_model(params);
  params.load_mode = kMapped;
}
void set_defaults(llama_context_params& params) { set_common_context(params); }
void set_defaults(llama_model_quantize_params& params) { set_common_quantize(params); }

ModelParams to_params(const llama_model_params& params) { return common_model(params); }
ContextParams to_params(const llama_context_params& params) { return common_context(params); }
QuantizeParams to_params(const llama_model_quantize_params& params) { return common_quantize(params); }

}  // namespace

#include "tessera/llama/layouts/functions.h"
