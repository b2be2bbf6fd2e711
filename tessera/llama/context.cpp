// llama.h: contexts and their settings.
#include "tessera/llama/context.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/base/cpu_info.h"

using namespace tessera;
using namespace tessera::llama;

namespace {

constexpr uint32_t kContextStep = 256;
constexpr int64_t kOutputsAtOnce = 32;  // rows of logits that a session has room for; more are computed in parts

// By llama_rope_scaling_type.
constexpr std::array kRopeScalings = {nn::RopeScaling::none, nn::RopeScaling::linear, nn::RopeScaling::yarn,
                                      nn::RopeScaling::longrope};

// Settings that would change results and that a session does not have.
Result<> require_known(const ModelInfo& info, const ContextParams& params) {
  if (params.has_eval_callback) return fail(ErrorCode::unsupported, "cb_eval: tensors of a graph are not handed out");
  if (params.has_samplers) return fail(ErrorCode::unsupported, "samplers: sampling within a graph is not supported");
  if (params.ctx_type != 0)
    return fail(ErrorCode::unsupported, "ctx_type: {}, want 0: prediction of several tokens is not supported",
                params.ctx_type);
  if (params.n_seq_max > tessera_llama_max_parallel_sequences())
    return fail(ErrorCode::invalid_argument, "n_seq_max: {}, want {} or fewer", params.n_seq_max,
                tessera_llama_max_parallel_sequences());
  if (params.pooling_type < -1 || params.pooling_type >= nn::kNPoolings)
    return fail(ErrorCode::invalid_argument, "pooling_type: {}, want -1 to {}", params.pooling_type,
                nn::kNPoolings - 1);
  if (params.attention_type < -1 || params.attention_type > 1)
    return fail(ErrorCode::invalid_argument, "attention_type: {}, want -1 to 1", params.attention_type);
  const bool is_causal = params.attention_type == -1 ? info.is_causal : params.attention_type == 0;
  if (is_causal != info.is_causal)
    return fail(ErrorCode::unsupported, "attention_type: {}: the model was trained with the other one",
                params.attention_type);
  return {};
}

// The context of all sequences and the share of each, as llama.h rounds them.
Result<> set_sizes(llama_context& context) {
  ContextParams& params = context.params;
  const int64_t asked = params.n_ctx == 0 ? context.info().n_ctx_train : params.n_ctx;
  const int64_t n_shares = params.kv_unified ? 1 : params.n_seq_max;
  context.n_ctx_seq = round_up<int64_t>(div_ceil<int64_t>(std::max<int64_t>(asked, 1), n_shares), kContextStep);
  const int64_t n_ctx = context.n_ctx_seq * n_shares;
  if (n_ctx > kMaxContext) return fail(ErrorCode::limit, "n_ctx: {}, limit {}", n_ctx, kMaxContext);
  params.n_ctx = static_cast<uint32_t>(n_ctx);
  const uint32_t most = static_cast<uint32_t>(std::clamp<int64_t>(asked, 1, n_ctx));
  if (params.n_batch == 0) params.n_batch = most;
  if (!context.is_without_memory()) params.n_batch = std::min(params.n_batch, most);
  params.n_batch = std::min<uint32_t>(params.n_batch, kMaxUbatch);
  if (params.n_ubatch == 0 || context.is_without_memory()) params.n_ubatch = params.n_batch;
  params.n_ubatch = std::min(params.n_ubatch, params.n_batch);
  return {};
}

Result<DType> cache_type(int32_t type, std::string_view name) {
  const auto found = type < 0 ? std::nullopt : checked_cast<uint32_t>(type);
  const auto dtype = found ? dtype_from_gguf_id(*found) : fail(ErrorCode::invalid_argument, "{}", type);
  if (!dtype || !info(*dtype).is_kv_format)
    return fail(ErrorCode::unsupported, "{}: type {} cannot hold a cache; want one of {}", name, type,
                kv_format_names());
  return *dtype;
}

std::optional<float> unless(float value, float default_value) {
  return value == default_value ? std::nullopt : std::optional(value);
}

Result<RopeOverrides> rope_overrides(const ContextParams& params) {
  RopeOverrides rope;
  if (params.rope_scaling_type != -1) {
    if (params.rope_scaling_type < 0 || std::cmp_greater_equal(params.rope_scaling_type, kRopeScalings.size()))
      return fail(ErrorCode::invalid_argument, "rope_scaling_type: {}, want -1 to {}", params.rope_scaling_type,
                  kRopeScalings.size() - 1);
    rope.scaling = kRopeScalings[static_cast<size_t>(params.rope_scaling_type)];
  }
  rope.freq_base = unless(params.rope_freq_base, 0);
  if (params.rope_freq_scale != 0) rope.factor = 1 / params.rope_freq_scale;
  rope.yarn_ext = unless(params.yarn_ext_factor, -1);
  rope.attn_factor = unless(params.yarn_attn_factor, -1);
  rope.yarn_beta_fast = unless(params.yarn_beta_fast, -1);
  rope.yarn_beta_slow = unless(params.yarn_beta_slow, -1);
  if (params.yarn_orig_ctx != 0) rope.original_context = params.yarn_orig_ctx;
  return rope;
}

bool changes_rope(const RopeOverrides& rope) {
  return rope.scaling || rope.freq_base || rope.factor || rope.yarn_ext || rope.attn_factor || rope.yarn_beta_fast ||
         rope.yarn_beta_slow || rope.original_context;
}

int threads_of(const ContextParams& params) {
  return params.n_threads <= 0 ? default_thread_count() : std::min(params.n_threads, ThreadPool::kMaxThreads);
}

Result<llama_context*> create_context(llama_model& model, const ContextParams& params) {
  if (model.info() == nullptr) return fail(ErrorCode::invalid_argument, "model: only its vocabulary is loaded");
  if (!model.engine->is_loaded()) return fail(ErrorCode::invalid_argument, "model: its weights are not loaded");
  auto context = std::make_unique<llama_context>(model.shared_from_this());
  context->params = params;
  context->params.n_seq_max = std::max(params.n_seq_max, 1u);
  TESSERA_TRY(require_known(*model.info(), params));
  if (!model.info()->has_logits) context->params.embeddings = true;
  TESSERA_TRY(set_sizes(*context));
  const nn::Pooling of_model = model.info()->pooling.value_or(nn::Pooling::none);
  context->pooling = params.pooling_type == -1 ? of_model : static_cast<nn::Pooling>(params.pooling_type);
  if (context->pooling == nn::Pooling::rank && model.info()->n_scores == 0)
    return fail(ErrorCode::unsupported, "pooling_type: {}: the model has no rank head", params.pooling_type);
  TESSERA_ASSIGN(const RopeOverrides rope, rope_overrides(params));
  context->engine = model.engine;
  if (changes_rope(rope)) {
    TESSERA_ASSIGN(context->engine, model.engine_with(rope));
  }
  SessionOptions options = context->options_for(context->params.embeddings);
  TESSERA_ASSIGN(options.type_k, cache_type(params.type_k, "type_k"));
  TESSERA_ASSIGN(options.type_v, cache_type(params.type_v, "type_v"));
  TESSERA_TRY(context->rebuild(options));
  if (const std::string_view warning = context->session->warning(); !warning.empty())
    log_line(LogLevel::warning, "llama_init_from_model", warning);
  context->timing.start_us = tessera_llama_time_us();
  return context.release();
}

}  // namespace

