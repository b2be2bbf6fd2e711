// Sessions, sequences, samplers and generation of tessera.h.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <numeric>
#include <thread>

#include "tests/capi/capi_support.h"

namespace tessera {
namespace {

using namespace testing;

tessera_session_options session_options() {
  tessera_session_options options;
  tessera_session_options_init(&options, sizeof options);
  return options;
}

class CapiSession : public ::testing::Test {
 protected:
  SessionHandle create(int32_t n_sequences = 1, int64_t n_outputs = 1) const {
    tessera_session_options options = session_options();
    options.n_ctx = 256;
    options.n_sequences = n_sequences;
    options.n_outputs = n_outputs;
    return create_session_handle(model_.get(), &options);
  }
  static std::vector<float> output(tessera_session* session, int64_t index = 0) {
    uint64_t n = 0;
    const float* row = tessera_session_output(session, index, &n);
    return row == nullptr ? std::vector<float>() : std::vector<float>(row, row + n);
  }
  static std::pair<int32_t, int32_t> range(tessera_session* session, int32_t sequence) {
    std::pair<int32_t, int32_t> found;
    EXPECT_SUCCESS(tessera_sequence_range(session, sequence, &found.first, &found.second, error));
    return found;
  }

  RuntimeHandle runtime_ = create_runtime_handle();
  ModelHandle model_ = open_story(runtime_.get());
  std::vector<int32_t> tokens_ = tokens_of(model_.get(), "Once upon a time, there was a girl");
};

uint64_t total(const std::vector<tessera_memory_part>& parts) {
  uint64_t n = 0;
  for (const tessera_memory_part& part : parts) n += part.n_bytes;
  return n;
}

TEST_F(CapiSession, TakesTheMemoryOfItsPlan) {
  tessera_session_options options = session_options();
  options.n_ctx = 300;
  options.type_k = options.type_v = TESSERA_CACHE_BF16;
  std::vector<tessera_memory_part> planned(32), taken(32);
  uint64_t n_planned = 0, n_taken = 0;
  EXPECT_SUCCESS(tessera_session_plan(model_.get(), &options, planned.data(), planned.size(), &n_planned, error));
  planned.resize(n_planned);
  const SessionHandle session = create_session_handle(model_.get(), &options);
  EXPECT_EQ(tessera_session_n_ctx(session.get()), 300);
  EXPECT_SUCCESS(tessera_session_memory(session.get(), taken.data(), taken.size(), &n_taken, error));
  taken.resize(n_taken);
  ASSERT_EQ(n_taken, n_planned);
  EXPECT_EQ(total(taken), total(planned));
  std::map<int32_t, uint64_t> kinds;
  for (const tessera_memory_part& part : planned) kinds[part.kind] += part.n_bytes;
  EXPECT_EQ(kinds.size(), 4u);
  for (const auto& [kind, n_bytes] : kinds) EXPECT_GT(n_bytes, 0u) << kind;
  EXPECT_EQ(std::string(planned[0].device), "cpu");
  EXPECT_STATUS(tessera_session_memory(session.get(), taken.data(), n_taken - 1, &n_taken, error), TESSERA_LIMIT,
                "parts: ");
  EXPECT_STATUS(tessera_session_memory(nullptr, taken.data(), 9, &n_taken, error), TESSERA_INVALID_ARGUMENT,
                "session: is NULL");
  // Other types take other memory.
  options.type_k = TESSERA_CACHE_F32;
  uint64_t n_other = 0;
  std::vector<tessera_memory_part> other(32);
  EXPECT_SUCCESS(tessera_session_plan(model_.get(), &options, other.data(), other.size(), &n_other, error));
  other.resize(n_other);
  EXPECT_GT(total(other), total(planned));
}

TEST_F(CapiSession, TellsItsSettings) {
  tessera_session_info info{};
  info.size = sizeof info;
  const SessionHandle plain = create_session_handle(model_.get());
  EXPECT_SUCCESS(tessera_session_info_get(plain.get(), &info, error));
  EXPECT_EQ(info.flags, 0u);
  EXPECT_EQ(info.n_ctx, 2048);
  EXPECT_EQ(info.n_ubatch, 512);
  EXPECT_EQ(info.n_outputs, 1);
  EXPECT_EQ(info.n_row, 512);
  EXPECT_EQ(info.n_sequences, 1);
  EXPECT_EQ(info.n_threads, 2);
  tessera_session_options options = session_options();
  options.flags = TESSERA_SESSION_EMBEDDINGS;
  options.n_ctx = 300;
  options.n_ubatch = 100;
  options.n_outputs = 7;
  options.n_sequences = 3;
  options.n_threads = 1;
  const SessionHandle other = create_session_handle(model_.get(), &options);
  EXPECT_SUCCESS(tessera_session_info_get(other.get(), &info, error));
  EXPECT_EQ(info.flags, uint32_t{TESSERA_SESSION_EMBEDDINGS});
  EXPECT_EQ(info.n_ctx, 300);
  EXPECT_EQ(info.n_ubatch, 100);
  EXPECT_EQ(info.n_outputs, 7);
  EXPECT_EQ(info.n_row, 64);
  EXPECT_EQ(info.n_sequences, 3);
  EXPECT_EQ(info.n_threads, 1);
  EXPECT_STATUS(tessera_session_info_get(nullptr, &info, error), TESSERA_INVALID_ARGUMENT, "session: is NULL");
  EXPECT_STATUS(tessera_session_info_get(other.get(), nullptr, error), TESSERA_INVALID_ARGUMENT, "info: is NULL");
  info.size = 0;
  EXPECT_STATUS(tessera_session_info_get(other.get(), &info, error), TESSERA_INVALID_ARGUMENT, "info: size is 0");
}

TEST_F(CapiSession, RefusesWrongOptions) {
  tessera_session* session = nullptr;
  const auto refuse = [&](auto change, tessera_status status, const std::string& text) {
    tessera_session_options options = session_options();
    change(options);
    EXPECT_STATUS(tessera_session_create(model_.get(), &options, &session, error), status, text);
    EXPECT_EQ(session, nullptr);
  };
  refuse([](auto& o) { o.flags = 2; }, TESSERA_INVALID_ARGUMENT, "flags: 0x2, known are 0x1");
  refuse([](auto& o) { o.n_threads = -1; }, TESSERA_INVALID_ARGUMENT, "n_threads: -1");
  refuse([](auto& o) { o.type_k = 10; }, TESSERA_INVALID_ARGUMENT, "type_k: 10");
  refuse([](auto& o) { o.type_v = -1; }, TESSERA_INVALID_ARGUMENT, "type_v: -1");
  refuse([](auto& o) { o.n_ctx = -1; }, TESSERA_INVALID_ARGUMENT, "-1");
  refuse([](auto& o) { o.n_sequences = -1; }, TESSERA_INVALID_ARGUMENT, "-1");
  refuse([](auto& o) { o.n_ubatch = 1 << 20; }, TESSERA_INVALID_ARGUMENT, "1048576");
  EXPECT_STATUS(tessera_session_create(model_.get(), nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "session: is NULL");
  EXPECT_STATUS(tessera_session_create(nullptr, nullptr, &session, error), TESSERA_INVALID_ARGUMENT, "model: is NULL");
  const ModelHandle unloaded = open_story(runtime_.get(), false);
  EXPECT_STATUS(tessera_session_create(unloaded.get(), nullptr, &session, error), TESSERA_INVALID_ARGUMENT,
                "model: call tessera_model_load() first");
  uint64_t n = 0;
  EXPECT_STATUS(tessera_session_plan(nullptr, nullptr, nullptr, 0, &n, error), TESSERA_INVALID_ARGUMENT,
                "model: is NULL");
  EXPECT_EQ(tessera_session_n_ctx(nullptr), 0);
}

// Logits do not depend on the split into calls, nor on positions that are given or left open.
TEST_F(CapiSession, DecodesInAnySplit) {
  const SessionHandle whole = create();
  EXPECT_SUCCESS(
      tessera_session_append(whole.get(), 0, tokens_.data(), tokens_.size(), TESSERA_WANTS_OUTPUT, nullptr, error));
  const std::vector<float> wanted = output(whole.get());
  ASSERT_EQ(wanted.size(), 512u);
  EXPECT_EQ(tessera_session_output_count(whole.get()), 1);
  EXPECT_EQ(tessera_session_output(whole.get(), 1, nullptr), nullptr);
  EXPECT_EQ(tessera_session_output(whole.get(), -1, nullptr), nullptr);
  EXPECT_EQ(range(whole.get(), 0), std::pair(0, static_cast<int32_t>(tokens_.size()) - 1));

  const SessionHandle parts = create(3, 2);
  EXPECT_SUCCESS(tessera_session_append(parts.get(), 2, tokens_.data(), 5, 0, nullptr, error));
  EXPECT_EQ(tessera_session_output_count(parts.get()), 0);
  std::vector<tessera_batch_token> batch;
  for (size_t i = 5; i < tokens_.size(); ++i) {
    const bool is_last = i + 1 == tokens_.size();
    const auto position = static_cast<int32_t>(i);
    batch.push_back({tokens_[i], i % 2 == 0 ? -1 : position, 2, is_last ? uint32_t{TESSERA_WANTS_OUTPUT} : 0});
    batch.push_back({tokens_[i], -1, 0, is_last ? uint32_t{TESSERA_WANTS_OUTPUT} : 0});
  }
  EXPECT_SUCCESS(tessera_session_decode(parts.get(), batch.data(), batch.size(), nullptr, error));
  EXPECT_EQ(output(parts.get(), 0), wanted);
  EXPECT_NE(output(parts.get(), 1), wanted);
  EXPECT_EQ(range(parts.get(), 0), std::pair(0, static_cast<int32_t>(tokens_.size()) - 6));
  EXPECT_EQ(range(parts.get(), 1), std::pair(-1, -1));
}

TEST_F(CapiSession, RefusesWrongBatches) {
  const SessionHandle session = create(2);
  const auto refuse = [&](tessera_batch_token token, const std::string& text) {
    EXPECT_STATUS(tessera_session_decode(session.get(), &token, 1, nullptr, error), TESSERA_INVALID_ARGUMENT, text);
  };
  refuse({512, -1, 0, 0}, "512");
  refuse({-1, -1, 0, 0}, "-1");
  refuse({1, -2, 0, 0}, "position: -2");
  refuse({1, -1, 2, 0}, "sequence: 2, want 0 to 1");
  refuse({1, -1, -1, 0}, "sequence: -1, want 0 to 1");
  EXPECT_STATUS(tessera_session_decode(session.get(), nullptr, 1, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "tokens: is NULL");
  EXPECT_STATUS(tessera_session_decode(nullptr, nullptr, 0, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "session: is NULL");
  EXPECT_STATUS(tessera_session_append(nullptr, 0, tokens_.data(), 1, 0, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "session: is NULL");
  EXPECT_STATUS(tessera_session_encode(session.get(), 0, tokens_.data(), 1, nullptr, error), TESSERA_UNSUPPORTED, "");
  EXPECT_STATUS(tessera_session_encode(session.get(), 5, tokens_.data(), 1, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "sequence: 5");
  const std::vector<int32_t> many(300, 5);
  EXPECT_STATUS(tessera_session_append(session.get(), 0, many.data(), many.size(), 0, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "position 256");
  EXPECT_EQ(range(session.get(), 0), std::pair(-1, -1));
  tessera_cancel* cancel = nullptr;
  EXPECT_SUCCESS(tessera_cancel_create(&cancel, error));
  tessera_cancel_set(cancel);
  EXPECT_STATUS(tessera_session_append(session.get(), 0, many.data(), 9, 0, cancel, error), TESSERA_CANCELLED, "");
  EXPECT_EQ(range(session.get(), 0), std::pair(-1, -1));
  EXPECT_STATUS(tessera_session_append(session.get(), 0, many.data(), 9, 0,
                                       reinterpret_cast<tessera_cancel*>(session.get()), error),
                TESSERA_INVALID_ARGUMENT, "cancel: is a handle of another kind");
  tessera_cancel_release(cancel);
  EXPECT_EQ(tessera_session_output_count(nullptr), 0);
  uint64_t n = 9;
  EXPECT_EQ(tessera_session_output(nullptr, 0, &n), nullptr);
  EXPECT_EQ(n, 0u);
}

TEST_F(CapiSession, SequencesAreForkedCutAndMoved) {
  const SessionHandle session = create(3);
  const auto n = static_cast<int32_t>(tokens_.size());
  EXPECT_SUCCESS(tessera_session_append(session.get(), 0, tokens_.data(), tokens_.size() - 1, 0, nullptr, error));
  EXPECT_SUCCESS(tessera_sequence_fork(session.get(), 0, 1, 0, -1, error));
  EXPECT_EQ(range(session.get(), 1), std::pair(0, n - 2));
  EXPECT_SUCCESS(tessera_session_append(session.get(), 0, &tokens_.back(), 1, TESSERA_WANTS_OUTPUT, nullptr, error));
  const std::vector<float> wanted = output(session.get());
  EXPECT_SUCCESS(tessera_session_append(session.get(), 1, &tokens_.back(), 1, TESSERA_WANTS_OUTPUT, nullptr, error));
  EXPECT_EQ(output(session.get()), wanted);
  // Cut and decoded again.
  EXPECT_SUCCESS(tessera_sequence_remove(session.get(), 1, 4, -1, error));
  EXPECT_EQ(range(session.get(), 1), std::pair(0, 3));
  EXPECT_SUCCESS(tessera_session_append(session.get(), 1, tokens_.data() + 4, tokens_.size() - 4, TESSERA_WANTS_OUTPUT,
                                        nullptr, error));
  EXPECT_EQ(output(session.get()), wanted);
  EXPECT_SUCCESS(tessera_sequence_fork(session.get(), 0, 2, 0, 3, error));
  EXPECT_EQ(range(session.get(), 2), std::pair(0, 2));
  EXPECT_SUCCESS(tessera_sequence_remove(session.get(), 2, 0, 1, error));
  EXPECT_SUCCESS(tessera_sequence_shift(session.get(), 2, 1, -1, -1, error));
  EXPECT_EQ(range(session.get(), 2), std::pair(0, 1));
  EXPECT_SUCCESS(tessera_sequence_keep(session.get(), 0, error));
  EXPECT_EQ(range(session.get(), 0), std::pair(0, n - 1));
  EXPECT_EQ(range(session.get(), 1), std::pair(-1, -1));
  EXPECT_SUCCESS(tessera_session_clear(session.get(), error));
  EXPECT_EQ(range(session.get(), 0), std::pair(-1, -1));
  for (const int32_t bad : {-1, 3}) {
    const std::string text = "sequence: " + std::to_string(bad) + ", want 0 to 2";
    EXPECT_STATUS(tessera_sequence_range(session.get(), bad, nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT, text);
    EXPECT_STATUS(tessera_sequence_remove(session.get(), bad, 0, -1, error), TESSERA_INVALID_ARGUMENT, text);
    EXPECT_STATUS(tessera_sequence_keep(session.get(), bad, error), TESSERA_INVALID_ARGUMENT, text);
    EXPECT_STATUS(tessera_sequence_fork(session.get(), bad, 0, 0, -1, error), TESSERA_INVALID_ARGUMENT, text);
    EXPECT_STATUS(tessera_sequence_fork(session.get(), 0, bad, 0, -1, error), TESSERA_INVALID_ARGUMENT, text);
    EXPECT_STATUS(tessera_sequence_shift(session.get(), bad, 0, -1, 1, error), TESSERA_INVALID_ARGUMENT, text);
    EXPECT_STATUS(tessera_sequence_save(session.get(), bad, nullptr, 0, nullptr, error), TESSERA_INVALID_ARGUMENT,
                  text);
    EXPECT_STATUS(tessera_sequence_restore(session.get(), bad, "", 0, error), TESSERA_INVALID_ARGUMENT, text);
  }
  EXPECT_STATUS(tessera_session_clear(nullptr, error), TESSERA_INVALID_ARGUMENT, "session: is NULL");
}

TEST_F(CapiSession, StatesAreSavedAndRestored) {
  const SessionHandle session = create(2), other = create();
  EXPECT_SUCCESS(tessera_session_append(session.get(), 1, tokens_.data(), tokens_.size() - 1, 0, nullptr, error));
  uint64_t needed = 0;
  EXPECT_STATUS(tessera_sequence_save(session.get(), 1, nullptr, 0, &needed, error), TESSERA_LIMIT, "buffer: ");
  std::vector<char> state(needed);
  EXPECT_SUCCESS(tessera_sequence_save(session.get(), 1, state.data(), state.size(), &needed, error));
  EXPECT_SUCCESS(tessera_sequence_restore(other.get(), 0, state.data(), state.size(), error));
  std::vector<float> rows[2];
  for (int32_t i = 0; i < 2; ++i) {
    tessera_session* of = i == 0 ? session.get() : other.get();
    EXPECT_SUCCESS(tessera_session_append(of, 1 - i, &tokens_.back(), 1, TESSERA_WANTS_OUTPUT, nullptr, error));
    rows[i] = output(of);
  }
  EXPECT_EQ(rows[0], rows[1]);
  state[state.size() / 2] ^= 1;
  CallError damaged;
  EXPECT_NE(tessera_sequence_restore(other.get(), 0, state.data(), state.size(), damaged), TESSERA_OK);
  EXPECT_EQ(range(other.get(), 0).second, static_cast<int32_t>(tokens_.size()) - 1);
  EXPECT_STATUS(tessera_sequence_restore(other.get(), 0, nullptr, 9, error), TESSERA_INVALID_ARGUMENT,
                "state: is NULL");
}

TEST_F(CapiSession, EmbeddingsAreRowsOfTheirWidth) {
  tessera_session_options options = session_options();
  options.n_ctx = 64;
  options.flags = TESSERA_SESSION_EMBEDDINGS;
  const SessionHandle session = create_session_handle(model_.get(), &options);
  EXPECT_SUCCESS(
      tessera_session_append(session.get(), 0, tokens_.data(), tokens_.size(), TESSERA_WANTS_OUTPUT, nullptr, error));
  EXPECT_EQ(output(session.get()).size(), 64u);
  const SamplerHandle sampler = create_greedy(model_.get());
  tessera_generation* generation = nullptr;
  EXPECT_STATUS(tessera_generation_create(session.get(), sampler.get(), 0, nullptr, &generation, error),
                TESSERA_INVALID_ARGUMENT, "session: it computes embeddings");
}

// Members that a program does not know have their defaults, which are not 0.
TEST_F(CapiSession, ShorterOptionsOfSamplersHaveDefaults) {
  tessera_sampler_options options;
  std::memset(&options, 0xff, sizeof options);
  tessera_sampler_options_init(&options, offsetof(tessera_sampler_options, dynatemp_range));
  options.temperature = 0;
  tessera_sampler* created = nullptr;
  EXPECT_SUCCESS(tessera_sampler_create(model_.get(), &options, 64, &created, error));
  std::vector<float> logits(512, 0.0f);
  logits[77] = 1;
  int32_t token = -1;
  EXPECT_SUCCESS(tessera_sampler_sample(created, logits.data(), logits.size(), &token, error));
  EXPECT_EQ(token, 77);
  tessera_sampler_release(created);
}

TEST_F(CapiSession, SamplersChooseAcceptAndAreCloned) {
  tessera_sampler_options options;
  tessera_sampler_options_init(&options, sizeof options);
  EXPECT_EQ(options.seed, -1);
  EXPECT_EQ(options.n_prev, 64);
  EXPECT_EQ(options.top_k, 40);
  EXPECT_FLOAT_EQ(options.temperature, 0.8f);
  EXPECT_FLOAT_EQ(options.top_p, 0.95f);
  EXPECT_FLOAT_EQ(options.min_p, 0.05f);
  options.seed = 7;
  options.top_k = 3;
  options.order = "top_k;temperature";
  tessera_sampler* created = nullptr;
  EXPECT_SUCCESS(tessera_sampler_create(model_.get(), &options, 64, &created, error));
  const SamplerHandle sampler(created, tessera_sampler_release);
  std::vector<float> logits(512, 0.0f);
  logits[10] = 9, logits[20] = 8.9f, logits[30] = 8.8f, logits[40] = 8.7f;
  const auto draw = [&](tessera_sampler* from, int n) {
    std::vector<int32_t> drawn;
    for (int i = 0; i < n; ++i) {
      int32_t token = -1;
      EXPECT_SUCCESS(tessera_sampler_sample(from, logits.data(), logits.size(), &token, error));
      EXPECT_SUCCESS(tessera_sampler_accept(from, token, error));
      drawn.push_back(token);
    }
    return drawn;
  };
  const std::vector<int32_t> first = draw(sampler.get(), 20);
  for (const int32_t token : first) EXPECT_TRUE(token == 10 || token == 20 || token == 30) << token;
  EXPECT_GT(std::ranges::count(first, 20), 0);
  tessera_sampler* copied = nullptr;
  EXPECT_SUCCESS(tessera_sampler_clone(sampler.get(), &copied, error));
  const SamplerHandle copy(copied, tessera_sampler_release);
  EXPECT_EQ(draw(copy.get(), 20), draw(sampler.get(), 20));
  tessera_candidate top[5];
  ASSERT_EQ(tessera_sampler_top(sampler.get(), top, 5), 3u);
  EXPECT_EQ(top[0].token, 10);
  EXPECT_EQ(top[2].token, 30);
  EXPECT_NEAR(top[0].probability + top[1].probability + top[2].probability, 1, 1e-5);
  EXPECT_EQ(tessera_sampler_top(sampler.get(), top, 2), 2u);
  EXPECT_EQ(tessera_sampler_top(sampler.get(), nullptr, 2), 0u);
  EXPECT_EQ(tessera_sampler_top(nullptr, top, 2), 0u);
  tessera_sampler_reset(sampler.get());
  EXPECT_EQ(draw(sampler.get(), 20), first);
  tessera_sampler_reset(nullptr);

  int32_t token = 0;
  EXPECT_STATUS(tessera_sampler_sample(sampler.get(), logits.data(), 511, &token, error), TESSERA_MISMATCH, "511");
  EXPECT_STATUS(tessera_sampler_sample(sampler.get(), nullptr, 512, &token, error), TESSERA_INVALID_ARGUMENT,
                "logits: is NULL");
  EXPECT_STATUS(tessera_sampler_sample(sampler.get(), logits.data(), 512, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "token: is NULL");
  EXPECT_STATUS(tessera_sampler_sample(nullptr, logits.data(), 512, &token, error), TESSERA_INVALID_ARGUMENT,
                "sampler: is NULL");
  EXPECT_STATUS(tessera_sampler_accept(sampler.get(), 512, error), TESSERA_INVALID_ARGUMENT, "512");
  EXPECT_STATUS(tessera_sampler_accept(nullptr, 1, error), TESSERA_INVALID_ARGUMENT, "sampler: is NULL");
  EXPECT_STATUS(tessera_sampler_clone(sampler.get(), nullptr, error), TESSERA_INVALID_ARGUMENT, "copy: is NULL");
  EXPECT_STATUS(tessera_sampler_clone(nullptr, &copied, error), TESSERA_INVALID_ARGUMENT, "sampler: is NULL");
  options.order = "top_x";
  EXPECT_STATUS(tessera_sampler_create(model_.get(), &options, 64, &created, error), TESSERA_INVALID_ARGUMENT, "top_x");
  options.order = nullptr;
  options.top_p = 2;
  EXPECT_STATUS(tessera_sampler_create(model_.get(), &options, 64, &created, error), TESSERA_INVALID_ARGUMENT, "top_p");
  EXPECT_STATUS(tessera_sampler_create(model_.get(), nullptr, 0, &created, error), TESSERA_INVALID_ARGUMENT,
                "n_ctx: 0");
  EXPECT_STATUS(tessera_sampler_create(model_.get(), nullptr, 9, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "sampler: is NULL");
  EXPECT_STATUS(tessera_sampler_create(nullptr, nullptr, 9, &created, error), TESSERA_INVALID_ARGUMENT,
                "model: is NULL");
}

// Generates a text; `generation` has begun.
std::string text_of(tessera_generation* generation, int32_t* stop = nullptr) {
  std::string text;
  tessera_generated next{};
  do {
    EXPECT_SUCCESS(tessera_generation_next(generation, &next, nullptr, error));
    EXPECT_EQ(std::string(next.text).size(), next.n_bytes);
    text.append(next.text, next.n_bytes);
  } while (next.token >= 0 && text.size() < 10'000);
  if (stop != nullptr) *stop = next.stop;
  return text;
}

TEST_F(CapiSession, TextsAreGeneratedWithinGrammars) {
  const SessionHandle session = create();
  const SamplerHandle sampler = create_greedy(model_.get());
  tessera_generation_options options;
  tessera_generation_options_init(&options, sizeof options);
  options.n_predict = 24;
  tessera_generation* created = nullptr;
  EXPECT_SUCCESS(tessera_generation_create(session.get(), sampler.get(), 0, &options, &created, error));
  const GenerationHandle generation(created, tessera_generation_release);
  tessera_generated next{};
  EXPECT_STATUS(tessera_generation_next(created, &next, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "call tessera_generation_start() first");
  const auto start = [&] {
    EXPECT_SUCCESS(tessera_generation_start(created, tokens_.data(), tokens_.size(), nullptr, error));
  };
  start();
  int32_t stop = 0;
  const std::string text = text_of(created, &stop);
  EXPECT_EQ(stop, TESSERA_STOP_N_PREDICT);
  EXPECT_GT(text.size(), 30u);
  start();  // again from the beginning
  EXPECT_EQ(text_of(created), text);
  const std::pair<int32_t, const char*> grammars[] = {{TESSERA_GRAMMAR_GBNF, "root ::= \"x\" [0-9] \"y\""},
                                                      {TESSERA_GRAMMAR_REGEX, "x[0-9]y"}};
  for (const auto& [kind, grammar] : grammars) {
    EXPECT_SUCCESS(tessera_sampler_set_grammar(sampler.get(), kind, grammar, -1, error));
    start();
    const std::string fitting = text_of(created, &stop);
    ASSERT_EQ(fitting.size(), 3u) << fitting;
    EXPECT_TRUE(fitting[0] == 'x' && fitting[1] >= '0' && fitting[1] <= '9' && fitting[2] == 'y') << fitting;
    EXPECT_EQ(stop, TESSERA_STOP_END);
  }
  EXPECT_SUCCESS(tessera_sampler_set_grammar(sampler.get(), TESSERA_GRAMMAR_JSON_SCHEMA, "{\"const\": 17}", -1, error));
  start();
  EXPECT_EQ(text_of(created), "17");
  EXPECT_SUCCESS(tessera_sampler_set_grammar(sampler.get(), 0, nullptr, 0, error));
  start();
  EXPECT_EQ(text_of(created), text);
  EXPECT_STATUS(tessera_sampler_set_grammar(sampler.get(), 3, "x", -1, error), TESSERA_INVALID_ARGUMENT, "kind: 3");
  EXPECT_STATUS(tessera_sampler_set_grammar(sampler.get(), -1, "x", -1, error), TESSERA_INVALID_ARGUMENT, "kind: -1");
  EXPECT_STATUS(tessera_sampler_set_grammar(sampler.get(), TESSERA_GRAMMAR_REGEX, "(", -1, error), TESSERA_FORMAT, "");
  EXPECT_STATUS(tessera_sampler_set_grammar(nullptr, 0, "x", -1, error), TESSERA_INVALID_ARGUMENT, "sampler: is NULL");
}

TEST_F(CapiSession, GenerationsRefuseWrongArguments) {
  const SessionHandle session = create();
  const SamplerHandle sampler = create_greedy(model_.get());
  const ModelHandle other = open_story(runtime_.get());
  const SamplerHandle of_other = create_greedy(other.get());
  tessera_generation* generation = nullptr;
  const auto refuse = [&](tessera_session* of, tessera_sampler* by, int32_t sequence, const std::string& text) {
    EXPECT_STATUS(tessera_generation_create(of, by, sequence, nullptr, &generation, error), TESSERA_INVALID_ARGUMENT,
                  text);
  };
  refuse(nullptr, sampler.get(), 0, "session: is NULL");
  refuse(session.get(), nullptr, 0, "sampler: is NULL");
  refuse(session.get(), of_other.get(), 0, "sampler: is of another model");
  refuse(session.get(), sampler.get(), 1, "sequence: 1, want 0 to 0");
  refuse(session.get(), sampler.get(), -1, "sequence: -1, want 0 to 0");
  EXPECT_STATUS(tessera_generation_create(session.get(), sampler.get(), 0, nullptr, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "generation: is NULL");
  const auto refuse_options = [&](auto change, const std::string& text) {
    tessera_generation_options options;
    tessera_generation_options_init(&options, sizeof options);
    change(options);
    EXPECT_STATUS(tessera_generation_create(session.get(), sampler.get(), 0, &options, &generation, error),
                  TESSERA_INVALID_ARGUMENT, text);
  };
  refuse_options([](auto& o) { o.flags = 8; }, "flags: 0x8, known are 0x7");
  refuse_options([](auto& o) { o.n_predict = -1; }, "n_predict: -1");
  refuse_options([](auto& o) { o.n_keep = -2; }, "n_keep: -2");
  refuse_options([](auto& o) { o.n_batch = -1; }, "n_batch: -1");
  EXPECT_EQ(generation, nullptr);
  EXPECT_SUCCESS(tessera_generation_create(session.get(), sampler.get(), 0, nullptr, &generation, error));
  const GenerationHandle handle(generation, tessera_generation_release);
  EXPECT_STATUS(tessera_generation_start(generation, nullptr, 0, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "no tokens");
  const std::vector<int32_t> many(400, 5);
  EXPECT_STATUS(tessera_generation_start(generation, many.data(), many.size(), nullptr, error), TESSERA_LIMIT, "");
  EXPECT_STATUS(tessera_generation_start(nullptr, many.data(), 1, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "generation: is NULL");
  tessera_generated next{};
  EXPECT_STATUS(tessera_generation_next(generation, &next, nullptr, error), TESSERA_INVALID_ARGUMENT, "start() first");
  EXPECT_STATUS(tessera_generation_next(generation, nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "next: is NULL");
  EXPECT_STATUS(tessera_generation_next(nullptr, &next, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "generation: is NULL");
}

TEST_F(CapiSession, GenerationFillsOrShiftsTheContext) {
  const SamplerHandle sampler = create_greedy(model_.get());
  for (const bool shifts : {false, true}) {
    const SessionHandle session = create();
    tessera_generation_options options;
    tessera_generation_options_init(&options, sizeof options);
    options.flags = TESSERA_GENERATE_IGNORE_END | (shifts ? uint32_t{TESSERA_GENERATE_CONTEXT_SHIFT} : 0);
    options.n_predict = 300;
    options.n_batch = 3;
    options.n_keep = -1;
    tessera_generation* created = nullptr;
    EXPECT_SUCCESS(tessera_generation_create(session.get(), sampler.get(), 0, &options, &created, error));
    const GenerationHandle generation(created, tessera_generation_release);
    EXPECT_SUCCESS(tessera_generation_start(created, tokens_.data(), tokens_.size(), nullptr, error));
    int32_t stop = 0;
    text_of(created, &stop);
    EXPECT_EQ(stop, shifts ? TESSERA_STOP_N_PREDICT : TESSERA_STOP_CONTEXT);
  }
}

// Two models of one runtime and several sessions at the same time, each in a thread of its own.
TEST(CapiThreads, SessionsRunBesideEachOther) {
  const RuntimeHandle runtime = create_runtime_handle(2);
  const ModelHandle models[] = {open_story(runtime.get()), open_story(runtime.get())};
  std::vector<std::string> texts(6);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < texts.size(); ++i)
    threads.emplace_back([&, i] {
      tessera_model* model = models[i % 2].get();
      const SessionHandle session = create_session_handle(model);
      const SamplerHandle sampler = create_greedy(model);
      tessera_generation_options options;
      tessera_generation_options_init(&options, sizeof options);
      options.n_predict = 16;
      tessera_generation* created = nullptr;
      EXPECT_SUCCESS(tessera_generation_create(session.get(), sampler.get(), 0, &options, &created, error));
      const GenerationHandle generation(created, tessera_generation_release);
      const std::vector<int32_t> prompt = tokens_of(model, "Once upon a time");
      EXPECT_SUCCESS(tessera_generation_start(created, prompt.data(), prompt.size(), nullptr, error));
      texts[i] = text_of(created);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(texts[0], "");
  for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);
}

}  // namespace
}  // namespace tessera
