// llama.h: samplers made of those of sample/.
#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "tessera/llama/objects.h"
#include "tessera/llama/sampler.h"
#include "tessera/sample/sampler.h"

namespace tessera::llama {
namespace {

constexpr uint32_t kRandomSeed = 0xffffffff;
constexpr int32_t kMaxWindow = 1 << 22;  // tokens that a sampler may look back

// A vocabulary of which a sampler needs the size only.
class CountedVocab final : public sample::VocabView {
 public:
  explicit CountedVocab(int32_t n_tokens) : n_tokens_(n_tokens) {}
  int32_t n_tokens() const override { return n_tokens_; }
  void append_piece(int32_t, std::string&) const override {}

 private:
  int32_t n_tokens_;
};

// The vocabulary of a model, which it keeps.
class ModelVocab final : public sample::VocabView {
 public:
  explicit ModelVocab(std::shared_ptr<const llama_model> model) : model_(std::move(model)) {}
  int32_t n_tokens() const override { return static_cast<int32_t>(model_->vocab.n_tokens); }
  void append_piece(int32_t id, std::string& out) const override {
    if (model_->vocab.has(id)) model_->vocab.tokenizer->append_piece(id, out);
  }

 private:
  std::shared_ptr<const llama_model> model_;
};

// Keeps the best token, as a temperature of 0 does.
class BestOnly final : public sample::CopyableSampler<BestOnly> {
 public:
  void apply(sample::Candidates& candidates, const sample::History&, sample::SeededRng&) override {
    candidates.keep_top(1);
  }
};

using MakeStep = std::unique_ptr<sample::Sampler> (*)(const sample::SamplerContext&);

struct StepOptions {
  const char* name;  // with a '?' in front, as llama.cpp names samplers that are turned off
  sample::SamplerParams params{};
  std::shared_ptr<const sample::VocabView> vocab = std::make_shared<CountedVocab>(INT32_MAX);
  int32_t window = 0;  // tokens of history
  std::optional<uint32_t> seed{};
};

// A sampler of sample/ with a history and random numbers of its own.
class StepSampler final : public SamplerObject {
 public:
  StepSampler(const StepOptions& options, std::unique_ptr<sample::Sampler> step)
      : name_(step ? options.name + 1 : options.name),
        step_(std::move(step)),
        n_tokens_(options.vocab->n_tokens()),
        history_(static_cast<size_t>(options.window)),
        seed_(options.seed),
        rng_(seed_.value_or(0)) {
    for (const sample::LogitBias& bias : options.params.logit_bias) highest_id_ = std::max(highest_id_, bias.id);
  }
  StepSampler(const StepSampler& other)
      : SamplerObject(other),
        name_(other.name_),
        step_(other.step_ ? other.step_->clone() : nullptr),
        n_tokens_(other.n_tokens_),
        highest_id_(other.highest_id_),
        history_(other.history_),
        seed_(other.seed_),
        rng_(other.rng_) {}
  StepSampler& operator=(const StepSampler&) = delete;

  const char* name() const override { return name_; }

  // Programs accept -1 where they have no token.
  Result<> accept(llama_token token) override {
    if (!step_ || token < 0 || token >= n_tokens_) return {};
    highest_id_ = std::max(highest_id_, token);
    step_->accept(token, history_);
    history_.push(token);
    return {};
  }

  Result<> apply(CandidateView& view) override {
    if (step_) step_->apply(view.candidates_for(highest_id_), history_, rng_);
    return {};
  }

  void reset() override {
    history_.clear();
    rng_ = sample::SeededRng(seed_.value_or(0));
    if (step_) step_->reset();
  }

  Result<std::unique_ptr<SamplerObject>> clone() const override { return std::make_unique<StepSampler>(*this); }
  std::optional<uint32_t> seed() const override { return seed_; }