bool llama_context::is_without_memory() const {
  return params.embeddings ? !info().embeds_causally() : !info().is_causal;
}

SessionOptions llama_context::options_for(bool embeddings) const {
  SessionOptions next = options;
  next.embeddings = embeddings;
  next.n_ctx = is_without_memory() ? std::max(params.n_ctx, params.n_batch) : params.n_ctx;
  next.n_ubatch = params.n_ubatch;
  next.n_sequences = static_cast<int32_t>(params.n_seq_max);
  next.n_outputs = params.n_batch;
  if (!embeddings && !is_without_memory())
    next.n_outputs =
        std::min<int64_t>(params.n_batch, std::max<int64_t>({kOutputsAtOnce, params.n_seq_max, params.n_outputs_max}));
  next.threads.n_threads = threads_of(params);
  return next;
}

bool llama_context::is_empty() const {
  for (int32_t sequence = 0; sequence < options.n_sequences; ++sequence)
    if (session->max_position(sequence)) return false;
  return true;
}

Result<> llama_context::rebuild(const SessionOptions& next) {
  TESSERA_ASSIGN(auto created, Session::create(engine, next));
  for (int32_t sequence = 0; session && sequence < options.n_sequences; ++sequence) {
    if (!session->max_position(sequence)) continue;
    TESSERA_ASSIGN(const std::vector<std::byte> state, session->save_state(sequence));
    TESSERA_TRY(created->restore_state(sequence, state));
  }
  std::swap(session, created);
  const SessionOptions before = std::exchange(options, next);
  Result<> applied = apply_adapters();
  if (!applied) {
    std::swap(session, created);
    options = before;
  }
  return applied;
}

