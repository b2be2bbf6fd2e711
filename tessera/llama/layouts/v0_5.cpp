// libllama.so for programs that were built with llama.h v0.5.0.
#include "tessera/llama/layouts/v0_5.h"

#include "tessera/llama/layouts/common.h"

namespace {

using namespace tessera::llama;

constexpr size_t kMaxQuantizeBuffer = size_t{8} << 30;

void set_defaults(llama_model_params& params) {
  set_common_model(params);
  params.load_mode = ModelParams().load_mode;
  params.lazy_mode = 1;
}
void set_defaults(llama_context_params& params) {
  set_common_context(params);
  params.n_outputs_max_per_seq = 1;
}
void set_defaults(llama_model_quantize_params& params) {
  set_common_quantize(params);
  params.max_buf_size = kMaxQuantizeBuffer;
}

ModelParams to_params(const llama_model_params& params) { return common_model(params); }
ContextParams to_params(const llama_context_params& params) { return common_context(params); }
QuantizeParams to_params(const llama_model_quantize_params& params) { return common_quantize(params); }

}  // namespace

#include "tessera/llama/layouts/functions.h"
