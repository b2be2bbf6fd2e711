// Generation from texts, and in one call, of tessera.h.
#include "tests/capi/capi_support.h"

namespace tessera {
namespace {

using namespace testing;

constexpr const char* kPrompt = "Once upon a time";

// What the callback of a generation has seen.
struct SeenTokens {
  std::vector<int32_t> tokens{};
  std::string text{};
  int32_t stop = -1;
  size_t n_most = SIZE_MAX;  // the callback then stops
};

int32_t note_token(void* user, const tessera_generated* next) {
  auto& seen = *static_cast<SeenTokens*>(user);
  seen.tokens.push_back(next->token);
  seen.text.append(next->text, next->n_bytes);
  seen.stop = next->stop;
  return seen.tokens.size() < seen.n_most ? 0 : 1;
}

class CapiGenerate : public ::testing::Test {
 protected:
  void SetUp() override {
    tessera_session_options wanted;
    tessera_session_options_init(&wanted, sizeof wanted);
    wanted.n_ctx = 128;
    session_ = create_session_handle(model_.get(), &wanted);
    tessera_generation_options_init(&options_, sizeof options_);
    options_.n_predict = 12;
  }
  GenerationHandle create_generation() const {
    tessera_generation* created = nullptr;
    EXPECT_SUCCESS(tessera_generation_create(session_.get(), sampler_.get(), 0, &options_, &created, error));
    return {created, tessera_generation_release};
  }
  // The text of a generation that has begun.
  static SeenTokens rest_of(const GenerationHandle& generation) {
    SeenTokens seen;
    tessera_generated next{};
    do {
      EXPECT_SUCCESS(tessera_generation_next(generation.get(), &next, nullptr, error));
      note_token(&seen, &next);
    } while (next.token >= 0 && seen.tokens.size() < 1000);
    return seen;
  }
  int32_t held() const {
    int32_t last = 0;
    EXPECT_SUCCESS(tessera_sequence_range(session_.get(), 0, nullptr, &last, error));
    return last;
  }