// Gives all sequences the scales of their adapters, which the session has.
Result<> llama_context::apply_adapters() {
  std::vector<AdapterScale> scales;
  const auto add = [&](const ScaledAdapter& one) {
    const auto at = std::ranges::find(options.adapters, one.adapter, &SessionAdapter::adapter);
    scales.push_back({static_cast<size_t>(at - options.adapters.begin()), one.scale});
  };
  std::ranges::for_each(loras, add);
  if (control_vector) add(*control_vector);
  for (int32_t sequence = 0; sequence < options.n_sequences; ++sequence)
    TESSERA_TRY(session->set_adapters(sequence, scales));
  return {};
}

Result<> llama_context::use_adapters(std::vector<ScaledAdapter> new_loras,
                                     std::optional<ScaledAdapter> new_control_vector) {
  SessionOptions next = options;
  next.adapters.clear();
  bool has_all = true;
  const auto add = [&](const ScaledAdapter& one) {
    next.adapters.push_back({one.adapter, 0.0f});
    has_all &= std::ranges::find(options.adapters, one.adapter, &SessionAdapter::adapter) != options.adapters.end();
  };
  std::ranges::for_each(new_loras, add);
  if (new_control_vector) add(*new_control_vector);
  std::swap(loras, new_loras);
  std::swap(control_vector, new_control_vector);
  Result<> done = has_all ? apply_adapters() : rebuild(next);
  if (!done) {
    std::swap(loras, new_loras);
    std::swap(control_vector, new_control_vector);
  }
  return done;
}

Result<> llama_context::require_sequence(int32_t sequence) const {
  if (sequence >= 0 && sequence < options.n_sequences) return {};
  return fail(ErrorCode::invalid_argument, "sequence {}, want 0 to {}", sequence, options.n_sequences - 1);
}

llama_context* tessera_llama_layout_create(llama_model* model, const ContextParams* params) {
  return guarded<llama_context*>("llama_init_from_model", nullptr, [&]() -> Result<llama_context*> {
    TESSERA_TRY(require(model, "model"));
    return create_context(*model, *params);
  });
}

void tessera_llama_free(llama_context* ctx) {
  if (ctx == nullptr) return;
  guarded("llama_free", [&]() -> Result<> {
    TESSERA_TRY(require(ctx, "ctx"));
    delete ctx;
    return {};
  });
}

uint32_t tessera_llama_n_ctx(const llama_context* ctx) {
  return of_context<uint32_t>("llama_n_ctx", ctx, 0, [](const auto& of) { return of.params.n_ctx; });
}
uint32_t tessera_llama_n_ctx_seq(const llama_context* ctx) {
  return of_context<uint32_t>("llama_n_ctx_seq", ctx, 0,
                              [](const auto& of) { return static_cast<uint32_t>(of.n_ctx_seq); });
}
uint32_t tessera_llama_n_batch(const llama_context* ctx) {
  return of_context<uint32_t>("llama_n_batch", ctx, 0, [](const auto& of) { return of.params.n_batch; });
}
uint32_t tessera_llama_n_ubatch(const llama_context* ctx) {
  return of_context<uint32_t>("llama_n_ubatch", ctx, 0, [](const auto& of) { return of.params.n_ubatch; });
}
uint32_t tessera_llama_n_seq_max(const llama_context* ctx) {
  return of_context<uint32_t>("llama_n_seq_max", ctx, 0, [](const auto& of) { return of.params.n_seq_max; });
}
uint32_t tessera_llama_n_rs_seq(const llama_context* ctx) {
  return of_context<uint32_t>("llama_n_rs_seq", ctx, 0, [](const auto&) { return uint32_t{0}; });
}