 private:
  const char* name_;
  std::unique_ptr<sample::Sampler> step_;  // null: turned off
  int32_t n_tokens_;
  int32_t highest_id_ = -1;  // that the step may change
  sample::History history_;
  std::optional<uint32_t> seed_;
  sample::SeededRng rng_;
};

// Programs read the other candidates from their arrays after the choice.
class GreedySampler final : public SamplerObject {
 public:
  const char* name() const override { return "greedy"; }
  Result<> accept(llama_token) override { return {}; }
  void reset() override {}
  Result<std::unique_ptr<SamplerObject>> clone() const override { return std::make_unique<GreedySampler>(); }
  Result<> apply(CandidateView& view) override {
    sample::Candidates& candidates = view.candidates();
    if (!view.is_of_program()) candidates.keep_top(1);
    candidates.select_best();
    return {};
  }
};

uint32_t drawn_seed(uint32_t seed) { return seed == kRandomSeed ? std::random_device()() : seed; }

// Moves numbers into the ranges that the samplers have. Error: invalid_argument (NaN).
Result<> clamp_to_ranges(sample::SamplerParams& params) {
  for (const sample::SamplingParam& param : sample::sampling_params())
    if (auto* const member = std::get_if<float sample::SamplerParams::*>(&param.member)) {
      float& value = params.**member;
      if (std::isnan(value)) return fail(ErrorCode::invalid_argument, "{}: is not a number", param.name);
      value = std::clamp(value, static_cast<float>(param.min), static_cast<float>(param.max));
    }
  return {};
}

// Makes a sampler of the options that set() fills. Exceptions end here, so nothing is allocated outside.
template <class Set>
llama_sampler* make_step(const char* function, const char* name, MakeStep make, Set&& set) {
  return guarded<llama_sampler*>(function, nullptr, [&]() -> Result<llama_sampler*> {
    StepOptions options{.name = name};
    TESSERA_TRY(set(options));
    options.window = std::clamp(options.window, 0, kMaxWindow);
    if (options.seed) {
      options.seed = drawn_seed(*options.seed);
      options.params.seed = *options.seed;
    }
    TESSERA_TRY(clamp_to_ranges(options.params));
    const sample::SamplerContext context{options.params, options.vocab, static_cast<size_t>(kMaxWindow)};
    auto step = make(context);
    return to_handle(std::make_unique<StepSampler>(options, std::move(step)));
  });
}

int32_t kept_at_least(size_t min_keep) { return static_cast<int32_t>(std::min<size_t>(min_keep, INT32_MAX)); }

std::unique_ptr<sample::Sampler> make_best_only(const sample::SamplerContext&) { return std::make_unique<BestOnly>(); }
std::unique_ptr<sample::Sampler> make_nothing(const sample::SamplerContext&) { return nullptr; }

MakeStep maker_of_temperature(float t, float delta) {
  if (delta > 0) return sample::make_temperature;
  if (t < sample::kMinTemperature) return make_best_only;
  return t == 1 ? make_nothing : sample::make_temperature;
}

llama_sampler* make_temperature(const char* function, const char* name, float t, float delta, float exponent) {
  return make_step(function, name, maker_of_temperature(t, delta), [&](StepOptions& options) -> Result<> {
    options.params.temp = std::max(t, sample::kMinTemperature);
    options.params.dynatemp_range = delta;
    options.params.dynatemp_exponent = exponent;
    return {};
  });
}

// The repetitions of the text so far that DRY looks for.
Result<> set_dry(StepOptions& options, const llama_vocab* vocab, int32_t last_n, std::span<const char*> breakers) {
  TESSERA_TRY(require(vocab, "vocab"));
  options.vocab = std::make_shared<ModelVocab>(vocab->model->shared_from_this());
  options.params.dry_sequence_breakers.clear();
  for (const char* breaker : breakers)
    if (breaker != nullptr && *breaker != '\0') options.params.dry_sequence_breakers.emplace_back(breaker);
  const ModelInfo* info = vocab->model->info();
  const int64_t n_ctx_train = info == nullptr ? 0 : info->n_ctx_train;
  options.window =
      last_n < 0 ? static_cast<int32_t>(std::min<int64_t>(n_ctx_train, kMaxWindow)) : std::min(last_n, kMaxWindow);
  options.params.dry_penalty_last_n = options.window;
  return {};
}

}  // namespace
}  // namespace tessera::llama

using namespace tessera;
using namespace tessera::llama;

llama_sampler* tessera_llama_sampler_init_greedy() {
  return guarded<llama_sampler*>("llama_sampler_init_greedy", nullptr, []() -> Result<llama_sampler*> {
    return to_handle(std::make_unique<GreedySampler>());
  });
}

llama_sampler* tessera_llama_sampler_init_dist(uint32_t seed) {
  return make_step("llama_sampler_init_dist", "?dist", sample::make_dist, [&](StepOptions& options) -> Result<> {
    options.seed = seed;
    return {};
  });
}

llama_sampler* tessera_llama_sampler_init_top_k(int32_t k) {
  return make_step("llama_sampler_init_top_k", "?top-k", sample::make_top_k, [&](StepOptions& options) -> Result<> {
    options.params.top_k = k;
    return {};
  });
}

llama_sampler* tessera_llama_sampler_init_top_p(float p, size_t min_keep) {
  return make_step("llama_sampler_init_top_p", "?top-p", sample::make_top_p, [&](StepOptions& options) -> Result<> {
    options.params.top_p = p;
    options.params.min_keep = kept_at_least(min_keep);
    return {};
  });
}

llama_sampler* tessera_llama_sampler_init_min_p(float p, size_t min_keep) {
  return make_step("llama_sampler_init_min_p", "?min-p", sample::make_min_p, [&](StepOptions& options) -> Result<> {
    options.params.min_p = p;
    options.params.min_keep = kept_at_least(min_keep);
    return {};
  });
}

llama_sampler* tessera_llama_sampler_init_typical(float p, size_t min_keep) {
  return make_step("llama_sampler_init_typical", "?typical", sample::make_typical,
                   [&](StepOptions& options) -> Result<> {
                     options.params.typ_p = p;
                     options.params.min_keep = kept_at_least(min_keep);
                     return {};
                   });
}

