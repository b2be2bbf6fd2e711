// llama.h: functions that are refused, and those that are accepted without effect.
#include <algorithm>

#include "tessera/llama/objects.h"

using namespace tessera;
using namespace tessera::llama;

namespace {

struct RefusedFunction {
  std::string_view name;
  std::string_view reason;
};
constexpr RefusedFunction kRefusedFunctions[] = {
#define TESSERA_LLAMA_REFUSED(name, reason) {#name, "not supported: " reason},
#include "tessera/llama/refused.def"
#undef TESSERA_LLAMA_REFUSED
};

void log_refusal(std::string_view function, LogLevel level = LogLevel::error) {
  const auto* const found = std::ranges::find(kRefusedFunctions, function, &RefusedFunction::name);
  log_line(level, function, found == std::end(kRefusedFunctions) ? "not supported" : found->reason);
}

}  // namespace

void tessera_llama_layout_refuse(const char* function, bool is_expected) {
  log_refusal(function, is_expected ? LogLevel::info : LogLevel::error);
}

void tessera_llama_attach_threadpool(llama_context* /*ctx*/, void* /*threadpool*/, void* /*threadpool_batch*/) {
  log_refusal("llama_attach_threadpool", LogLevel::warning);
}
void tessera_llama_detach_threadpool(llama_context* /*ctx*/) {}

llama_adapter_lora* tessera_llama_adapter_lora_init_from_file_ptr(llama_model* /*model*/, void* /*file*/) {
  log_refusal("llama_adapter_lora_init_from_file_ptr");
  return nullptr;
}

bool tessera_llama_set_sampler(llama_context* /*ctx*/, llama_seq_id /*seq_id*/, llama_sampler* /*smpl*/) {
  log_refusal("llama_set_sampler");
  return false;
}

bool tessera_llama_opt_param_filter_all(const ggml_tensor* /*tensor*/, void* /*userdata*/) {
  log_refusal("llama_opt_param_filter_all");
  return false;
}
void tessera_llama_opt_init() { log_refusal("llama_opt_init"); }
void tessera_llama_opt_epoch() { log_refusal("llama_opt_epoch"); }
