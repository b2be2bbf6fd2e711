// llama.h: times.
#include <fmt/format.h>

#include <algorithm>

#include "tessera/llama/context.h"

using namespace tessera;
using namespace tessera::llama;

namespace {

double to_ms(int64_t us) { return static_cast<double>(us) * 1e-3; }

// Programs divide by the counts, so they are 1 or more.
llama_perf_context_data times_of(const llama_context& context) {
  const Timing& timing = context.timing;
  return {.t_start_ms = to_ms(timing.start_us),
          .t_load_ms = to_ms(context.model->load_us),
          .t_p_eval_ms = to_ms(timing.prompt_us),
          .t_eval_ms = to_ms(timing.token_us),
          .n_p_eval = std::max(timing.n_prompt, 1),
          .n_eval = std::max(timing.n_tokens, 1),
          .n_reused = 0};
}

}  // namespace

llama_perf_context_data tessera_llama_perf_context(const llama_context* ctx) {
  return of_context<llama_perf_context_data>("llama_perf_context", ctx, {}, times_of);
}

void tessera_llama_perf_context_print(const llama_context* ctx) {
  of_context("llama_perf_context_print", ctx, false, [](const llama_context& of) {
    const llama_perf_context_data times = times_of(of);
    log_line(LogLevel::info, "llama_perf_context_print",
             fmt::format("load {:.2f} ms, prompts {:.2f} ms / {} tokens, generation {:.2f} ms / {} tokens",
                         times.t_load_ms, times.t_p_eval_ms, times.n_p_eval, times.t_eval_ms, times.n_eval));
    return true;
  });
}

void tessera_llama_perf_context_reset(llama_context* ctx) {
  of_context("llama_perf_context_reset", ctx, false, [](llama_context& of) {
    of.timing = {.start_us = tessera_llama_time_us()};
    return true;
  });
}
