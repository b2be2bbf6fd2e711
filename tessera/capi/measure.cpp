// tessera.h: perplexity, and the cost of a step.
#include <algorithm>

#include "tessera/capi/chunks.h"
#include "tessera/eval/perplexity.h"

using namespace tessera;
using capi::guarded;

namespace {

constexpr tessera_perplexity_options kPerplexityDefaults = {};

struct Measurement {
  eval::ChunkOptions chunks{};
  SessionOptions session{};
};

Result<Measurement> read_measurement(const tessera_model* model, const tessera_perplexity_options* options) {
  TESSERA_TRY(capi::require(model, "model"));
  TESSERA_ASSIGN(const auto given, capi::read_sized(options, kPerplexityDefaults, "options"));
  TESSERA_TRY(capi::require_flags(given.flags, TESSERA_PERPLEXITY_F32_ACTIVATIONS));
  Measurement wanted;
  TESSERA_ASSIGN(wanted.chunks.n_ctx, capi::count_or(given.n_ctx, capi::kUsualChunkTokens, "n_ctx"));
  TESSERA_ASSIGN(wanted.chunks.stride, capi::count_or(given.stride, 0, "stride"));
  TESSERA_ASSIGN(wanted.chunks.n_max_chunks, capi::max_chunks(given.n_chunks));
  // As `tessera perplexity` does: at least n_ctx - stride / 2 tokens precede the scored ones.
  wanted.chunks.n_ctx += std::min<int64_t>(wanted.chunks.stride / 2, kMaxContext);
  TESSERA_ASSIGN(wanted.session, capi::chunk_session_options(*model, given.session));
  if ((given.flags & TESSERA_PERPLEXITY_F32_ACTIVATIONS) != 0)
    wanted.session.activations = ActivationPrecision::float32;
  return wanted;
}

Result<tessera_perplexity_info> measure_perplexity(const tessera_model& model, const Measurement& wanted,
                                                   const eval::Chunks& chunks, const capi::Progress& progress) {
  const Range scored = eval::scored_positions(chunks.n_ctx(), chunks.stride());
  TESSERA_ASSIGN(const auto work, capi::create_chunk_session(model, wanted.session, chunks.n_ctx(), scored));
  eval::Perplexity perplexity;
  const auto visit = [&](std::span<const eval::ChunkRow> rows) {
    return eval::score(perplexity, chunks, rows, *work.threads);
  };
  const auto show = [&](int64_t n) { return progress(static_cast<float>(n) / static_cast<float>(chunks.size())); };
  TESSERA_TRY(eval::decode_all(*work.session, chunks, work.run, visit, show, progress.cancel()));
  const eval::PerplexityEstimate estimate = perplexity.estimate();
  const eval::Measured mean = perplexity.mean();
  tessera_perplexity_info info{};
  info.n_chunks = chunks.size();
  info.n_tokens = estimate.n_tokens;
  info.mean_nll = mean.value;
  info.mean_nll_error = mean.error;
  info.perplexity = estimate.ppl;
  info.perplexity_error = estimate.error;
  return info;
}

struct ProgressCaller {
  tessera_progress_function progress;
  void* user;
  tessera_cancel* cancel;
};

// `cut` makes the chunks.
template <class Cut>
tessera_status measure_chunks(tessera_model* model, const tessera_perplexity_options* options, Cut&& cut,
                              const ProgressCaller& caller, tessera_perplexity_info* info, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_ASSIGN(const Measurement wanted, read_measurement(model, options));
    TESSERA_ASSIGN(const auto progress, capi::progress_of(caller.progress, caller.user, caller.cancel));
    TESSERA_TRY(capi::require_pointer(info, "info"));
    TESSERA_TRY(capi::require_info(info));
    TESSERA_ASSIGN(const eval::Chunks chunks, cut(wanted.chunks));
    TESSERA_ASSIGN(const auto measured, measure_perplexity(*model, wanted, chunks, progress));
    capi::write_info(info, measured);
    return {};
  });
}

}  // namespace

void tessera_perplexity_options_init(tessera_perplexity_options* options, size_t size) {
  capi::write_sized(options, size, kPerplexityDefaults);
}

tessera_status tessera_perplexity(tessera_model* model, const char* text, int64_t length,
                                  const tessera_perplexity_options* options, tessera_progress_function progress,
                                  void* user, tessera_cancel* cancel, tessera_perplexity_info* info,
                                  tessera_error* error) {
  const auto cut = [&](const eval::ChunkOptions& chunks) -> Result<eval::Chunks> {
    TESSERA_ASSIGN(const std::string_view given, capi::read_text(text, length, "text"));
    return eval::Chunks::create(model->engine->tokenizer(), given, chunks);
  };
  return measure_chunks(model, options, cut, {progress, user, cancel}, info, error);
}

tessera_status tessera_perplexity_of_tokens(tessera_model* model, const int32_t* tokens, uint64_t count,
                                            const tessera_perplexity_options* options,
                                            tessera_progress_function progress, void* user, tessera_cancel* cancel,
                                            tessera_perplexity_info* info, tessera_error* error) {
  const auto cut = [&](const eval::ChunkOptions& chunks) -> Result<eval::Chunks> {
    TESSERA_ASSIGN(const auto ids, capi::read_items(tokens, count, "tokens"));
    return eval::Chunks::create(model->engine->vocab(), ids, chunks);
  };
  return measure_chunks(model, options, cut, {progress, user, cancel}, info, error);
}

tessera_status tessera_session_step_cost(tessera_session* session, int64_t n_tokens, int64_t n_outputs,
                                         tessera_step_cost_info* info, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(session, "session"));
    TESSERA_TRY(capi::require_pointer(info, "info"));
    TESSERA_TRY(capi::require_info(info));
    const SessionOptions& options = session->session->options();
    const int64_t most = std::min(n_tokens, options.n_outputs);
    if (n_tokens < 1 || n_tokens > options.n_ubatch)
      return fail(ErrorCode::invalid_argument, "n_tokens: {}, want 1 to {}", n_tokens, options.n_ubatch);
    if (n_outputs < 0 || n_outputs > most)
      return fail(ErrorCode::invalid_argument, "n_outputs: {}, want 0 to {}", n_outputs, most);
    TESSERA_ASSIGN(const StepCost cost, session->session->step_cost(n_tokens, n_outputs));
    tessera_step_cost_info found{};
    found.macs = cost.macs;
    found.int8_macs = cost.int8_macs;
    found.weight_bytes = cost.weight_bytes;
    found.macs_per_pair = cost.macs_per_pair;
    found.kv_bytes_per_position = cost.kv_bytes_per_position;
    capi::write_info(info, found);
    return {};
  });
}
