// tessera.h: samplers, and the generation of texts with them.
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "tessera/capi/boundary.h"
#include "tessera/capi/objects.h"
#include "tessera/engine/grammar_mask.h"
#include "tessera/sample/order.h"
#include "tessera/text/grammar/grammar.h"

using namespace tessera;
using capi::guarded;
using capi::guarded_value;

namespace {

// A member of tessera_sampler_options, and that of SamplerParams with the same meaning.
template <class T>
struct SamplerMember {
  T tessera_sampler_options::*of_options;
  T sample::SamplerParams::*of_params;
};

using OfOptions = tessera_sampler_options;
using OfParams = sample::SamplerParams;

constexpr SamplerMember<float> kFloatMembers[] = {
    {&OfOptions::temperature, &OfParams::temp},
    {&OfOptions::dynatemp_range, &OfParams::dynatemp_range},
    {&OfOptions::dynatemp_exponent, &OfParams::dynatemp_exponent},
    {&OfOptions::top_p, &OfParams::top_p},
    {&OfOptions::min_p, &OfParams::min_p},
    {&OfOptions::typical_p, &OfParams::typ_p},
    {&OfOptions::top_n_sigma, &OfParams::top_n_sigma},
    {&OfOptions::xtc_probability, &OfParams::xtc_probability},
    {&OfOptions::xtc_threshold, &OfParams::xtc_threshold},
    {&OfOptions::penalty_repeat, &OfParams::repeat_penalty},
    {&OfOptions::penalty_presence, &OfParams::presence_penalty},
    {&OfOptions::penalty_frequency, &OfParams::frequency_penalty},
    {&OfOptions::dry_multiplier, &OfParams::dry_multiplier},
    {&OfOptions::dry_base, &OfParams::dry_base},
    {&OfOptions::adaptive_target, &OfParams::adaptive_target},
    {&OfOptions::adaptive_decay, &OfParams::adaptive_decay},
    {&OfOptions::mirostat_tau, &OfParams::mirostat_tau},
    {&OfOptions::mirostat_eta, &OfParams::mirostat_eta},
};

constexpr SamplerMember<int32_t> kIntegerMembers[] = {
    {&OfOptions::n_prev, &OfParams::n_prev},
    {&OfOptions::min_keep, &OfParams::min_keep},
    {&OfOptions::top_k, &OfParams::top_k},
    {&OfOptions::penalty_last_n, &OfParams::repeat_last_n},
    {&OfOptions::dry_allowed_length, &OfParams::dry_allowed_length},
    {&OfOptions::dry_last_n, &OfParams::dry_penalty_last_n},
    {&OfOptions::mirostat, &OfParams::mirostat},
};

tessera_sampler_options sampler_defaults() {
  const sample::SamplerParams params;
  tessera_sampler_options options{};
  options.seed = params.seed;
  for (const auto& member : kFloatMembers) options.*member.of_options = params.*member.of_params;
  for (const auto& member : kIntegerMembers) options.*member.of_options = params.*member.of_params;
  return options;
}

Result<sample::SamplerParams> sampler_params(const tessera_sampler_options* options) {
  TESSERA_ASSIGN(const auto wanted, capi::read_sized(options, sampler_defaults(), "options"));
  sample::SamplerParams params;
  params.seed = wanted.seed == -1 ? static_cast<int64_t>(std::random_device()()) : wanted.seed;
  for (const auto& member : kFloatMembers) params.*member.of_params = wanted.*member.of_options;
  for (const auto& member : kIntegerMembers) params.*member.of_params = wanted.*member.of_options;
  if (wanted.order != nullptr) {
    TESSERA_ASSIGN(params.order, sample::parse_sampler_names(wanted.order));
  }
  return params;
}

Result<std::shared_ptr<const text::grammar::Grammar>> compile(int32_t kind, std::string_view source,
                                                              const text::Vocab& vocab) {
  namespace grammar = text::grammar;
  const auto compiled = [&]() -> grammar::GrammarResult {
    if (kind == TESSERA_GRAMMAR_REGEX) return grammar::Grammar::from_regex(source);
    if (kind == TESSERA_GRAMMAR_JSON_SCHEMA) return grammar::Grammar::from_json_schema(source);
    return grammar::Grammar::from_gbnf(source, [&](std::string_view name) { return vocab.find(name); });
  }();
  if (compiled) return *compiled;
  return fail(ErrorCode::format, "{}", compiled.error().text());
}

constexpr tessera_generation_options kGenerationDefaults = {};

Result<GenerateOptions> generate_options(const tessera_generation_options& wanted) {
  constexpr uint32_t kKnown = TESSERA_GENERATE_IGNORE_END | TESSERA_GENERATE_CONTEXT_SHIFT | TESSERA_GENERATE_SPECIAL;
  TESSERA_TRY(capi::require_flags(wanted.flags, kKnown));
  if (wanted.n_predict < 0) return fail(ErrorCode::invalid_argument, "n_predict: {}, want 0 or more", wanted.n_predict);
  if (wanted.n_keep < -1) return fail(ErrorCode::invalid_argument, "n_keep: {}, want -1 or more", wanted.n_keep);
  if (wanted.n_batch < 0) return fail(ErrorCode::invalid_argument, "n_batch: {}, want 0 or more", wanted.n_batch);
  GenerateOptions options;
  if (wanted.n_predict > 0) options.n_predict = wanted.n_predict;
  options.n_keep = wanted.n_keep;
  if (wanted.n_batch > 0) options.n_batch = wanted.n_batch;
  options.ignore_end = (wanted.flags & TESSERA_GENERATE_IGNORE_END) != 0;
  options.context_shift = (wanted.flags & TESSERA_GENERATE_CONTEXT_SHIFT) != 0;
  return options;
}

int32_t stop_of(StopReason reason) {
  switch (reason) {
    case StopReason::none:
      return TESSERA_STOP_NONE;
    case StopReason::end_of_text:
      return TESSERA_STOP_END;
    case StopReason::n_predict:
      return TESSERA_STOP_N_PREDICT;
    case StopReason::context_full:
      break;
  }
  return TESSERA_STOP_CONTEXT;
}

}  // namespace

