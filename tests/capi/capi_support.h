// Shared by the tests of the C interface: handles that release themselves, and errors as texts.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tessera/tessera.h"
#include "tests/support/testing.h"

namespace tessera::testing {

/// An error to pass to a call, and its text.
struct CallError {
  tessera_error error = TESSERA_ERROR_INIT;

  operator tessera_error*() { return &error; }
  std::string text() const { return error.text; }
};

/// Expects a status, and a part of the error's text.
#define EXPECT_STATUS(call, wanted_status, wanted_text)                           \
  do {                                                                            \
    CallError error;                                                              \
    EXPECT_EQ((call), (wanted_status)) << error.text();                           \
    EXPECT_EQ(error.error.status, (wanted_status));                               \
    EXPECT_NE(error.text().find(wanted_text), std::string::npos) << error.text(); \
  } while (false)
#define EXPECT_SUCCESS(call) EXPECT_STATUS(call, TESSERA_OK, "")

using RuntimeHandle = std::unique_ptr<tessera_runtime, decltype(&tessera_runtime_release)>;
using ModelHandle = std::unique_ptr<tessera_model, decltype(&tessera_model_release)>;
using SessionHandle = std::unique_ptr<tessera_session, decltype(&tessera_session_release)>;
using SamplerHandle = std::unique_ptr<tessera_sampler, decltype(&tessera_sampler_release)>;
using GenerationHandle = std::unique_ptr<tessera_generation, decltype(&tessera_generation_release)>;
using AdapterHandle = std::unique_ptr<tessera_adapter, decltype(&tessera_adapter_release)>;
using CancelHandle = std::unique_ptr<tessera_cancel, decltype(&tessera_cancel_release)>;

inline RuntimeHandle create_runtime_handle(int32_t n_threads = 2) {
  tessera_runtime_options options;
  tessera_runtime_options_init(&options, sizeof options);
  options.n_threads = n_threads;
  tessera_runtime* runtime = nullptr;
  EXPECT_SUCCESS(tessera_runtime_create(&options, &runtime, error));
  return {runtime, tessera_runtime_release};
}

/// The trained model of the tests, loaded unless only its metadata are wanted.
inline ModelHandle open_story(tessera_runtime* runtime, bool loads = true) {
  tessera_model* model = nullptr;
  EXPECT_SUCCESS(tessera_model_open(runtime, story_model().c_str(), nullptr, &model, error));
  if (loads) EXPECT_SUCCESS(tessera_model_load(model, nullptr, nullptr, nullptr, error));
  return {model, tessera_model_release};
}

inline SessionHandle create_session_handle(tessera_model* model, const tessera_session_options* options = nullptr) {
  tessera_session* session = nullptr;
  EXPECT_SUCCESS(tessera_session_create(model, options, &session, error));
  return {session, tessera_session_release};
}

/// A sampler of the most probable token.
inline SamplerHandle create_greedy(const tessera_model* model) {
  tessera_sampler_options options;
  tessera_sampler_options_init(&options, sizeof options);
  options.temperature = 0;
  tessera_sampler* sampler = nullptr;
  EXPECT_SUCCESS(tessera_sampler_create(model, &options, 512, &sampler, error));
  return {sampler, tessera_sampler_release};
}

inline std::vector<int32_t> tokens_of(const tessera_model* model, const std::string& text) {
  std::vector<int32_t> tokens(text.size() + 2);
  uint64_t n = 0;
  EXPECT_SUCCESS(tessera_tokenize(model, text.data(), static_cast<int64_t>(text.size()), TESSERA_TOKENIZE_SPECIAL,
                                  tokens.data(), tokens.size(), &n, error));
  tokens.resize(n);
  return tokens;
}

/// A handle of another kind in place of the wanted one.
template <class T>
T* as_handle(void* other) {
  return static_cast<T*>(other);
}

/// The text that a call writes to a buffer, in the room that it asks for. call(buffer, room, needed, error).
template <class Call>
std::string written_text(Call call) {
  uint64_t needed = 0;
  EXPECT_STATUS(call(nullptr, 0, &needed, error), TESSERA_LIMIT, "room is for 0");
  std::string text(needed, 'x');
  EXPECT_STATUS(call(text.data(), needed - 1, &needed, error), TESSERA_LIMIT, "bytes are needed");
  EXPECT_EQ(text, std::string(text.size(), 'x'));
  EXPECT_EQ(needed, text.size());
  EXPECT_STATUS(call(nullptr, needed, nullptr, error), TESSERA_INVALID_ARGUMENT, "buffer: is NULL");
  EXPECT_SUCCESS(call(text.data(), needed, nullptr, error));
  EXPECT_EQ(text.back(), '\0');
  text.pop_back();
  return text;
}

}  // namespace tessera::testing