llama_sampler* tessera_llama_sampler_init_temp(float t) {
  return make_temperature("llama_sampler_init_temp", "?temp", t, 0, 1);
}

llama_sampler* tessera_llama_sampler_init_temp_ext(float t, float delta, float exponent) {
  return make_temperature("llama_sampler_init_temp_ext", "?temp-ext", t, delta, exponent);
}

llama_sampler* tessera_llama_sampler_init_xtc(float p, float t, size_t min_keep, uint32_t seed) {
  return make_step("llama_sampler_init_xtc", "?xtc", sample::make_xtc, [&](StepOptions& options) -> Result<> {
    options.seed = seed;
    options.params.xtc_probability = p;
    options.params.xtc_threshold = t;
    options.params.min_keep = kept_at_least(min_keep);
    return {};
  });
}

llama_sampler* tessera_llama_sampler_init_top_n_sigma(float n) {
  return make_step("llama_sampler_init_top_n_sigma", "?top-n-sigma", sample::make_top_n_sigma,
                   [&](StepOptions& options) -> Result<> {
                     options.params.top_n_sigma = n;
                     return {};
                   });
}

// m, the ranks from which the exponent is estimated, is 100 as in the paper.
llama_sampler* tessera_llama_sampler_init_mirostat(int32_t n_vocab, uint32_t seed, float tau, float eta,
                                                   int32_t /*m*/) {
  return make_step("llama_sampler_init_mirostat", "?mirostat", sample::make_mirostat,
                   [&](StepOptions& options) -> Result<> {
                     options.vocab = std::make_shared<CountedVocab>(std::max(n_vocab, 1));
                     options.seed = seed;
                     options.params.mirostat_tau = tau;
                     options.params.mirostat_eta = eta;
                     return {};
                   });
}

llama_sampler* tessera_llama_sampler_init_mirostat_v2(uint32_t seed, float tau, float eta) {
  return make_step("llama_sampler_init_mirostat_v2", "?mirostat-v2", sample::make_mirostat_v2,
                   [&](StepOptions& options) -> Result<> {
                     options.seed = seed;
                     options.params.mirostat_tau = tau;
                     options.params.mirostat_eta = eta;
                     return {};
                   });
}

llama_sampler* tessera_llama_sampler_init_penalties(int32_t /*n_vocab*/, int32_t penalty_last_n, float penalty_repeat,
                                                    float penalty_freq, float penalty_present) {
  return make_step("llama_sampler_init_penalties", "?penalties", sample::make_penalties,
                   [&](StepOptions& options) -> Result<> {
                     options.window = penalty_last_n;
                     options.params.repeat_last_n = std::clamp(penalty_last_n, 0, kMaxWindow);
                     options.params.repeat_penalty = penalty_repeat;
                     options.params.frequency_penalty = penalty_freq;
                     options.params.presence_penalty = penalty_present;
                     return {};
                   });
}

llama_sampler* tessera_llama_sampler_init_dry(const llama_vocab* vocab, float dry_multiplier, float dry_base,
                                              int32_t dry_allowed_length, int32_t dry_penalty_last_n,
                                              const char** seq_breakers, size_t num_breakers) {
  return make_step("llama_sampler_init_dry", "?dry", sample::make_dry, [&](StepOptions& options) -> Result<> {
    TESSERA_ASSIGN(const auto breakers, read_items(seq_breakers, num_breakers, "seq_breakers"));
    TESSERA_TRY(set_dry(options, vocab, dry_penalty_last_n, breakers));
    options.params.dry_multiplier = dry_base < 1 ? 0 : dry_multiplier;
    options.params.dry_base = dry_base;
    options.params.dry_allowed_length = std::max(dry_allowed_length, 0);
    return {};
  });
}

llama_sampler* tessera_llama_sampler_init_adaptive_p(float target, float decay, uint32_t seed) {
  return make_step("llama_sampler_init_adaptive_p", "?adaptive-p", sample::make_adaptive_p,
                   [&](StepOptions& options) -> Result<> {
                     options.seed = seed;
                     options.params.adaptive_target = target;
                     options.params.adaptive_decay = decay;
                     return {};
                   });
}

llama_sampler* tessera_llama_sampler_init_logit_bias(int32_t /*n_vocab*/, int32_t n_logit_bias,
                                                     const llama_logit_bias* logit_bias) {
  return make_step("llama_sampler_init_logit_bias", "?logit-bias", sample::make_logit_bias,
                   [&](StepOptions& options) -> Result<> {
                     const auto n = static_cast<uint64_t>(std::max(n_logit_bias, 0));
                     TESSERA_ASSIGN(const auto biases, read_items(logit_bias, n, "logit_bias"));
                     for (const llama_logit_bias& bias : biases)
                       if (bias.token >= 0) options.params.logit_bias.push_back({.id = bias.token, .bias = bias.bias});
                     return {};
                   });
}