  RuntimeHandle runtime_ = create_runtime_handle(1);
  ModelHandle model_ = open_story(runtime_.get());
  SessionHandle session_{nullptr, tessera_session_release};
  SamplerHandle sampler_ = create_greedy(model_.get());
  tessera_generation_options options_{};
  std::vector<int32_t> prompt_ = tokens_of(model_.get(), kPrompt);
};

TEST_F(CapiGenerate, TextsAndTokensGiveTheSame) {
  const GenerationHandle generation = create_generation();
  EXPECT_SUCCESS(tessera_generation_start(generation.get(), prompt_.data(), prompt_.size(), nullptr, error));
  const SeenTokens want = rest_of(generation);
  EXPECT_EQ(want.tokens.size(), 13u);
  EXPECT_EQ(want.tokens.back(), -1);
  EXPECT_EQ(want.stop, TESSERA_STOP_N_PREDICT);
  const auto expect_same = [&](const SeenTokens& seen) {
    EXPECT_EQ(seen.tokens, want.tokens);
    EXPECT_EQ(seen.text, want.text);
    EXPECT_EQ(seen.stop, want.stop);
  };
  EXPECT_SUCCESS(
      tessera_generation_start_text(generation.get(), kPrompt, -1, TESSERA_TOKENIZE_SPECIAL, nullptr, error));
  expect_same(rest_of(generation));
  SeenTokens of_tokens, of_text, of_longer;
  EXPECT_SUCCESS(tessera_generate(session_.get(), sampler_.get(), 0, &options_, prompt_.data(), prompt_.size(),
                                  note_token, &of_tokens, nullptr, error));
  expect_same(of_tokens);
  EXPECT_SUCCESS(tessera_generate_text(session_.get(), sampler_.get(), 0, &options_, kPrompt, -1,
                                       TESSERA_TOKENIZE_SPECIAL, note_token, &of_text, nullptr, error));
  expect_same(of_text);
  EXPECT_SUCCESS(tessera_generate_text(session_.get(), sampler_.get(), 0, &options_, "Once upon a time, there", 16,
                                       TESSERA_TOKENIZE_SPECIAL, note_token, &of_longer, nullptr, error));
  expect_same(of_longer);
}

TEST_F(CapiGenerate, FlagsSayHowATextIsRead) {
  const auto n_held = [&](const char* text, uint32_t flags) {
    const GenerationHandle generation = create_generation();
    EXPECT_SUCCESS(tessera_generation_start_text(generation.get(), text, -1, flags, nullptr, error));
    return held() + 1;
  };
  const auto n_prompt = static_cast<int32_t>(prompt_.size());
  EXPECT_EQ(n_held(kPrompt, TESSERA_TOKENIZE_SPECIAL), n_prompt);
  EXPECT_EQ(n_held(kPrompt, 0), n_prompt - 1);  // without BOS
  EXPECT_EQ(n_held("<s>", TESSERA_TOKENIZE_PARSE_SPECIAL), 1);
  EXPECT_GT(n_held("<s>", 0), 1);
}

TEST_F(CapiGenerate, CallbacksAndCancelsStop) {
  SeenTokens seen{.n_most = 3};
  EXPECT_STATUS(tessera_generate(session_.get(), sampler_.get(), 0, &options_, prompt_.data(), prompt_.size(),
                                 note_token, &seen, nullptr, error),
                TESSERA_CANCELLED, "the function of the caller stopped the generation");
  EXPECT_EQ(seen.tokens.size(), 3u);
  tessera_cancel* created = nullptr;
  EXPECT_SUCCESS(tessera_cancel_create(&created, error));
  const CancelHandle cancel(created, tessera_cancel_release);
  tessera_cancel_set(created);
  seen = {};
  EXPECT_STATUS(tessera_generate(session_.get(), sampler_.get(), 0, &options_, prompt_.data(), prompt_.size(),
                                 note_token, &seen, created, error),
                TESSERA_CANCELLED, "");
  EXPECT_STATUS(tessera_generate_text(session_.get(), sampler_.get(), 0, &options_, kPrompt, -1, 0, note_token, &seen,
                                      created, error),
                TESSERA_CANCELLED, "");
  EXPECT_EQ(seen.tokens.size(), 0u);
  const GenerationHandle generation = create_generation();
  EXPECT_STATUS(tessera_generation_start_text(generation.get(), kPrompt, -1, 0, created, error), TESSERA_CANCELLED, "");
  // A cancel between two tokens.
  tessera_cancel_reset(created);
  const auto cancel_after = [](void* user, const tessera_generated*) {
    tessera_cancel_set(static_cast<tessera_cancel*>(user));
    return 0;
  };
  EXPECT_STATUS(tessera_generate(session_.get(), sampler_.get(), 0, &options_, prompt_.data(), prompt_.size(),
                                 cancel_after, created, created, error),
                TESSERA_CANCELLED, "");
}

TEST_F(CapiGenerate, GenerationsAreRetained) {
  GenerationHandle generation = create_generation();
  EXPECT_SUCCESS(tessera_generation_start(generation.get(), prompt_.data(), prompt_.size(), nullptr, error));
  const GenerationHandle again(tessera_generation_retain(generation.get()), tessera_generation_release);
  EXPECT_EQ(again, generation);
  generation.reset();
  EXPECT_EQ(rest_of(again).tokens.size(), 13u);
  EXPECT_EQ(tessera_generation_retain(nullptr), nullptr);
}

TEST_F(CapiGenerate, RefusesWrongArguments) {
  SeenTokens seen;
  const auto refuse = [&](tessera_session* session, tessera_sampler* sampler, int32_t sequence,
                          tessera_generated_function function, const std::string& text) {
    EXPECT_STATUS(tessera_generate(session, sampler, sequence, &options_, prompt_.data(), prompt_.size(), function,
                                   &seen, nullptr, error),
                  TESSERA_INVALID_ARGUMENT, text);
    EXPECT_STATUS(
        tessera_generate_text(session, sampler, sequence, &options_, kPrompt, -1, 0, function, &seen, nullptr, error),
        TESSERA_INVALID_ARGUMENT, text);
  };
  refuse(nullptr, sampler_.get(), 0, note_token, "session: is NULL");
  refuse(session_.get(), nullptr, 0, note_token, "sampler: is NULL");
  refuse(reinterpret_cast<tessera_session*>(sampler_.get()), sampler_.get(), 0, note_token,
         "session: is a handle of another kind");
  refuse(session_.get(), sampler_.get(), 1, note_token, "sequence: 1, want 0 to 0");
  refuse(session_.get(), sampler_.get(), 0, nullptr, "function: is NULL");
  EXPECT_STATUS(
      tessera_generate(session_.get(), sampler_.get(), 0, &options_, nullptr, 1, note_token, &seen, nullptr, error),
      TESSERA_INVALID_ARGUMENT, "tokens: is NULL");
  auto* not_cancel = reinterpret_cast<tessera_cancel*>(sampler_.get());
  EXPECT_STATUS(tessera_generate(session_.get(), sampler_.get(), 0, &options_, prompt_.data(), prompt_.size(),
                                 note_token, &seen, not_cancel, error),
                TESSERA_INVALID_ARGUMENT, "cancel: is a handle of another kind");
  tessera_generation_options other = options_;
  other.size = 3;
  EXPECT_STATUS(tessera_generate(session_.get(), sampler_.get(), 0, &other, prompt_.data(), prompt_.size(), note_token,
                                 &seen, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "options: size is 3");
  EXPECT_EQ(seen.tokens.size(), 0u);

  const GenerationHandle generation = create_generation();
  const auto refuse_text = [&](tessera_generation* of, const char* given, int64_t length, uint32_t flags,
                               const std::string& text) {
    EXPECT_STATUS(tessera_generation_start_text(of, given, length, flags, nullptr, error), TESSERA_INVALID_ARGUMENT,
                  text);
  };
  refuse_text(nullptr, kPrompt, -1, 0, "generation: is NULL");
  refuse_text(reinterpret_cast<tessera_generation*>(sampler_.get()), kPrompt, -1, 0,
              "generation: is a handle of another kind");
  refuse_text(generation.get(), nullptr, -1, 0, "text: is NULL");
  refuse_text(generation.get(), kPrompt, -2, 0, "text: length -2");
  refuse_text(generation.get(), kPrompt, -1, 4, "flags: 0x4, known are 0x3");
  refuse_text(generation.get(), "", 0, 0, "no tokens");
  std::string longer;
  for (int i = 0; i < 100; ++i) longer += " once upon";
  EXPECT_STATUS(tessera_generation_start_text(generation.get(), longer.c_str(), -1, 0, nullptr, error), TESSERA_LIMIT,
                "");
}

}  // namespace
}  // namespace tessera
