#include "tessera/server/api/generation_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <random>
#include <type_traits>
#include <utility>

#include "tessera/engine/diffusion.h"
#include "tessera/engine/grammar_mask.h"

namespace tessera::server {

namespace {

constexpr float kBan = -std::numeric_limits<float>::infinity();

std::unexpected<FieldError> grammar_error(const text::grammar::GrammarError& error, std::string field) {
  return std::unexpected(FieldError{.message = fmt::format("Field '{}': {}", field, error.text()), .param = field});
}

FieldResult<std::unique_ptr<GrammarMask>> create_mask(ServedModel& model, const GenerationPlan& plan) {
  std::shared_ptr<const text::grammar::Grammar> grammar = plan.grammar;
  if (!grammar) {
    auto compiled = compile_grammar(model, plan.fields.json_schema, "json_schema", plan.fields.grammar);
    if (!compiled) return forward_error(compiled);
    grammar = std::move(*compiled);
  }
  if (!grammar) return nullptr;
  auto mask = GrammarMask::create(model.shared_engine(), model.mask_vocab(), std::move(grammar));
  if (!mask) return std::unexpected(field_error_of(mask.error(), "grammar"));
  return std::move(*mask);
}

FieldResult<> check_prompt_probs(const GenerationPlan& plan) {
  if (plan.n_prompt_probs < 0) return {};
  int64_t n_tokens = 0;
  for (const std::vector<int32_t>& prompt : plan.prompts) n_tokens += std::ssize(prompt);
  const int64_t n_probs = n_tokens * (1 + plan.n_prompt_probs) * plan.fields.n_choices;
  if (n_probs <= kMaxPromptProbs) return {};
  return refuse_field(
      {.name = "prompt"},
      fmt::format("{} log-probabilities of its tokens in all answers, want at most {}", n_probs, kMaxPromptProbs));
}

SequenceSpec sequence_of(const ApiContext& context, const GenerationPlan& plan) {
  const GenerationFields& fields = plan.fields;
  return {.prompt = {},
          .chain = nullptr,
          .n_predict = fields.n_predict,
          .stop = fields.stop,
          .renders_special = context.options().renders_special,
          .n_probs = plan.n_probs,
          .probs_after_sampling = fields.post_sampling_probs,
          .n_indent = fields.n_indent,
          .most_ms = fields.t_max_predict_ms,
          .slot = fields.id_slot,
          .reuses_cache = fields.cache_prompt,
          .n_cache_reuse = fields.n_cache_reuse,
          .cache_salt = fields.cache_salt,
          .adapters = {},
          .shifts_context = context.options().shifts_context,
          .n_keep = fields.n_keep,
          .n_discard = fields.n_discard,
          .is_traced = fields.trace,
          .progress_tokens = fields.return_progress ? 1 : 0,
          .reasoning = plan.reasoning};
}

// The fields that slots show: their params leave out texts and lists of the client.
std::shared_ptr<const GenerationFields> shown_fields(const GenerationFields& fields) {
  auto shown = std::make_shared<GenerationFields>();
  shown->sampling = fields.sampling;
#define TESSERA_FIELD(where, type, member, name, initial, min, max, aliases, dialects, help) \
  if constexpr (!std::is_same_v<type, std::string>) shown->member = fields.member;
#include "tessera/server/json/fields.def"
  shown->lora = fields.lora;
  return shown;
}

}  // namespace

GenerationLimits generation_limits(const ApiContext& context, const ServedModel& model, const Client& client) {
  return {.n_slots = model.options().scheduler.n_slots,
          .max_choices = context.options().max_choices,
          .max_logprobs = context.options().max_logprobs,
          .best_priority = client.best_priority,
          .n_vocab = model.facts().n_vocab,
          .n_lora = model.adapters().n_loras()};
}

FieldResult<std::vector<sample::LogitBias>> token_biases(const ServedModel& model, const GenerationFields& fields) {
  std::vector<sample::LogitBias> biases;
  for (const BiasEntry& entry : fields.logit_bias) {
    if (const auto* id = std::get_if<int32_t>(&entry.token)) {
      biases.push_back({*id, entry.bias});
      continue;
    }
    const auto tokens = model.tokenizer().tokenize(std::get<std::string>(entry.token));
    if (!tokens) return std::unexpected(field_error_of(tokens.error(), "logit_bias"));
    for (const int32_t token : *tokens) biases.push_back({token, entry.bias});
  }
  if (fields.ignore_eos)
    for (int32_t id = 0; id < static_cast<int32_t>(model.facts().n_vocab); ++id)
      if (model.vocab().is_eog(id)) biases.push_back({id, kBan});
  return biases;
}

FieldResult<std::shared_ptr<const text::grammar::Grammar>> compile_grammar(const ServedModel& model,
                                                                           std::string_view schema,
                                                                           std::string schema_field,
                                                                           std::string_view gbnf) {
  namespace grammar = text::grammar;
  if (!schema.empty()) {
    auto compiled = model.grammars().get(GrammarCache::Kind::json_schema, schema,
                                         [&] { return grammar::Grammar::from_json_schema(schema); });
    if (!compiled) return grammar_error(compiled.error(), std::move(schema_field));
    return std::move(*compiled);
  }
  if (gbnf.empty()) return nullptr;
  const text::Vocab& vocab = model.vocab();
  const grammar::FindToken find_token = [&vocab](std::string_view text) { return vocab.find(text); };
  auto compiled = model.grammars().get(GrammarCache::Kind::gbnf, gbnf,
                                       [&] { return grammar::Grammar::from_gbnf(gbnf, find_token); });
  if (!compiled) return grammar_error(compiled.error(), "grammar");
  return std::move(*compiled);
}

void draw_seed(GenerationFields& fields) {
  constexpr int64_t kRandom = 0xFFFFFFFF;
  if (fields.sampling.seed < 0 || fields.sampling.seed == kRandom) fields.sampling.seed = std::random_device()();
}

FieldResult<std::vector<SequenceSpec>> make_sequences(ApiContext& context, ServedModel& model, GenerationPlan plan) {
  if (!model.generates()) return std::unexpected(generates_nothing(model));
  const auto n_choices = static_cast<size_t>(plan.fields.n_choices);
  if (plan.prompts.size() > kMaxPrompts || plan.prompts.size() * n_choices > kMaxSequences)
    return std::unexpected(
        FieldError{.message = fmt::format("{} prompts with {} choices each: want at most {} prompts "
                                          "and {} answers",
                                          plan.prompts.size(), n_choices, kMaxPrompts, kMaxSequences),
                   .param = "prompt"});
  for (const std::vector<int32_t>& prompt : plan.prompts)
    if (std::ssize(prompt) >= model.slot_context())
      return std::unexpected(context_overflow_error(std::ssize(prompt), model.slot_context()));
  TESSERA_READ(check_prompt_probs(plan));
  auto biases = token_biases(model, plan.fields);
  if (!biases) return forward_error(biases);
  sample::SamplerParams sampling = plan.fields.sampling;
  sampling.logit_bias = std::move(*biases);
  auto mask = create_mask(model, plan);
  if (!mask) return forward_error(mask);

  std::vector<SequenceSpec> sequences;
  const std::vector<AdapterScale> adapters = model.adapters().of_request(plan.fields.lora);
  for (std::vector<int32_t>& prompt : plan.prompts) {
    const size_t first = sequences.size();
    for (size_t choice = 0; choice < n_choices; ++choice) {
      SequenceSpec spec = sequence_of(context, plan);
      spec.adapters = adapters;
      auto chain = sample::Chain::create(sampling, model.sampling_vocab(), static_cast<int32_t>(model.slot_context()));
      if (!chain) return std::unexpected(field_error_of(chain.error(), {}));
      spec.chain = std::move(*chain);
      if (*mask) spec.chain->constrain((*mask)->clone());
      for (const int32_t token : prompt)
        if (auto accepted = spec.chain->accept_prompt(token); !accepted)
          return std::unexpected(field_error_of(accepted.error(), "prompt"));
      const bool is_scored = plan.n_prompt_probs >= 0;
      if (is_scored && choice == 0) spec.n_prompt_probs = plan.n_prompt_probs;
      if (choice > 0 && (spec.reuses_cache || is_scored)) spec.same_prompt_as = first;
      // The token that begins a text stays as well.
      if (spec.n_keep >= 0 && model.vocab().add_bos()) ++spec.n_keep;
      if (choice + 1 < n_choices) spec.prompt = prompt;
      sequences.push_back(std::move(spec));
      ++sampling.seed;
    }
    sequences.back().prompt = std::move(prompt);
    sampling.seed = plan.fields.sampling.seed;
  }
  return sequences;
}

TaskSpec make_task(const ApiContext& context, Exchange& exchange, const GenerationFields& fields) {
  const Client& client = exchange.request().client;
  const Clock::time_point now = Clock::now();
  int64_t most_ms = context.options().request_ms;
  if (fields.timeout_ms > 0) most_ms = std::min<int64_t>(most_ms, fields.timeout_ms);
  return {.client = client.name,
          .cache_owner = context.options().shares_cache ? std::string() : client.key_id,
          .priority = std::max(fields.priority, client.best_priority),
          .deadline = now + std::chrono::milliseconds(most_ms),
          .received = now,
          .sequences = {},
          .fields = shown_fields(fields),
          .io_thread = exchange.io_thread(),
          .sink = nullptr,
          .place = exchange.take_place()};
}

FieldError generates_nothing(const ServedModel& model) {
  const bool is_diffusion = generates_by_diffusion(model.engine().model().info());
  return {.status = 501,
          .type = "not_supported_error",
          .message = is_diffusion ? "The model fills in a whole text at once, which a server does not do: use "
                                    "`tessera run`. Here it computes embeddings only"
                                  : "The model generates no text: it computes embeddings only"};
}

FieldError refusal_error(const Refusal& refusal) {
  return {.status = refusal.is_clients_own ? 429 : 503,
          .type = refusal.is_clients_own ? "rate_limit_error" : "unavailable_error",
          .message = refusal.message,
          .retry_after_s = refusal.retry_after_s};
}

}  // namespace tessera::server
