// Generation by diffusion in a session, compared with loops over the logits of whole texts in double precision.
#include <cmath>
#include <numeric>

#include "tessera/engine/diffusion.h"
#include "tests/support/diffusion_model.h"
#include "tests/support/engine_support.h"

namespace tessera {
namespace {

using namespace testing;
using Tokens = std::vector<int32_t>;

const Tokens kDiffusionPrompt = {10, 11, 12, 13, 14};

DiffusionOptions greedy_options(int64_t n_predict, int64_t n_steps) {
  DiffusionOptions options{.n_predict = n_predict, .n_steps = n_steps, .eps = 0.001f};
  options.sampling.seed = 1;
  options.sampling.temp = 0;
  options.sampling.top_k = 0;
  options.sampling.top_p = 1;
  return options;
}

class Diffusion : public ::testing::Test {
 protected:
  void load(const std::string& spec, std::optional<bool> shifts = {}) {
    EditableModel model = diffusion_model(spec);
    if (shifts) model.builder.set("diffusion.shift_logits", *shifts);
    engine_ = load_engine(model.write(spec + "-diffusion.gguf")).value();
  }

  std::unique_ptr<Session> session_for(const DiffusionOptions& options, const Tokens& prompt, int n_threads = 2,
                                       int64_t n_extra = 0) const {
    auto session = diffusion_session(*engine_, options, std::ssize(prompt), {.threads = {.n_threads = n_threads}});
    EXPECT_OK(session);
    session->n_ubatch += n_extra;
    session->n_ctx += 3 * n_extra;
    session->n_outputs += n_extra;
    return Session::create(engine_, *session).value();
  }

  /// The text after all steps. Checks that each step replaces the planned number of masks and nothing else.
  Tokens generated(const DiffusionOptions& options, const Tokens& prompt = kDiffusionPrompt, int n_threads = 2,
                   int64_t n_extra = 0) const {
    const auto session = session_for(options, prompt, n_threads, n_extra);
    const auto generator = DiffusionGenerator::create(*session, options, prompt);
    EXPECT_OK(generator);
    if (!generator) return {};
    const auto plan = plan_reveals(options).value();
    EXPECT_EQ((*generator)->n_steps(), std::ssize(plan));
    Tokens before((*generator)->tokens().begin(), (*generator)->tokens().end());
    EXPECT_EQ(before, Tokens(static_cast<size_t>(options.n_predict), kDiffusionMask));
    for (const RevealStep& step : plan) {
      EXPECT_OK((*generator)->step(nullptr));
      const auto now = (*generator)->tokens();
      int64_t n_revealed = 0;
      for (size_t i = 0; i < now.size(); ++i) {
        if (now[i] == before[i]) continue;
        EXPECT_EQ(before[i], kDiffusionMask) << i;
        EXPECT_GE(static_cast<int64_t>(i), step.positions.begin);
        EXPECT_LT(static_cast<int64_t>(i), step.positions.end);
        ++n_revealed;
      }
      if (options.algorithm != DiffusionAlgorithm::origin) {
        EXPECT_EQ(n_revealed, step.n_reveal);
      }
      before.assign(now.begin(), now.end());
    }
    EXPECT_TRUE((*generator)->is_finished());
    EXPECT_EQ(std::ranges::count(before, kDiffusionMask), 0);
    EXPECT_OK((*generator)->step(nullptr));  // does nothing
    EXPECT_TRUE(std::ranges::equal((*generator)->tokens(), before));
    return before;
  }

  /// The logits of all rows of a text.
  std::vector<std::vector<double>> rows_of(const Tokens& text) const {
    const auto n = std::ssize(text);
    const auto session = Session::create(engine_, {.n_ctx = n, .n_ubatch = n, .n_outputs = n}).value();
    EXPECT_OK(session->decode(all_logits(text)));
    std::vector<std::vector<double>> rows;
    for (int64_t i = 0; i < n; ++i) rows.emplace_back(session->logits(i).begin(), session->logits(i).end());
    return rows;
  }

