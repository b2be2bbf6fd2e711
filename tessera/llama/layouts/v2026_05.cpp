// libllama.so for programs that were built with llama.h of May 2026.
#include "tessera/llama/layouts/v2026_05.h"

#include "tessera/llama/layouts/common.h"

namespace {

using namespace tessera::llama;

// By use_mmap + 2 * use_mlock: the load_mode of later versions.
constexpr int32_t kLoadModes[] = {0, 1, 2, 3};
constexpr int32_t kDirectLoad = 4;

void set_defaults(llama_model_params& params) {
  set_common_model(params);
  params.use_mmap = true;
}
void set_defaults(llama_context_params& params) { set_common_context(params); }
void set_defaults(llama_model_quantize_params& params) { set_common_quantize(params); }

ModelParams to_params(const llama_model_params& params) {
  ModelParams to = common_model(params);
  to.load_mode = kLoadModes[(params.use_mmap ? 1 : 0) + (params.use_mlock ? 2 : 0)];
  if (params.use_direct_io && !params.use_mlock) to.load_mode = kDirectLoad;
  return to;
}
ContextParams to_params(const llama_context_params& params) { return common_context(params); }
QuantizeParams to_params(const llama_model_quantize_params& params) { return common_quantize(params); }

}  // namespace

#include "tessera/llama/layouts/functions.h"

// Two functions got other parameters in August 2026: penalties the size of the vocabulary, and dry lost the length of
// the context. Their names stayed.
TESSERA_LAYOUT_API llama_sampler* llama_sampler_init_penalties(int32_t penalty_last_n, float penalty_repeat,
                                                               float penalty_freq, float penalty_present) {
  return tessera_llama_sampler_init_penalties(INT32_MAX, penalty_last_n, penalty_repeat, penalty_freq, penalty_present);
}

TESSERA_LAYOUT_API llama_sampler* llama_sampler_init_dry(const llama_vocab* vocab, int32_t n_ctx_train,
                                                         float dry_multiplier, float dry_base,
                                                         int32_t dry_allowed_length, int32_t dry_penalty_last_n,
                                                         const char** seq_breakers, size_t num_breakers) {
  return tessera_llama_sampler_init_dry(vocab, dry_multiplier, dry_base, dry_allowed_length,
                                        dry_penalty_last_n < 0 ? n_ctx_train : dry_penalty_last_n, seq_breakers,
                                        num_breakers);
}
