#include "tessera/cli/replay_text.h"

#include <chrono>

#include "tessera/base/index.h"

namespace tessera::cli {

namespace {

// Allows one token after another of a known text.
class ReplayMask final : public sample::TokenMask {
 public:
  explicit ReplayMask(std::span<const int32_t> tokens) : tokens_(tokens) {}

  Result<Allowed> allowed() override { return Allowed{.ids = tokens_.subspan(n_accepted_, 1)}; }
  void prepare() override {}
  bool is_finished() const override { return n_accepted_ == tokens_.size(); }
  std::vector<int32_t> forced() override { return {}; }
  Result<> accept(int32_t) override {
    ++n_accepted_;
    return {};
  }
  void reset() override { n_accepted_ = 0; }
  std::unique_ptr<sample::TokenMask> clone() const override { return std::make_unique<ReplayMask>(*this); }

 private:
  std::span<const int32_t> tokens_;
  size_t n_accepted_ = 0;
};

}  // namespace

Result<double> write_text(const LoadedModel& model, std::span<const int32_t> tokens, int64_t n_written,
                          GenerateOptions options, const CancelToken& cancel) {
  const auto n_prompt = tokens.size() - to_size(n_written);
  TESSERA_ASSIGN(const auto chain, sample::Chain::create({.seed = 0, .temp = 0}, sampling_vocab(model.engine),
                                                         static_cast<int32_t>(model.session->n_ctx())));
  chain->constrain(std::make_unique<ReplayMask>(tokens.subspan(n_prompt)));
  options.n_predict = n_written;
  options.ignore_end = true;
  TESSERA_TRY(model.session->clear());
  Generator generator(*model.session, *chain, 0, options);
  TESSERA_TRY(generator.start(tokens.first(n_prompt), &cancel));
  const auto begin = std::chrono::steady_clock::now();
  while (generator.stop_reason() == StopReason::none) TESSERA_TRY(generator.next(&cancel));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  TESSERA_TRY(generator.remove_guesses());
  return seconds;
}

}  // namespace tessera::cli
