// Models and tokenizers of tessera.h.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "tests/capi/capi_support.h"

namespace tessera {
namespace {

using namespace testing;

tessera_model_options model_options() {
  tessera_model_options options;
  tessera_model_options_init(&options, sizeof options);
  return options;
}

TEST(CapiModel, IsOpenedThenLoaded) {
  const RuntimeHandle runtime = create_runtime_handle();
  const ModelHandle model = open_story(runtime.get(), false);
  EXPECT_EQ(tessera_model_is_loaded(model.get()), 0);
  tessera_model_info info{};
  info.size = sizeof info;
  EXPECT_SUCCESS(tessera_model_info_get(model.get(), &info, error));
  EXPECT_EQ(std::string(info.architecture), "llama");
  EXPECT_EQ(std::string(info.name), "story");
  EXPECT_EQ(info.n_vocab, 512);
  EXPECT_EQ(info.n_ctx_train, 2048);
  EXPECT_EQ(info.n_embd, 64);
  EXPECT_EQ(info.n_layers, 5);
  EXPECT_EQ(info.n_parameters, 292'800u);
  EXPECT_EQ(info.n_bytes, 4 * 292'800u);
  EXPECT_EQ(info.flags, uint32_t{TESSERA_MODEL_IS_CAUSAL | TESSERA_MODEL_HAS_TOKENIZER});
  std::vector<float> shares;
  const auto note = [](void* user, float share) -> int32_t {
    static_cast<std::vector<float>*>(user)->push_back(share);
    return 0;
  };
  EXPECT_SUCCESS(tessera_model_load(model.get(), note, &shares, nullptr, error));
  EXPECT_EQ(tessera_model_is_loaded(model.get()), 1);
  ASSERT_FALSE(shares.empty());
  EXPECT_TRUE(std::ranges::is_sorted(shares));
  EXPECT_EQ(shares.back(), 1.0f);
  shares.clear();
  EXPECT_SUCCESS(tessera_model_load(model.get(), note, &shares, nullptr, error));  // loaded already
  EXPECT_TRUE(shares.empty());
}

TEST(CapiModel, LoadingStopsOnRequest) {
  const RuntimeHandle runtime = create_runtime_handle();
  const ModelHandle model = open_story(runtime.get(), false);
  const auto stop = [](void*, float) -> int32_t { return 1; };
  EXPECT_STATUS(tessera_model_load(model.get(), stop, nullptr, nullptr, error), TESSERA_CANCELLED, "");
  tessera_cancel* cancel = nullptr;
  EXPECT_SUCCESS(tessera_cancel_create(&cancel, error));
  tessera_cancel_set(cancel);
  EXPECT_STATUS(tessera_model_load(model.get(), nullptr, nullptr, cancel, error), TESSERA_CANCELLED, "");
  EXPECT_EQ(tessera_model_is_loaded(model.get()), 0);
  tessera_cancel_reset(cancel);
  EXPECT_SUCCESS(tessera_model_load(model.get(), nullptr, nullptr, cancel, error));
  tessera_cancel_release(cancel);
}

TEST(CapiModel, RefusesWrongFilesAndOptions) {
  const RuntimeHandle runtime = create_runtime_handle();
  tessera_model* model = nullptr;
  const auto open = [&](const std::string& path, const tessera_model_options* options, tessera_error* error) {
    return tessera_model_open(runtime.get(), path.c_str(), options, &model, error);
  };
  EXPECT_STATUS(open("/no/such/file", nullptr, error), TESSERA_NOT_FOUND, "/no/such/file");
  EXPECT_STATUS(open(write_temporary("bad.gguf", "GGUF\3"), nullptr, error), TESSERA_FORMAT, "bad.gguf");
  EXPECT_STATUS(tessera_model_open(runtime.get(), nullptr, nullptr, &model, error), TESSERA_INVALID_ARGUMENT,
                "path: is NULL");
  EXPECT_STATUS(tessera_model_open(runtime.get(), "x", nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "model: is NULL");
  EXPECT_STATUS(tessera_model_open(nullptr, "x", nullptr, &model, error), TESSERA_INVALID_ARGUMENT, "runtime: is NULL");
  tessera_model_options options = model_options();
  options.load_mode = 2;
  EXPECT_STATUS(open(story_model(), &options, error), TESSERA_INVALID_ARGUMENT, "load_mode: 2");
  options = model_options();
  options.n_gpu_layers = -1;
  EXPECT_STATUS(open(story_model(), &options, error), TESSERA_INVALID_ARGUMENT, "n_gpu_layers: -1");
  options = model_options();
  options.flags = 8;
  EXPECT_STATUS(open(story_model(), &options, error), TESSERA_INVALID_ARGUMENT, "flags: 0x8, known are 0x7");
  options = model_options();
  options.devices = "cpu,nothing";
  EXPECT_STATUS(open(story_model(), &options, error), TESSERA_NOT_FOUND, "nothing");
  EXPECT_EQ(model, nullptr);
  EXPECT_STATUS(tessera_model_load(nullptr, nullptr, nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "model: is NULL");
  tessera_model_info info{};
  EXPECT_STATUS(tessera_model_info_get(nullptr, &info, error), TESSERA_INVALID_ARGUMENT, "model: is NULL");
  const ModelHandle story = open_story(runtime.get(), false);
  EXPECT_STATUS(tessera_model_info_get(story.get(), nullptr, error), TESSERA_INVALID_ARGUMENT, "info: is NULL");
  for (const uint32_t size : {0u, 3u, (1u << 16) + 1}) {
    info.size = size;
    EXPECT_STATUS(tessera_model_info_get(story.get(), &info, error), TESSERA_INVALID_ARGUMENT, "info: size is ");
  }
  EXPECT_EQ(tessera_model_is_loaded(nullptr), 0);
}

// A program of an earlier version has room for the first members only.
TEST(CapiModel, InfosFitTheirRoom) {
  const RuntimeHandle runtime = create_runtime_handle();
  const ModelHandle story = open_story(runtime.get(), false);
  tessera_model_info info;
  std::memset(&info, 0xff, sizeof info);
  info.size = offsetof(tessera_model_info, n_embd);
  EXPECT_SUCCESS(tessera_model_info_get(story.get(), &info, error));
  EXPECT_EQ(info.size, offsetof(tessera_model_info, n_embd));
  EXPECT_EQ(info.n_ctx_train, 2048);
  EXPECT_EQ(info.n_embd, -1);
}

TEST(CapiModel, LoadsInEachMode) {
  const RuntimeHandle runtime = create_runtime_handle();
  for (const int32_t mode : {TESSERA_LOAD_MAP, TESSERA_LOAD_READ})
    for (const uint32_t flags : {0u, uint32_t{TESSERA_MODEL_CHECK_TENSORS | TESSERA_MODEL_NO_PACKING}}) {
      tessera_model_options options = model_options();
      options.load_mode = mode;
      options.flags = flags;
      tessera_model* model = nullptr;
      EXPECT_SUCCESS(tessera_model_open(runtime.get(), story_model().c_str(), &options, &model, error));
      EXPECT_SUCCESS(tessera_model_load(model, nullptr, nullptr, nullptr, error));
      uint64_t n = 0;
      EXPECT_STATUS(tessera_session_plan(model, nullptr, nullptr, 0, &n, error), TESSERA_LIMIT, "parts: ");
      std::vector<tessera_memory_part> parts(n);
      EXPECT_SUCCESS(tessera_session_plan(model, nullptr, parts.data(), n, &n, error));
      const auto is_mapped = [](const tessera_memory_part& part) { return std::string(part.buffer) == "cpu-mapped"; };
      EXPECT_EQ(std::ranges::any_of(parts, is_mapped), mode == TESSERA_LOAD_MAP) << mode << flags;
      tessera_model_release(model);
    }
}

TEST(CapiTokenizer, TextsBecomeTokensAndTextsAgain) {
  const RuntimeHandle runtime = create_runtime_handle();
  const ModelHandle model = open_story(runtime.get(), false);
  const std::string text = "Once upon a time";
  const std::vector<int32_t> tokens = tokens_of(model.get(), text);
  ASSERT_GT(tokens.size(), 2u);
  EXPECT_EQ(tokens[0], tessera_token_special(model.get(), TESSERA_TOKEN_BOS));
  uint64_t needed = 0;
  EXPECT_STATUS(tessera_tokenize(model.get(), text.c_str(), -1, 0, nullptr, 1000, &needed, error),
                TESSERA_INVALID_ARGUMENT, "tokens: is NULL");
  // Without the token that begins a text, and with a length in place of the NUL.
  std::vector<int32_t> plain(tokens.size());
  EXPECT_SUCCESS(tessera_tokenize(model.get(), (text + "xyz").c_str(), static_cast<int64_t>(text.size()), 0,
                                  plain.data(), plain.size(), &needed, error));
  EXPECT_EQ(needed, tokens.size() - 1);
  EXPECT_TRUE(std::equal(plain.begin(), plain.end() - 1, tokens.begin() + 1));
  EXPECT_STATUS(tessera_tokenize(model.get(), text.c_str(), -1, 0, plain.data(), needed - 1, &needed, error),
                TESSERA_LIMIT, "tokens: ");
  EXPECT_EQ(needed, tokens.size() - 1);
  EXPECT_STATUS(tessera_tokenize(model.get(), nullptr, -1, 0, plain.data(), 9, &needed, error),
                TESSERA_INVALID_ARGUMENT, "text: is NULL");
  EXPECT_STATUS(tessera_tokenize(model.get(), "a", -2, 0, plain.data(), 9, &needed, error), TESSERA_INVALID_ARGUMENT,
                "text: length -2");
  EXPECT_STATUS(tessera_tokenize(nullptr, "a", -1, 0, plain.data(), 9, &needed, error), TESSERA_INVALID_ARGUMENT,
                "model: is NULL");

  std::string out(text.size() + 1, 'x');
  EXPECT_SUCCESS(
      tessera_detokenize(model.get(), tokens.data(), tokens.size(), 0, out.data(), out.size(), &needed, error));
  EXPECT_EQ(needed, out.size());
  EXPECT_EQ(std::string(out.c_str()), text);
  EXPECT_STATUS(
      tessera_detokenize(model.get(), tokens.data(), tokens.size(), 0, out.data(), text.size(), &needed, error),
      TESSERA_LIMIT, "buffer: 17 bytes are needed, room is for 16");
  std::string longer(100, 'x');
  EXPECT_SUCCESS(tessera_detokenize(model.get(), tokens.data(), tokens.size(), TESSERA_DETOKENIZE_SPECIAL,
                                    longer.data(), longer.size(), &needed, error));
  EXPECT_EQ(std::string(longer.c_str()), "<s>" + text);
  EXPECT_SUCCESS(tessera_detokenize(model.get(), tokens.data() + 1, 1, TESSERA_DETOKENIZE_CONTINUE, longer.data(),
                                    longer.size(), &needed, error));
  EXPECT_EQ(longer[0], ' ');
  const int32_t bad = 512;
  EXPECT_STATUS(tessera_detokenize(model.get(), &bad, 1, 0, out.data(), out.size(), &needed, error),
                TESSERA_INVALID_ARGUMENT, "512");
  EXPECT_STATUS(tessera_detokenize(model.get(), nullptr, 1, 0, out.data(), out.size(), &needed, error),
                TESSERA_INVALID_ARGUMENT, "tokens: is NULL");
  EXPECT_STATUS(tessera_detokenize(model.get(), &bad, uint64_t{1} << 40, 0, out.data(), out.size(), &needed, error),
                TESSERA_INVALID_ARGUMENT, "tokens: 1099511627776 items, limit 2147483648");
  EXPECT_STATUS(tessera_detokenize(nullptr, &bad, 1, 0, out.data(), out.size(), &needed, error),
                TESSERA_INVALID_ARGUMENT, "model: is NULL");
}

TEST(CapiTokenizer, TokensHaveProperties) {
  const RuntimeHandle runtime = create_runtime_handle();
  const ModelHandle model = open_story(runtime.get(), false);
  EXPECT_EQ(tessera_token_special(model.get(), TESSERA_TOKEN_EOS), 2);
  EXPECT_EQ(tessera_token_special(model.get(), TESSERA_TOKEN_UNKNOWN), 0);
  EXPECT_EQ(tessera_token_special(model.get(), TESSERA_TOKEN_FIM_PREFIX), -1);
  for (const int32_t role : {-1, 15}) EXPECT_EQ(tessera_token_special(model.get(), role), -1);
  EXPECT_EQ(tessera_token_special(nullptr, 0), -1);
  EXPECT_EQ(tessera_token_is_end(model.get(), 2), 1);
  for (const int32_t token : {-1, 1, 512}) EXPECT_EQ(tessera_token_is_end(model.get(), token), 0);
  EXPECT_EQ(tessera_token_is_end(nullptr, 2), 0);
  tessera_token_info info{};
  EXPECT_SUCCESS(tessera_token_info_get(model.get(), 1, &info, error));
  EXPECT_EQ(std::string(info.text, info.n_bytes), "<s>");
  EXPECT_EQ(info.kind, TESSERA_TOKEN_KIND_CONTROL);
  EXPECT_SUCCESS(tessera_token_info_get(model.get(), 3, &info, error));
  EXPECT_EQ(info.kind, TESSERA_TOKEN_KIND_BYTE);
  EXPECT_STATUS(tessera_token_info_get(model.get(), 512, &info, error), TESSERA_INVALID_ARGUMENT,
                "token: 512, there are 512");
  EXPECT_STATUS(tessera_token_info_get(model.get(), 1, nullptr, error), TESSERA_INVALID_ARGUMENT, "info: is NULL");
  EXPECT_STATUS(tessera_token_info_get(nullptr, 1, &info, error), TESSERA_INVALID_ARGUMENT, "model: is NULL");
}

}  // namespace
}  // namespace tessera
