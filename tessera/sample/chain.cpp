// Construction and execution of sampler chains.
#include "tessera/sample/chain.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "tessera/base/index.h"

namespace tessera::sample {
namespace {

std::unique_ptr<Sampler> make_sampler(SamplerKind kind, const SamplerContext& context) {
  switch (kind) {
#define TESSERA_SAMPLER(enumerator, name, letter, description) \
  case SamplerKind::enumerator:                                \
    return make_##enumerator(context);
#include "tessera/sample/samplers.def"
  }
  return nullptr;
}

/// All steps after the bias up to the choice, including those that are turned off.
std::vector<SamplerKind> steps_of(const SamplerParams& params) {
  const bool is_greedy = params.temp < kMinTemperature;
  std::vector<SamplerKind> steps;
  if (params.mirostat != 0) {
    const auto version = params.mirostat == 1 ? SamplerKind::mirostat : SamplerKind::mirostat_v2;
    steps.insert(steps.end(), {SamplerKind::temperature, is_greedy ? SamplerKind::greedy : version});
    return steps;
  }
  auto last = SamplerKind::dist;
  for (const SamplerKind step : params.order) {
    if (step == SamplerKind::adaptive_p)
      last = step;  // it selects the token, so it can only be the last step
    else
      steps.push_back(step);
  }
  steps.push_back(is_greedy ? SamplerKind::greedy : last);
  return steps;
}

}  // namespace

Result<std::unique_ptr<Chain>> Chain::create(const SamplerParams& params, std::shared_ptr<const VocabView> vocab,
                                             int32_t n_ctx) {
  TESSERA_TRY(validate(params));
  if (params.seed < 0)
    return fail(ErrorCode::invalid_argument, "seed: got -1 (random), want the number that the caller drew");
  if (vocab->n_tokens() < 1)
    return fail(ErrorCode::invalid_argument, "sampler: vocabulary of {} tokens, want at least 1", vocab->n_tokens());
  if (n_ctx < 1) return fail(ErrorCode::invalid_argument, "sampler: context of {} tokens, want at least 1", n_ctx);

  const SamplerContext context{params, vocab, to_size(n_ctx)};
  const size_t n_history = std::max(
      {to_size(params.n_prev), context.window(params.repeat_last_n), context.window(params.dry_penalty_last_n)});
  std::unique_ptr<Chain> chain(new Chain(std::move(vocab), static_cast<uint64_t>(params.seed), n_history));
  TESSERA_TRY(chain->set_bias(params.logit_bias));
  for (const SamplerKind kind : steps_of(params)) {
    if (auto sampler = make_sampler(kind, context)) chain->samplers_.push_back(std::move(sampler));
  }
  return chain;
}

Result<> Chain::set_bias(std::span<const LogitBias> biases) {
  SamplerParams params;
  params.logit_bias.assign(biases.begin(), biases.end());
  TESSERA_TRY(validate(params));
  for (const LogitBias& entry : biases) {
    if (entry.id < 0 || entry.id >= vocab_->n_tokens())
      return fail(ErrorCode::invalid_argument, "logit_bias: token {}, range 0 to {}", entry.id, vocab_->n_tokens() - 1);
  }
  bias_ = make_logit_bias({params, vocab_, 0});
  return {};
}

void Chain::add(std::unique_ptr<ProgramStep> step, StepPlace place) { added_.push_back({std::move(step), place}); }

Result<> Chain::apply(ProgramStep& step) {
  listed_.clear();
  candidates_.transform(
      [&](const Candidate& item) {  // which sorts what is to be sorted, so the order stays from here on
        listed_.push_back({item.id, item.logit});
        return item.logit;
      });
  TESSERA_TRY(step.apply(listed_));
  size_t i = 0;
  candidates_.transform([&](const Candidate&) { return listed_[i++].logit; });
  candidates_.keep_logits_from(-std::numeric_limits<double>::infinity(), 0);
  return {};
}

Result<> Chain::apply_steps(StepPlace place) {
  for (const AddedStep& added : added_)
    if (added.place == place) TESSERA_TRY(apply(*added.step));
  return {};
}

Result<int32_t> Chain::sample(std::span<const float> logits) {
  if (logits.size() != to_size(vocab_->n_tokens()))
    return fail(ErrorCode::mismatch, "sampler: {} logits for a vocabulary of {} tokens", logits.size(),
                vocab_->n_tokens());
  TESSERA_TRY(assign(logits));
  if (bias_) bias_->apply(candidates_, history_, rng_);
  TESSERA_TRY(apply_steps(StepPlace::first));
  for (size_t i = 0; i + 1 < samplers_.size(); ++i) samplers_[i]->apply(candidates_, history_, rng_);
  TESSERA_TRY(apply_steps(StepPlace::last));
  samplers_.back()->apply(candidates_, history_, rng_);
  if (!candidates_.selected())
    return fail(ErrorCode::invalid_argument, "sampler: no token to choose, all {} logits are NaN, -inf or banned{}",
                logits.size(), mask_ ? ", or the grammar does not allow them" : "");
  return candidates_.selected()->id;
}

Result<> Chain::assign(std::span<const float> logits) {
  if (!mask_) {
    candidates_.assign(logits);
    return {};
  }
  TESSERA_ASSIGN(const TokenMask::Allowed allowed, mask_->allowed());
  if (allowed.is_list) {
    candidates_.assign(logits, allowed.ids);
  } else {
    candidates_.assign(logits, allowed.words);
  }
  return {};
}

Result<> Chain::accept(int32_t token) {
  if (mask_) TESSERA_TRY(mask_->accept(token));
  return accept_prompt(token);
}

Result<> Chain::accept_prompt(int32_t token) {
  if (token < 0 || token >= vocab_->n_tokens())
    return fail(ErrorCode::invalid_argument, "sampler: token {}, range 0 to {}", token, vocab_->n_tokens() - 1);
  for (const auto& sampler : samplers_) sampler->accept(token, history_);
  for (const AddedStep& added : added_) added.step->accept(token);
  history_.push(token);
  return {};
}

void Chain::reset() {
  rng_ = SeededRng(seed_);
  history_.clear();
  for (const auto& sampler : samplers_) sampler->reset();
  for (const AddedStep& added : added_) added.step->reset();
  if (mask_) mask_->reset();
}

std::unique_ptr<Chain> Chain::clone() const {
  std::unique_ptr<Chain> copy(new Chain(vocab_, seed_, 0));
  copy->rng_ = rng_;
  copy->history_ = history_;
  if (mask_) copy->mask_ = mask_->clone();
  if (bias_) copy->bias_ = bias_->clone();
  for (const auto& sampler : samplers_) copy->samplers_.push_back(sampler->clone());
  for (const AddedStep& added : added_) copy->added_.push_back({added.step->clone(), added.place});
  return copy;
}

std::span<const Candidate> Chain::top_candidates(size_t n) {
  candidates_.softmax();
  const auto items = candidates_.sort_first(n);
  return items.first(std::min(n, items.size()));
}

}  // namespace tessera::sample
