// tessera.h: biases of tokens, and steps of programs in samplers.
#include <vector>

#include "tessera/capi/boundary.h"
#include "tessera/capi/objects.h"

using namespace tessera;
using capi::guarded;

namespace {

class CallbackStep final : public sample::ProgramStep {
 public:
  explicit CallbackStep(const tessera_sampler_step& step) : step_(step) {}

  Result<> apply(std::span<sample::TokenLogit> candidates) override {
    passed_.clear();
    for (const auto& [id, logit] : candidates) passed_.push_back({.token = id, .logit = logit});
    const int32_t answer = step_.apply(step_.user, passed_.data(), passed_.size());
    if (answer != 0) return fail(ErrorCode::cancelled, "a step of the sampler stopped it: {}", answer);
    for (size_t i = 0; i < passed_.size(); ++i) candidates[i].logit = passed_[i].logit;
    return {};
  }
  void accept(int32_t token) override {
    if (step_.accept != nullptr) step_.accept(step_.user, token);
  }
  void reset() override {
    if (step_.reset != nullptr) step_.reset(step_.user);
  }
  std::unique_ptr<ProgramStep> clone() const override { return std::make_unique<CallbackStep>(step_); }

 private:
  tessera_sampler_step step_;
  std::vector<tessera_token_logit> passed_;  // reused
};

}  // namespace

tessera_status tessera_sampler_set_bias(tessera_sampler* sampler, const tessera_token_bias* biases, uint64_t count,
                                        tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(sampler, "sampler"));
    TESSERA_ASSIGN(const auto given, capi::read_items(biases, count, "biases"));
    std::vector<sample::LogitBias> wanted;
    for (const auto& [token, bias] : given) wanted.push_back({.id = token, .bias = bias});
    return sampler->chain->set_bias(wanted);
  });
}

void tessera_sampler_step_init(tessera_sampler_step* step, size_t size) {
  capi::write_sized(step, size, tessera_sampler_step{});
}

tessera_status tessera_sampler_add(tessera_sampler* sampler, const tessera_sampler_step* step, tessera_error* error) {
  return guarded(error, [&]() -> Result<> {
    TESSERA_TRY(capi::require(sampler, "sampler"));
    TESSERA_TRY(capi::require_pointer(step, "step"));
    TESSERA_ASSIGN(const auto wanted, capi::read_sized(step, tessera_sampler_step{}, "step"));
    TESSERA_TRY(capi::require_pointer(wanted.apply, "step->apply"));
    if (wanted.place != TESSERA_STEP_FIRST && wanted.place != TESSERA_STEP_LAST)
      return fail(ErrorCode::invalid_argument, "place: {}, want TESSERA_STEP_FIRST or _LAST", wanted.place);
    const auto place = wanted.place == TESSERA_STEP_FIRST ? sample::StepPlace::first : sample::StepPlace::last;
    sampler->chain->add(std::make_unique<CallbackStep>(wanted), place);
    return {};
  });
}
