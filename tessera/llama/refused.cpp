// llama.h: functions that are refused, and those that are accepted without effect.
#include "tessera/llama/objects.h"

using namespace tessera;
using namespace tessera::llama;

namespace {

constexpr const char* kNoTraining = "not supported: tessera train trains models";

void log_refusal(const char* function, const char* reason) { log_line(LogLevel::error, function, reason); }

}  // namespace

void tessera_llama_attach_threadpool(llama_context* /*ctx*/, void* /*threadpool*/, void* /*threadpool_batch*/) {
  log_line(LogLevel::warning, "llama_attach_threadpool", "ignored: a context has threads of its own");
}
void tessera_llama_detach_threadpool(llama_context* /*ctx*/) {}

llama_adapter_lora* tessera_llama_adapter_lora_init_from_file_ptr(llama_model* /*model*/, void* /*file*/) {
  log_refusal("llama_adapter_lora_init_from_file_ptr", "not supported: adapters are opened by their paths");
  return nullptr;
}

bool tessera_llama_set_sampler(llama_context* /*ctx*/, llama_seq_id /*seq_id*/, llama_sampler* /*smpl*/) {
  log_refusal("llama_set_sampler", "not supported: samplers do not run within a graph");
  return false;
}

bool tessera_llama_opt_param_filter_all(const ggml_tensor* /*tensor*/, void* /*userdata*/) {
  log_refusal("llama_opt_param_filter_all", kNoTraining);
  return false;
}
void tessera_llama_opt_init() { log_refusal("llama_opt_init", kNoTraining); }
void tessera_llama_opt_epoch() { log_refusal("llama_opt_epoch", kNoTraining); }