  /// What generated() must be with temperature 0 and algorithm `confidence` or `random`.
  Tokens expected(const DiffusionOptions& options, const Tokens& prompt, bool shifts) const {
    const size_t n_prompt = prompt.size();
    Tokens text = prompt;
    text.resize(n_prompt + static_cast<size_t>(options.n_predict), kDiffusionMask);
    const auto plan = plan_reveals(options).value();
    sample::SeededRng rng(static_cast<uint64_t>(options.sampling.seed));
    for (const RevealStep& step : plan) {
      auto rows = rows_of(text);
      if (options.cfg_scale > 0) {
        Tokens masked = text;
        std::fill_n(masked.begin(), n_prompt, kDiffusionMask);
        const auto without = rows_of(masked);
        for (size_t i = 0; i < rows.size(); ++i)
          for (size_t j = 0; j < rows[i].size(); ++j)
            rows[i][j] = without[i][j] + (double{options.cfg_scale} + 1) * (rows[i][j] - without[i][j]);
      }
      std::vector<std::pair<double, size_t>> ranked;
      Tokens best(text.size());
      for (int64_t i = step.positions.begin; i < step.positions.end; ++i) {
        const size_t at = n_prompt + static_cast<size_t>(i);
        if (text[at] != kDiffusionMask) continue;
        auto& logits = rows[shifts && at > 0 ? at - 1 : at];
        logits[kDiffusionMask] = -1e30;
        const auto top = std::ranges::max_element(logits);
        double sum = 0;
        for (const double logit : logits) sum += std::exp(logit - *top);
        best[at] = static_cast<int32_t>(top - logits.begin());
        const bool is_random = options.algorithm == DiffusionAlgorithm::random;
        ranked.emplace_back(is_random ? -rng.next_double() : -1 / sum, at);
      }
      std::ranges::sort(ranked);
      for (int64_t i = 0; i < step.n_reveal; ++i) {
        const size_t at = ranked[static_cast<size_t>(i)].second;
        text[at] = best[at];
      }
    }
    return {text.begin() + static_cast<ptrdiff_t>(n_prompt), text.end()};
  }