const llama_model* tessera_llama_get_model(const llama_context* ctx) {
  return of_context<const llama_model*>("llama_get_model", ctx, nullptr, [](const auto& of) { return of.model.get(); });
}

// A model that computes whole sequences at once keeps nothing of them.
llama_memory_t tessera_llama_get_memory(const llama_context* ctx) {
  return of_context<llama_memory_t>("llama_get_memory", ctx, nullptr, [](const llama_context& of) {
    return of.is_without_memory() ? nullptr : const_cast<llama_memory_t>(&of.memory);
  });
}

int32_t tessera_llama_pooling_type(const llama_context* ctx) {
  return of_context<int32_t>("llama_pooling_type", ctx, -1,
                             [](const auto& of) { return static_cast<int32_t>(of.pooling); });
}

// A session has one pool of threads. It gets another size only while nothing is stored, because that moves all memory.
void tessera_llama_set_n_threads(llama_context* ctx, int32_t n_threads, int32_t n_threads_batch) {
  of_context("llama_set_n_threads", ctx, false, [&](llama_context& of) -> Result<bool> {
    of.params.n_threads = n_threads;
    of.params.n_threads_batch = n_threads_batch;
    if (threads_of(of.params) == of.options.threads.n_threads || !of.is_empty()) return true;
    SessionOptions next = of.options;
    next.threads.n_threads = threads_of(of.params);
    TESSERA_TRY(of.rebuild(next));
    return true;
  });
}
int32_t tessera_llama_n_threads(llama_context* ctx) {
  return of_context<int32_t>("llama_n_threads", ctx, 0, [](const auto& of) { return of.params.n_threads; });
}
int32_t tessera_llama_n_threads_batch(llama_context* ctx) {
  return of_context<int32_t>("llama_n_threads_batch", ctx, 0, [](const auto& of) { return of.params.n_threads_batch; });
}

void tessera_llama_set_embeddings(llama_context* ctx, bool embeddings) {
  of_context("llama_set_embeddings", ctx, false, [&](llama_context& of) -> Result<bool> {
    const bool wanted = embeddings || !of.info().has_logits;
    if (wanted == of.options.embeddings) return true;
    of.outputs.clear();
    of.params.embeddings = wanted;
    const Result<> rebuilt = of.rebuild(of.options_for(wanted));
    if (rebuilt) return true;
    of.params.embeddings = !wanted;
    return std::unexpected(rebuilt.error());
  });
}

void tessera_llama_set_causal_attn(llama_context* ctx, bool causal_attn) {
  of_context("llama_set_causal_attn", ctx, false, [&](llama_context& of) -> Result<bool> {
    if (causal_attn == of.info().is_causal) return true;
    return fail(ErrorCode::unsupported, "ignored: the attention is the one that the model was trained with");
  });
}

void tessera_llama_set_warmup(llama_context* ctx, bool /*warmup*/) {
  of_context("llama_set_warmup", ctx, false, [](const auto&) { return true; });
}

void tessera_llama_set_abort_callback(llama_context* ctx, ggml_abort_callback abort_callback,
                                      void* abort_callback_data) {
  of_context("llama_set_abort_callback", ctx, false, [&](llama_context& of) {
    of.params.abort = abort_callback;
    of.params.abort_user = abort_callback_data;
    return true;
  });
}

void tessera_llama_synchronize(llama_context* ctx) {
  of_context("llama_synchronize", ctx, false, [](const auto&) { return true; });
}