void tessera_sampler_options_init(tessera_sampler_options* options, size_t size) {
  capi::write_sized(options, size, sampler_defaults());
}

tessera_status tessera_sampler_create(const tessera_model* model, const tessera_sampler_options* options, int64_t n_ctx,
                                      tessera_sampler** sampler, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(model, "model"));
    TESSERA_TRY(capi::require_pointer(sampler, "sampler"));
    if (n_ctx < 1 || n_ctx > INT32_MAX)
      return fail(ErrorCode::invalid_argument, "n_ctx: {}, want 1 to {}", n_ctx, INT32_MAX);
    TESSERA_ASSIGN(const sample::SamplerParams params, sampler_params(options));
    auto created = std::make_unique<tessera_sampler>(model);
    TESSERA_ASSIGN(created->chain,
                   sample::Chain::create(params, sampling_vocab(model->engine), static_cast<int32_t>(n_ctx)));
    *sampler = created.release();
    return {};
  });
}

tessera_status tessera_sampler_set_grammar(tessera_sampler* sampler, int32_t kind, const char* text, int64_t length,
                                           tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(sampler, "sampler"));
    if (text == nullptr) {
      sampler->chain->constrain(nullptr);
      return {};
    }
    if (kind < TESSERA_GRAMMAR_GBNF || kind > TESSERA_GRAMMAR_REGEX)
      return fail(ErrorCode::invalid_argument, "kind: {}, want a TESSERA_GRAMMAR_ kind", kind);
    TESSERA_ASSIGN(const std::string_view source, capi::read_text(text, length, "text"));
    const auto& engine = sampler->model->engine;
    TESSERA_ASSIGN(auto grammar, compile(kind, source, engine->vocab()));
    TESSERA_ASSIGN(auto mask, GrammarMask::create(engine, mask_vocab(*engine), std::move(grammar)));
    sampler->chain->constrain(std::move(mask));
    return {};
  });
}

tessera_status tessera_sampler_sample(tessera_sampler* sampler, const float* logits, uint64_t count, int32_t* token,
                                      tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(sampler, "sampler"));
    TESSERA_TRY(capi::require_pointer(token, "token"));
    TESSERA_ASSIGN(const auto given, capi::read_items(logits, count, "logits"));
    TESSERA_ASSIGN(*token, sampler->chain->sample(given));
    return {};
  });
}

tessera_status tessera_sampler_accept(tessera_sampler* sampler, int32_t token, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(sampler, "sampler"));
    return sampler->chain->accept(token);
  });
}

uint64_t tessera_sampler_top(tessera_sampler* sampler, tessera_candidate* candidates, uint64_t room) {
  return guarded_value<uint64_t>(0, [&]() -> uint64_t {
    if (!capi::is_handle(sampler) || candidates == nullptr) return 0;
    const auto top = sampler->chain->top_candidates(static_cast<size_t>(room));
    for (size_t i = 0; i < top.size(); ++i)
      candidates[i] = {.token = top[i].id, .probability = static_cast<float>(top[i].prob)};
    return top.size();
  });
}