  std::shared_ptr<Engine> engine_;
};

TEST_F(Diffusion, AnAbsentKeyShiftsLogits) {
  load("dream-dense");
  EXPECT_TRUE(diffusion_facts(*engine_)->shifts_logits);
  EXPECT_EQ(generated(greedy_options(24, 6)), expected(greedy_options(24, 6), kDiffusionPrompt, true));
}

TEST_F(Diffusion, AFileMayForbidTheShift) {
  load("llada-dense", false);
  EXPECT_FALSE(diffusion_facts(*engine_)->shifts_logits);
  DiffusionOptions options = greedy_options(24, 6);
  options.eps = 0;
  options.block_length = 12;
  const Tokens tokens = generated(options);
  EXPECT_EQ(tokens, expected(options, kDiffusionPrompt, false));
  EXPECT_NE(tokens, expected(options, kDiffusionPrompt, true));
}

TEST_F(Diffusion, AModelOfExpertsGenerates) {
  load("rnd1-moe");
  EXPECT_EQ(generated(greedy_options(12, 3)), expected(greedy_options(12, 3), kDiffusionPrompt, true));
}

// Shifted, the positions 0 and 1 then have the same row. In a text of masks all rows are equal, so it must not begin
// with position 0.
TEST_F(Diffusion, AnEmptyPromptIsATextOfItsOwn) {
  load("dream-dense");
  DiffusionOptions options = greedy_options(12, 12);
  EXPECT_EQ(generated(options, {}), expected(options, {}, true));
  options.algorithm = DiffusionAlgorithm::random;
  for (int64_t seed = 1; seed < 6; ++seed) {
    options.sampling.seed = seed;
    EXPECT_EQ(generated(options, {}), expected(options, {}, true)) << seed;
  }
}

TEST_F(Diffusion, GuidanceUsesATextWithoutThePrompt) {
  load("dream-dense");
  DiffusionOptions options = greedy_options(12, 4);
  options.cfg_scale = 1.5f;
  const Tokens guided = generated(options);
  EXPECT_EQ(guided, expected(options, kDiffusionPrompt, true));
  EXPECT_NE(guided, generated(greedy_options(12, 4)));
}

TEST_F(Diffusion, EachAlgorithmRevealsAllAndASeedDecidesTheText) {
  load("dream-dense");
  std::vector<Tokens> texts;
  for (const bool has_blocks : {false, true})
    for (uint8_t id = 0; id < 5; ++id)
      for (const float alg_temp : {0.0f, 0.5f}) {
        DiffusionOptions options = greedy_options(16, 8);
        options.algorithm = static_cast<DiffusionAlgorithm>(id);
        options.alg_temp = alg_temp;
        options.sampling.temp = 1;
        if (has_blocks) options.eps = 0, options.block_length = 8;
        const Tokens text = generated(options);
        EXPECT_EQ(generated(options), text);
        options.sampling.seed = 2;
        EXPECT_NE(generated(options), text);
        texts.push_back(text);
      }
  // Algorithms are different. A temperature can make them equal, with the same random numbers.
  for (size_t i = 0; i < texts.size(); i += 2)
    for (size_t j = 0; j < i; j += 2) EXPECT_NE(texts[i], texts[j]) << i << ", " << j;
}

TEST_F(Diffusion, ThreadsAndTheSizeOfTheSessionChangeNothing) {
  load("dream-dense");
  DiffusionOptions options = greedy_options(20, 10);
  options.sampling.temp = 1;
  options.cfg_scale = 0.5f;
  const Tokens text = generated(options, kDiffusionPrompt, 1);
  EXPECT_EQ(generated(options, kDiffusionPrompt, 3), text);
  EXPECT_EQ(generated(options, kDiffusionPrompt, 2, 25), text);  // both texts fit in one micro-batch
}

TEST_F(Diffusion, ACancelledStepIsRepeated) {
  load("dream-dense");
  DiffusionOptions options = greedy_options(12, 4);
  options.sampling.temp = 1;
  const Tokens text = generated(options);
  const auto session = session_for(options, kDiffusionPrompt);
  ASSERT_OK_AND_ASSIGN(const auto generator, DiffusionGenerator::create(*session, options, kDiffusionPrompt));
  CancelToken cancel;
  while (!generator->is_finished()) {
    const Tokens before(generator->tokens().begin(), generator->tokens().end());
    cancel.cancel();
    const auto cancelled = generator->step(&cancel);
    ASSERT_FALSE(cancelled.has_value());
    EXPECT_EQ(cancelled.error().code(), ErrorCode::cancelled);
    EXPECT_TRUE(std::ranges::equal(generator->tokens(), before));
    cancel.reset();
    ASSERT_OK(generator->step(&cancel));
  }
  EXPECT_TRUE(std::ranges::equal(generator->tokens(), text));
}

// The choice of masks begins with a random number, which the repeated step must draw again.
TEST_F(Diffusion, AStepThatIsCancelledAfterItsPassIsRepeated) {
  load("dream-dense");
  DiffusionOptions options = greedy_options(12, 4);
  options.algorithm = DiffusionAlgorithm::origin;
  const Tokens text = generated(options);
  const auto session = session_for(options, kDiffusionPrompt);
  ASSERT_OK_AND_ASSIGN(const auto generator, DiffusionGenerator::create(*session, options, kDiffusionPrompt));
  CancelToken cancel;
  bool cancels = false;
  session->observe_steps([&](const StepView&) {
    cancels = !cancels;
    if (cancels) cancel.cancel();
  });
  while (!generator->is_finished()) {
    const auto done = generator->step(&cancel);
    EXPECT_EQ(done.has_value(), !cancels);
    cancel.reset();
  }
  EXPECT_TRUE(std::ranges::equal(generator->tokens(), text));
}

TEST_F(Diffusion, ASessionHasRowsForTheMasksOfABlock) {
  load("llada-dense", false);
  DiffusionOptions options = greedy_options(32, 8);
  ASSERT_OK_AND_ASSIGN(const SessionOptions whole, diffusion_session(*engine_, options, 5, {}));
  EXPECT_EQ(whole.n_outputs, 32);
  EXPECT_EQ(whole.n_ubatch, 37);
  EXPECT_EQ(whole.n_ctx, 37);
  options.eps = 0;
  options.block_length = 8;
  options.cfg_scale = 1;
  ASSERT_OK_AND_ASSIGN(const SessionOptions blocks, diffusion_session(*engine_, options, 5, {}));
  EXPECT_EQ(blocks.n_outputs, 16);
  EXPECT_EQ(blocks.n_ubatch, 37);
  EXPECT_EQ(blocks.n_ctx, 74);
  EXPECT_EQ(blocks.n_sequences, 2);
  // What was planned is what a run takes.
  ASSERT_OK_AND_ASSIGN(const MemoryReport planned, Session::plan(*engine_, blocks));
  const auto session = session_for(options, kDiffusionPrompt);
  EXPECT_EQ(session->allocated_memory().bytes(MemoryPart::Kind::output), planned.bytes(MemoryPart::Kind::output));
  EXPECT_EQ(planned.bytes(MemoryPart::Kind::output), 16u * kDiffusionVocab * sizeof(float));
}

TEST_F(Diffusion, TextsThatDoNotFitAreRefused) {
  load("dream-dense");
  EXPECT_ERROR(diffusion_session(*engine_, greedy_options(30, 4), 5, {.n_ctx = 34}),
               "the prompt has 5 tokens, 30 are to be generated, the context holds 34");
  EXPECT_ERROR(diffusion_session(*engine_, greedy_options(124, 4), 5, {}), "the context holds 128");
  EXPECT_ERROR(diffusion_session(*engine_, greedy_options(70000, 4), 5, {.n_ctx = 100000}), "at most 65536 tokens");
  const auto session = session_for(greedy_options(8, 4), kDiffusionPrompt);
  EXPECT_ERROR(DiffusionGenerator::create(*session, greedy_options(9, 4), kDiffusionPrompt),
               "a text of 14 tokens with 9 rows of logits in 1 sequences");
  EXPECT_ERROR(DiffusionGenerator::create(*session, greedy_options(8, 4), Tokens{256}), "token 256 in the prompt");
  DiffusionOptions unseeded = greedy_options(8, 4);
  unseeded.sampling.seed = -1;
  EXPECT_ERROR(DiffusionGenerator::create(*session, unseeded, kDiffusionPrompt), "seed: got -1");
}

TEST_F(Diffusion, OtherModelsAndBadKeysAreRefused) {
  ASSERT_OK_AND_ASSIGN(const auto causal, load_engine(arch_model("llama-dense")));
  EXPECT_ERROR(diffusion_facts(*causal), "llama: not a diffusion language model");
  EditableModel odd = diffusion_model("dream-dense");
  odd.builder.set("diffusion.shift_logits", std::string("yes"));
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(odd.write("odd-diffusion.gguf")));
  EXPECT_ERROR(diffusion_facts(*engine), "key 'diffusion.shift_logits'");
  EditableModel unmasked = diffusion_model("dream-dense");
  unmasked.builder.set("tokenizer.ggml.mask_token_id", uint32_t{0xFFFFFFFF});  // the id of an absent token
  ASSERT_OK_AND_ASSIGN(const auto other, load_engine(unmasked.write("unmasked-diffusion.gguf")));
  EXPECT_ERROR(diffusion_facts(*other), "no mask token (key 'tokenizer.ggml.mask_token_id')");
}

}  // namespace
}  // namespace tessera
