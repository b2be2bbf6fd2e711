// Speculation changes no token: texts with all kinds of guesses are those without.
#include <gtest/gtest.h>

#include "tessera/engine/generate.h"
#include "tessera/engine/speculative/match_drafter.h"
#include "tests/support/arch_files.h"
#include "tests/support/engine_support.h"

namespace tessera {
namespace {

using namespace testing;

// Guesses the tokens of a known text, some of which are wrong, with any length.
class ScriptedDrafter final : public Drafter {
 public:
  ScriptedDrafter(std::vector<int32_t> text, uint32_t seed) : known_(std::move(text)), state_(seed) {}

  std::string_view name() const override { return "scripted"; }
  double prior(int32_t) const override { return 0.9; }
  void begin(std::span<const int32_t> text) override { n_ = text.size(); }
  void append(int32_t) override { ++n_; }
  Result<> draft(int64_t n_most, FunctionRef<bool(const DraftToken&)> add, const CancelToken*) override {
    const auto n = static_cast<size_t>(random() % static_cast<uint32_t>(n_most + 1));
    for (size_t i = n_; i < std::min(known_.size(), n_ + n); ++i)
      if (!add({.token = known_[i] ^ (random() % 4 == 0 ? 1 : 0), .confidence = 0})) break;
    return {};
  }

 private:
  uint32_t random() { return (state_ = state_ * 1664525u + 1013904223u) >> 8; }

  std::vector<int32_t> known_;
  uint32_t state_;
  size_t n_ = 0;
};

struct Text {
  std::vector<int32_t> prompt{};
  std::vector<int32_t> tokens{};
  StopReason stop = StopReason::none;
  bool operator==(const Text&) const = default;
};

Result<Text> generate(const std::shared_ptr<Engine>& engine, const SessionOptions& options,
                      const sample::SamplerParams& params, const GenerateOptions& generate,
                      std::vector<int32_t> prompt) {
  TESSERA_ASSIGN(const auto session, Session::create(engine, options));
  TESSERA_ASSIGN(const auto chain,
                 sample::Chain::create(params, sampling_vocab(engine), static_cast<int32_t>(session->n_ctx())));
  Generator generator(*session, *chain, 0, generate);
  Text text{.prompt = std::move(prompt)};
  TESSERA_TRY(generator.start(text.prompt, nullptr));
  while (true) {
    TESSERA_ASSIGN(const int32_t token, generator.next(nullptr));
    if (token < 0) break;
    text.tokens.push_back(token);
  }
  text.stop = generator.stop_reason();
  TESSERA_TRY(generator.remove_guesses());
  // The last token is returned before it is computed. After a rollback to a checkpoint more may be missing.
  const int64_t n_stored = *session->max_position(0) + 1;
  EXPECT_EQ(n_stored, generator.n_stored());
  return text;
}

std::vector<std::unique_ptr<Drafter>> one(std::unique_ptr<Drafter> drafter) {
  std::vector<std::unique_ptr<Drafter>> drafters;
  drafters.push_back(std::move(drafter));
  return drafters;
}

TEST(Speculation, EveryArchitectureWritesTheSameText) {
  for (const char* name : kArchFiles) {
    SCOPED_TRACE(name);
    ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(arch_model(name)));
    if (!engine->model().info().has_logits || !engine->model().info().is_causal) continue;
    const auto prompt = token_ids(*engine, 9);
    const GenerateOptions plain{.n_predict = 40, .ignore_end = true};
    const sample::SamplerParams params{.seed = 3, .temp = 0.7f};
    ASSERT_OK_AND_ASSIGN(const Text want, generate(engine, {.n_ctx = 80, .n_ubatch = 16}, params, plain, prompt));
    std::vector<int32_t> whole = prompt;
    whole.insert(whole.end(), want.tokens.begin(), want.tokens.end());
    for (const uint32_t seed : {1u, 2u}) {
      Speculator speculator(one(std::make_unique<ScriptedDrafter>(whole, seed)));
      GenerateOptions options = plain;
      options.speculator = &speculator;
      ASSERT_OK_AND_ASSIGN(
          const Text got,
          generate(engine, {.n_ctx = 80, .n_ubatch = 16, .n_outputs = 9, .n_checkpoints = 1}, params, options, prompt));
      EXPECT_EQ(got.tokens, want.tokens);
      EXPECT_GT(speculator.counts().n_accepted, 5);
      EXPECT_GT(speculator.counts().n_drafted, speculator.counts().n_accepted);
    }
  }
}

}  // namespace
}  // namespace tessera