void tessera_sampler_reset(tessera_sampler* sampler) {
  guarded(nullptr, [&]() -> Result<> {
    TESSERA_TRY(capi::require(sampler, "sampler"));
    sampler->chain->reset();
    return {};
  });
}

tessera_status tessera_sampler_clone(tessera_sampler* sampler, tessera_sampler** copy, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(sampler, "sampler"));
    TESSERA_TRY(capi::require_pointer(copy, "copy"));
    auto created = std::make_unique<tessera_sampler>(&*sampler->model);
    created->chain = sampler->chain->clone();
    *copy = created.release();
    return {};
  });
}

tessera_sampler* tessera_sampler_retain(tessera_sampler* sampler) { return capi::retain(sampler); }
void tessera_sampler_release(tessera_sampler* sampler) { capi::release(sampler); }

// --- generation

void tessera_generation_options_init(tessera_generation_options* options, size_t size) {
  capi::write_sized(options, size, kGenerationDefaults);
}

tessera_status tessera_generation_create(tessera_session* session, tessera_sampler* sampler, int32_t sequence,
                                         const tessera_generation_options* options, tessera_generation** generation,
                                         tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(session, "session"));
    TESSERA_TRY(capi::require(sampler, "sampler"));
    TESSERA_TRY(capi::require_pointer(generation, "generation"));
    if (session->model->engine != sampler->model->engine)
      return fail(ErrorCode::invalid_argument, "sampler: is of another model than the session");
    const int32_t n = session->session->options().n_sequences;
    if (sequence < 0 || sequence >= n)
      return fail(ErrorCode::invalid_argument, "sequence: {}, want 0 to {}", sequence, n - 1);
    if (session->session->options().embeddings)
      return fail(ErrorCode::invalid_argument, "session: it computes embeddings, not logits");
    TESSERA_ASSIGN(const auto wanted, capi::read_sized(options, kGenerationDefaults, "options"));
    TESSERA_ASSIGN(const GenerateOptions generate, generate_options(wanted));
    const bool special = (wanted.flags & TESSERA_GENERATE_SPECIAL) != 0;
    *generation = std::make_unique<tessera_generation>(session, sampler, sequence, generate, special).release();
    return {};
  });
}

tessera_status tessera_generation_start(tessera_generation* generation, const int32_t* tokens, uint64_t count,
                                        tessera_cancel* cancel, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(generation, "generation"));
    TESSERA_ASSIGN(const CancelToken* const token, capi::token_of(cancel));
    TESSERA_ASSIGN(const auto prompt, capi::read_items(tokens, count, "tokens"));
    Session& session = *generation->session->session;
    sample::Chain& chain = *generation->sampler->chain;
    generation->generator.reset();
    TESSERA_TRY(session.remove(generation->sequence, 0, INT32_MAX));
    chain.reset();
    generation->generator.emplace(session, chain, generation->sequence, generation->options);
    generation->stream.emplace(session.engine().tokenizer(),
                               text::DetokenizeOptions{.render_special = generation->special, .at_start = false});
    Result<> started = generation->generator->start(prompt, token);
    if (!started) generation->generator.reset();
    return started;
  });
}

tessera_status tessera_generation_next(tessera_generation* generation, tessera_generated* next, tessera_cancel* cancel,
                                       tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(generation, "generation"));
    TESSERA_TRY(capi::require_pointer(next, "next"));
    if (!generation->generator)
      return fail(ErrorCode::invalid_argument, "generation: call tessera_generation_start() first");
    TESSERA_ASSIGN(const CancelToken* const token, capi::token_of(cancel));
    const auto begin = observe::TraceEvents::Clock::now();
    TESSERA_ASSIGN(const int32_t id, generation->generator->next(token));
    if (auto& trace = generation->session->trace; trace != nullptr && id >= 0) trace->add_phase("sample", begin);
    if (id < 0) {
      generation->text = generation->stream->finish();
    } else {
      TESSERA_ASSIGN(generation->text, generation->stream->push(id));
    }
    *next = {.token = id,
             .stop = stop_of(generation->generator->stop_reason()),
             .text = generation->text.c_str(),
             .n_bytes = generation->text.size()};
    return {};
  });
}

void tessera_generation_release(tessera_generation* generation) { capi::release(generation); }
