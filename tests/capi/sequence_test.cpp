// States in files, checkpoints, and prompts of models with an encoder.
#include <cmath>
#include <filesystem>

#include "tessera/capi/objects.h"
#include "tests/capi/capi_support.h"
#include "tests/support/spec_model.h"
#include "tests/support/tiny_t5.h"

namespace tessera {
namespace {

using namespace testing;

ModelHandle open_loaded(tessera_runtime* runtime, const std::string& path) {
  tessera_model* model = nullptr;
  EXPECT_SUCCESS(tessera_model_open(runtime, path.c_str(), nullptr, &model, error));
  EXPECT_SUCCESS(tessera_model_load(model, nullptr, nullptr, nullptr, error));
  return {model, tessera_model_release};
}

SessionHandle create_for_sequences(tessera_model* model, int32_t n_checkpoints = 0, int32_t type = 0) {
  tessera_session_options options;
  tessera_session_options_init(&options, sizeof options);
  options.n_ctx = 128;
  options.n_sequences = 2;
  options.n_checkpoints = n_checkpoints;
  options.type_k = options.type_v = type;
  return create_session_handle(model, &options);
}

std::vector<float> append(tessera_session* session, int32_t sequence, std::span<const int32_t> tokens) {
  EXPECT_SUCCESS(
      tessera_session_append(session, sequence, tokens.data(), tokens.size(), TESSERA_WANTS_OUTPUT, nullptr, error));
  uint64_t n = 0;
  const float* row = tessera_session_output(session, 0, &n);
  return {row, row + n};
}

class CapiSequence : public ::testing::Test {
 protected:
  RuntimeHandle runtime_ = create_runtime_handle();
  ModelHandle model_ = open_story(runtime_.get());
  std::vector<int32_t> tokens_ = tokens_of(model_.get(), "Once upon a time, there was a girl");
  std::span<const int32_t> front_ = std::span(tokens_).first(6), rest_ = std::span(tokens_).subspan(6);
};

TEST_F(CapiSequence, StatesGoThroughFiles) {
  const std::string path = temporary_path("capi.state");
  const SessionHandle session = create_for_sequences(model_.get()), other = create_for_sequences(model_.get());
  append(session.get(), 1, front_);
  uint64_t n_bytes = 0, needed = 0;
  EXPECT_SUCCESS(tessera_sequence_state_bytes(session.get(), 1, &n_bytes, error));
  EXPECT_STATUS(tessera_sequence_save(session.get(), 1, nullptr, 0, &needed, error), TESSERA_LIMIT,
                "buffer: " + std::to_string(n_bytes) + " bytes are needed, room is for 0");
  EXPECT_EQ(needed, n_bytes);
  std::string state(n_bytes, 'x');
  EXPECT_STATUS(tessera_sequence_save(session.get(), 1, state.data(), n_bytes - 1, &needed, error), TESSERA_LIMIT,
                "buffer: ");
  EXPECT_EQ(state, std::string(n_bytes, 'x'));
  EXPECT_SUCCESS(tessera_sequence_save(session.get(), 1, state.data(), n_bytes, nullptr, error));
  EXPECT_SUCCESS(tessera_sequence_save_file(session.get(), 1, path.c_str(), error));
  EXPECT_EQ(read_all(path), state);
  EXPECT_SUCCESS(tessera_sequence_restore_file(other.get(), 0, path.c_str(), error));
  EXPECT_EQ(append(other.get(), 0, rest_), append(session.get(), 1, rest_));
}

TEST_F(CapiSequence, OtherFilesAreRefused) {
  const std::string path = temporary_path("capi.state");
  const SessionHandle session = create_for_sequences(model_.get());
  append(session.get(), 0, front_);
  EXPECT_SUCCESS(tessera_sequence_save_file(session.get(), 0, path.c_str(), error));
  std::string damaged = read_all(path);
  const auto refuse = [&](tessera_session* by, const std::string& from, tessera_status status,
                          const std::string& text) {
    EXPECT_STATUS(tessera_sequence_restore_file(by, 0, from.c_str(), error), status, text);
  };
  damaged[100] ^= 1;
  refuse(session.get(), write_temporary("damaged.state", damaged), TESSERA_FORMAT, "damaged.state: state: damaged");
  refuse(session.get(), "/no/such/file", TESSERA_NOT_FOUND, "/no/such/file");
  refuse(session.get(), write_temporary("long.state", std::string(1 << 20, 'x')), TESSERA_LIMIT,
         "a state of this session has at most ");
  refuse(create_for_sequences(model_.get(), 0, TESSERA_CACHE_F32).get(), path, TESSERA_MISMATCH, "cache types");
  const ModelHandle llama = open_loaded(runtime_.get(), arch_model("llama-dense"));
  const SessionHandle of_llama = create_for_sequences(llama.get(), 0, TESSERA_CACHE_F32);
  refuse(of_llama.get(), path, TESSERA_MISMATCH, "another model");
  int32_t last = -1;
  EXPECT_SUCCESS(tessera_sequence_range(session.get(), 0, nullptr, &last, error));
  EXPECT_EQ(last, 5);
}

TEST_F(CapiSequence, WrongArgumentsAreRefused) {
  const SessionHandle session = create_for_sequences(model_.get());
  tessera_session* const s = session.get();
  uint64_t n = 0;
  int32_t position = 0;
  for (const int32_t bad : {-1, 2}) {
    const std::string text = "sequence: " + std::to_string(bad) + ", want 0 to 1";
    EXPECT_STATUS(tessera_sequence_state_bytes(s, bad, &n, error), TESSERA_INVALID_ARGUMENT, text);
    EXPECT_STATUS(tessera_sequence_save_file(s, bad, "x", error), TESSERA_INVALID_ARGUMENT, text);
    EXPECT_STATUS(tessera_sequence_restore_file(s, bad, "x", error), TESSERA_INVALID_ARGUMENT, text);
    EXPECT_STATUS(tessera_sequence_rollback_limit(s, bad, &position, error), TESSERA_INVALID_ARGUMENT, text);
    EXPECT_STATUS(tessera_sequence_checkpoint(s, bad, error), TESSERA_INVALID_ARGUMENT, text);
    EXPECT_STATUS(tessera_sequence_drop_checkpoints(s, bad, error), TESSERA_INVALID_ARGUMENT, text);
  }
  tessera_session* const wrong = as_handle<tessera_session>(model_.get());
  for (tessera_session* of : {static_cast<tessera_session*>(nullptr), wrong}) {
    const std::string text = of == nullptr ? "session: is NULL" : "session: is a handle of another kind";
    EXPECT_STATUS(tessera_sequence_state_bytes(of, 0, &n, error), TESSERA_INVALID_ARGUMENT, text);
    EXPECT_STATUS(tessera_sequence_save_file(of, 0, "x", error), TESSERA_INVALID_ARGUMENT, text);
    EXPECT_STATUS(tessera_sequence_restore_file(of, 0, "x", error), TESSERA_INVALID_ARGUMENT, text);
    EXPECT_STATUS(tessera_sequence_rollback_limit(of, 0, &position, error), TESSERA_INVALID_ARGUMENT, text);
    EXPECT_STATUS(tessera_sequence_checkpoint(of, 0, error), TESSERA_INVALID_ARGUMENT, text);
    EXPECT_STATUS(tessera_sequence_drop_checkpoints(of, 0, error), TESSERA_INVALID_ARGUMENT, text);
    EXPECT_EQ(tessera_sequence_can_shift(of), 0);
  }
  EXPECT_STATUS(tessera_sequence_state_bytes(s, 0, nullptr, error), TESSERA_INVALID_ARGUMENT, "n_bytes: is NULL");
  EXPECT_STATUS(tessera_sequence_save_file(s, 0, nullptr, error), TESSERA_INVALID_ARGUMENT, "path: is NULL");
  EXPECT_STATUS(tessera_sequence_restore_file(s, 0, nullptr, error), TESSERA_INVALID_ARGUMENT, "path: is NULL");
  EXPECT_STATUS(tessera_sequence_rollback_limit(s, 0, nullptr, error), TESSERA_INVALID_ARGUMENT, "position: is NULL");
  EXPECT_STATUS(tessera_sequence_save_file(s, 0, "/no/such/folder/x", error), TESSERA_NOT_FOUND, "/no/such/folder/x");
}

TEST_F(CapiSequence, ModelsDifferInWhatTheyCanGoBackTo) {
  const SessionHandle plain = create_for_sequences(model_.get());
  EXPECT_EQ(tessera_sequence_can_shift(plain.get()), 1);
  append(plain.get(), 0, tokens_);
  int32_t position = -1;
  EXPECT_SUCCESS(tessera_sequence_rollback_limit(plain.get(), 0, &position, error));
  EXPECT_EQ(position, 0);
  EXPECT_SUCCESS(tessera_sequence_checkpoint(plain.get(), 0, error));  // nothing to keep
  const ModelHandle gpt2 = open_loaded(runtime_.get(), arch_model("gpt2-dense"));
  EXPECT_EQ(tessera_sequence_can_shift(create_for_sequences(gpt2.get()).get()), 0);
}

TEST_F(CapiSequence, RecurrentStatesGoBackToCheckpoints) {
  const ModelHandle model = open_loaded(runtime_.get(), arch_model("mamba-dense"));
  const SessionHandle session = create_for_sequences(model.get(), 1);
  const std::vector<int32_t> tokens = {5, 9, 2, 7, 1, 8, 3};
  const auto front = std::span(tokens).first(4), rest = std::span(tokens).subspan(4);
  EXPECT_STATUS(tessera_sequence_checkpoint(session.get(), 0, error), TESSERA_INVALID_ARGUMENT, "");
  append(session.get(), 0, front);
  EXPECT_SUCCESS(tessera_sequence_checkpoint(session.get(), 0, error));
  const std::vector<float> want = append(session.get(), 0, rest);
  int32_t position = -1;
  EXPECT_SUCCESS(tessera_sequence_rollback_limit(session.get(), 0, &position, error));
  EXPECT_EQ(position, 7);
  EXPECT_STATUS(tessera_sequence_checkpoint(session.get(), 0, error), TESSERA_LIMIT, "");
  EXPECT_STATUS(tessera_sequence_remove(session.get(), 0, 3, -1, error), TESSERA_INVALID_ARGUMENT, "");
  EXPECT_SUCCESS(tessera_sequence_remove(session.get(), 0, 4, -1, error));
  EXPECT_EQ(append(session.get(), 0, rest), want);
  EXPECT_SUCCESS(tessera_sequence_drop_checkpoints(session.get(), 0, error));
  EXPECT_STATUS(tessera_sequence_remove(session.get(), 0, 4, -1, error), TESSERA_INVALID_ARGUMENT, "");
  EXPECT_SUCCESS(tessera_sequence_checkpoint(session.get(), 0, error));
}

// The decoder's logits after a prompt are those of an implementation in double precision.
TEST(CapiEncode, DecodersSeeThePromptOfTheirSequence) {
  const RuntimeHandle runtime = create_runtime_handle();
  TinyT5 tiny("t5");
  const ModelHandle model = open_loaded(runtime.get(), tiny.write("capi-t5.gguf"));
  tessera_model_info info{};
  info.size = sizeof info;
  EXPECT_SUCCESS(tessera_model_info_get(model.get(), &info, error));
  EXPECT_NE(info.flags & TESSERA_MODEL_HAS_ENCODER, 0u);
  const SessionHandle session = create_for_sequences(model.get(), 0, TESSERA_CACHE_F32);
  const std::vector<int32_t> prompts[] = {TinyT5::letters("hello"), TinyT5::letters("xyz")};
  const std::vector<int32_t> tokens = {TinyT5::kStart, 8, 20};
  EXPECT_STATUS(tessera_session_append(session.get(), 0, tokens.data(), 1, 0, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "prompt");
  for (int32_t i = 0; i < 2; ++i)
    EXPECT_SUCCESS(tessera_session_encode(session.get(), i, prompts[i].data(), prompts[i].size(), nullptr, error));
  for (int32_t i = 0; i < 2; ++i) {
    const std::vector<float> row = append(session.get(), i, tokens);
    const Vec want = tiny.decode(tiny.encode(prompts[i]), tokens).back();
    ASSERT_EQ(row.size(), want.size());
    for (size_t t = 0; t < row.size(); ++t) EXPECT_NEAR(row[t], want[t], 1e-3) << i << " " << t;
  }
  // Another prompt in place of the old one.
  EXPECT_SUCCESS(tessera_sequence_remove(session.get(), 0, 0, -1, error));
  EXPECT_SUCCESS(tessera_session_encode(session.get(), 0, prompts[1].data(), prompts[1].size(), nullptr, error));
  const std::vector<float> first = append(session.get(), 0, tokens);
  EXPECT_SUCCESS(tessera_sequence_remove(session.get(), 1, 0, -1, error));
  EXPECT_EQ(first, append(session.get(), 1, tokens));
  EXPECT_STATUS(tessera_session_encode(session.get(), 0, nullptr, 1, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "tokens: is NULL");
  EXPECT_STATUS(tessera_session_encode(session.get(), 0, nullptr, 0, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "the prompt has no tokens");
  const int32_t bad = 30;
  EXPECT_STATUS(tessera_session_encode(session.get(), 0, &bad, 1, nullptr, error), TESSERA_INVALID_ARGUMENT, "30");
  EXPECT_STATUS(tessera_session_encode(nullptr, 0, &bad, 1, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "session: is NULL");
  tessera_cancel* created = nullptr;
  EXPECT_SUCCESS(tessera_cancel_create(&created, error));
  const CancelHandle cancel(created, tessera_cancel_release);
  tessera_cancel_set(created);
  EXPECT_STATUS(tessera_session_encode(session.get(), 0, prompts[0].data(), 3, created, error), TESSERA_CANCELLED, "");
}

}  // namespace
}  // namespace tessera
