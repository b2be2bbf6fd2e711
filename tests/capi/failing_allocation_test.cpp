// Allocations that fail: each call of operator new in turn, once or from then on. Every function of tessera.h then
// returns a status, and its objects stay usable.
#include <algorithm>
#include <functional>

#include "tests/capi/capi_support.h"
#include "tests/capi/files_support.h"
#include "tests/convert/hub_folder.h"
#include "tests/support/failing_allocations.h"
#include "tests/support/lora_support.h"

namespace tessera {
namespace {

using namespace testing;

// Calls a function with an allocation that fails, for each of its allocations (or every stride-th), then without one.
// The function returns the status of a call.
void expect_survives(const char* name, int64_t stride, const std::function<tessera_status(tessera_error*)>& call) {
  const int64_t n_failed = count_failing_calls(stride, [&] {
    tessera_error error = TESSERA_ERROR_INIT;
    const tessera_status status = call(&error);
    if (status == TESSERA_OK) return true;
    const WorkingAllocations for_messages;
    EXPECT_EQ(status, TESSERA_OUT_OF_MEMORY) << name << ": " << error.text;
    EXPECT_EQ(std::string(error.text).empty(), false) << name;
    return false;
  });
  EXPECT_GT(n_failed, 0) << name;
  EXPECT_SUCCESS(call(error));
}

TEST(CapiFailingAllocations, AreStatuses) {
  expect_survives("runtime", 1, [](tessera_error* error) {
    tessera_runtime* runtime = nullptr;
    const tessera_status status = tessera_runtime_create(nullptr, &runtime, error);
    tessera_runtime_release(runtime);
    return status;
  });
  const RuntimeHandle runtime = create_runtime_handle(2);
  const std::string path = story_model();
  expect_survives("open", 1, [&](tessera_error* error) {
    tessera_model* model = nullptr;
    const tessera_status status = tessera_model_open(runtime.get(), path.c_str(), nullptr, &model, error);
    tessera_model_release(model);
    return status;
  });
  expect_survives("load", 1, [&](tessera_error* error) {
    const int64_t left = n_until_failure.exchange(-1);
    const ModelHandle model = open_story(runtime.get(), false);
    n_until_failure = left;
    return tessera_model_load(model.get(), nullptr, nullptr, nullptr, error);
  });
  const ModelHandle model = open_story(runtime.get());
  expect_survives("session", 1, [&](tessera_error* error) {
    tessera_session* session = nullptr;
    const tessera_status status = tessera_session_create(model.get(), nullptr, &session, error);
    tessera_session_release(session);
    return status;
  });
  const SessionHandle session = create_session_handle(model.get());
  const std::vector<int32_t> tokens = tokens_of(model.get(), "Once upon a time");
  EXPECT_SUCCESS(
      tessera_session_append(session.get(), 0, tokens.data(), tokens.size(), TESSERA_WANTS_OUTPUT, nullptr, error));
  const std::vector<float> wanted(tessera_session_output(session.get(), 0, nullptr),
                                  tessera_session_output(session.get(), 0, nullptr) + 512);
  expect_survives("decode", 1, [&](tessera_error* error) {
    const int64_t left = n_until_failure.exchange(-1);
    EXPECT_EQ(tessera_session_clear(session.get(), nullptr), TESSERA_OK);
    n_until_failure = left;
    const tessera_status status =
        tessera_session_append(session.get(), 0, tokens.data(), tokens.size(), TESSERA_WANTS_OUTPUT, nullptr, error);
    if (status == TESSERA_OK) {
      const int64_t rest = n_until_failure.exchange(-1);
      const float* row = tessera_session_output(session.get(), 0, nullptr);
      EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), row));
      n_until_failure = rest;
    }
    return status;
  });
  expect_survives("sampler", 1, [&](tessera_error* error) {
    tessera_sampler* sampler = nullptr;
    tessera_status status = tessera_sampler_create(model.get(), nullptr, 64, &sampler, error);
    if (status == TESSERA_OK) status = tessera_sampler_set_grammar(sampler, TESSERA_GRAMMAR_REGEX, "[a-c]+", -1, error);
    tessera_sampler_release(sampler);
    return status;
  });
  expect_survives("tokenize", 1, [&](tessera_error* error) {
    int32_t ids[64];
    uint64_t n = 0;
    return tessera_tokenize(model.get(), "Once upon a time", -1, 0, ids, 64, &n, error);
  });
  expect_survives("generation", 1, [&](tessera_error* error) {
    const int64_t left = n_until_failure.exchange(-1);
    const SamplerHandle sampler = create_greedy(model.get());
    n_until_failure = left;
    tessera_generation* generation = nullptr;
    tessera_status status = tessera_generation_create(session.get(), sampler.get(), 0, nullptr, &generation, error);
    if (status == TESSERA_OK)
      status = tessera_generation_start(generation, tokens.data(), tokens.size(), nullptr, error);
    tessera_generated next{};
    for (int i = 0; i < 3 && status == TESSERA_OK; ++i)
      status = tessera_generation_next(generation, &next, nullptr, error);
    tessera_generation_release(generation);
    return status;
  });
}

TEST(CapiFailingAllocations, OfReadersAdaptersEmbeddingsAndStatesAreStatuses) {
  const RuntimeHandle runtime = create_runtime_handle(1);
  const std::string bytes = read_all(story_model());
  tessera_reader reader;
  tessera_reader_init(&reader, sizeof reader);
  reader.user = const_cast<std::string*>(&bytes);
  reader.file_size = [](void* user) { return static_cast<int64_t>(static_cast<const std::string*>(user)->size()); };
  reader.read = [](void* user, uint64_t offset, void* buffer, uint64_t n) {
    std::memcpy(buffer, static_cast<const std::string*>(user)->data() + offset, n);
    return 0;
  };
  // Opening has many allocations, most of them for the vocabulary.
  expect_survives("open_reader", 53, [&](tessera_error* error) {
    tessera_model* model = nullptr;
    const tessera_status status = tessera_model_open_reader(runtime.get(), &reader, "a story", nullptr, &model, error);
    tessera_model_release(model);
    return status;
  });
  const ModelHandle model = open_story(runtime.get());
  const std::string lora = write_lora(story_model(), "failing.gguf", 4, 8, 1);
  expect_survives("adapter", 3, [&](tessera_error* error) {
    tessera_adapter* adapter = nullptr;
    tessera_status status = tessera_adapter_open_lora(model.get(), lora.c_str(), &adapter, error);
    if (status == TESSERA_OK) status = tessera_adapter_load(adapter, error);
    tessera_adapter_release(adapter);
    return status;
  });
  expect_survives("embed", 7, [&](tessera_error* error) {
    const char* const texts[] = {"Once upon a time", "a dog"};
    const auto visit = [](void*, uint64_t, const float*, uint64_t) { return 0; };
    return tessera_embed(model.get(), texts, nullptr, 2, nullptr, visit, nullptr, nullptr, error);
  });
  expect_survives("value", 1, [&](tessera_error* error) {
    static char buffer[1 << 16];
    return tessera_model_key(model.get(), "tokenizer.ggml.tokens", buffer, sizeof buffer, nullptr, error);
  });
  const SessionHandle session = create_session_handle(model.get());
  const int32_t tokens[] = {1, 5, 9};
  EXPECT_SUCCESS(tessera_session_append(session.get(), 0, tokens, 3, 0, nullptr, error));
  const std::string path = temporary_path("failing.state");
  expect_survives("state", 1, [&](tessera_error* error) {
    tessera_status status = tessera_sequence_save_file(session.get(), 0, path.c_str(), error);
    if (status == TESSERA_OK) status = tessera_sequence_restore_file(session.get(), 0, path.c_str(), error);
    int32_t last = 0;
    EXPECT_EQ(tessera_sequence_range(session.get(), 0, nullptr, &last, nullptr), TESSERA_OK);
    EXPECT_EQ(last, 2);
    return status;
  });
  expect_survives("steps", 1, [&](tessera_error* error) {
    const int64_t left = n_until_failure.exchange(-1);
    const SamplerHandle sampler = create_greedy(model.get());
    n_until_failure = left;
    tessera_sampler_step step;
    tessera_sampler_step_init(&step, sizeof step);
    step.apply = [](void*, tessera_token_logit*, uint64_t) { return 0; };
    const tessera_token_bias bias = {7, 1};
    tessera_status status = tessera_sampler_add(sampler.get(), &step, error);
    if (status == TESSERA_OK) status = tessera_sampler_set_bias(sampler.get(), &bias, 1, error);
    static const float logits[512] = {};
    int32_t token = -1;
    if (status == TESSERA_OK) status = tessera_sampler_sample(sampler.get(), logits, 512, &token, error);
    return status;
  });
}

// Chats, and generation in one call.
TEST(CapiFailingAllocations, AreStatusesOfChats) {
  const RuntimeHandle runtime = create_runtime_handle(1);
  const ModelHandle model = open_story(runtime.get());
  constexpr const char* kTalk = R"([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}])";
  constexpr const char* kTools = R"([{"type": "function", "function": {"name": "ping", "parameters": {}}}])";
  tessera_template* chat_template = nullptr;
  EXPECT_SUCCESS(tessera_template_open(model.get(), "chatml", -1, 0, &chat_template, error));
  const std::unique_ptr<tessera_template, decltype(&tessera_template_release)> keeper(chat_template,
                                                                                      tessera_template_release);
  expect_survives("template", 7, [&](tessera_error* error) {
    tessera_template* opened = nullptr;
    const tessera_status status = tessera_template_open(model.get(), "chatml", -1, 0, &opened, error);
    tessera_template_release(opened);
    return status;
  });
  tessera_render_options render;
  tessera_render_options_init(&render, sizeof render);
  render.tools = kTools;
  expect_survives("render", 1, [&](tessera_error* error) {
    char text[512];
    uint64_t n = 0;
    return tessera_template_render(chat_template, kTalk, -1, &render, text, sizeof text, &n, nullptr, error);
  });
  expect_survives("tokens of a chat", 1, [&](tessera_error* error) {
    int32_t ids[512];
    uint64_t n = 0;
    return tessera_template_tokenize(chat_template, kTalk, -1, &render, ids, 512, &n, error);
  });
  tessera_reply_options parse;
  tessera_reply_options_init(&parse, sizeof parse);
  parse.tools = kTools;
  parse.end = TESSERA_REPLY_ENDED;
  expect_survives("reply", 1, [&](tessera_error* error) {
    char text[512];
    constexpr const char* kReply = "<think>R</think>A {\"tool_calls\": [{\"name\": \"ping\", \"arguments\": {}}]}";
    return tessera_reply_parse(chat_template, kReply, -1, &parse, text, sizeof text, nullptr, error);
  });
  const SessionHandle session = create_session_handle(model.get());
  expect_survives("generate", 1, [&](tessera_error* error) {
    const int64_t left = n_until_failure.exchange(-1);
    const SamplerHandle sampler = create_greedy(model.get());
    tessera_generation_options options;
    tessera_generation_options_init(&options, sizeof options);
    options.n_predict = 3;
    n_until_failure = left;
    const auto go_on = [](void*, const tessera_generated*) { return 0; };
    return tessera_generate_text(session.get(), sampler.get(), 0, &options, "Once upon", -1, 0, go_on, nullptr, nullptr,
                                 error);
  });
}

TEST(CapiFailingAllocations, OfFilesAndMeasurementsAreStatuses) {
  const RuntimeHandle runtime = create_runtime_handle(2);
  const ModelHandle model = open_story(runtime.get());
  const std::string in = story_model(), folder = fresh_folder("failing-files"), out = folder + "/out.gguf";
  const std::string matrix = folder + "/imatrix.gguf";
  const std::string text = read_all(story_text()).substr(0, 400);
  auto quantize = made(tessera_quantize_options_init);
  quantize.type = "Q4_0";
  // A failed call leaves no output. The check itself needs its allocations.
  const auto leaves_nothing = [&](tessera_status status) {
    const int64_t left = n_until_failure.exchange(-1);
    EXPECT_EQ(std::filesystem::exists(out), status == TESSERA_OK);
    std::filesystem::remove(out);
    n_until_failure = left;
    return status;
  };
  expect_survives("quantize", 5, [&](tessera_error* error) {
    return leaves_nothing(
        tessera_quantize(runtime.get(), in.c_str(), out.c_str(), &quantize, nullptr, nullptr, nullptr, nullptr, error));
  });
  expect_survives("verify", 5, [&](tessera_error* error) {
    return tessera_verify(runtime.get(), in.c_str(), nullptr, nullptr, nullptr, nullptr, nullptr, error);
  });
  auto imatrix = made(tessera_imatrix_options_init);
  imatrix.n_ctx = 16;
  imatrix.n_chunks = 2;
  expect_survives("imatrix", 31, [&](tessera_error* error) {
    return tessera_imatrix_collect(model.get(), text.c_str(), -1, matrix.c_str(), &imatrix, nullptr, nullptr, nullptr,
                                   nullptr, error);
  });
  auto perplexity = made(tessera_perplexity_options_init);
  perplexity.n_ctx = 16;
  perplexity.n_chunks = 2;
  auto measured = sized<tessera_perplexity_info>();
  expect_survives("perplexity", 31, [&](tessera_error* error) {
    return tessera_perplexity(model.get(), text.c_str(), -1, &perplexity, nullptr, nullptr, nullptr, &measured, error);
  });
  const SessionHandle session = create_session_handle(model.get());
  auto cost = sized<tessera_step_cost_info>();
  expect_survives("step cost", 7,
                  [&](tessera_error* error) { return tessera_session_step_cost(session.get(), 4, 1, &cost, error); });
  EXPECT_EQ(names_in(folder), std::vector<std::string>{"imatrix.gguf"});
}

TEST(CapiFailingAllocations, OfConversionsAreStatuses) {
  const RuntimeHandle runtime = create_runtime_handle(2);
  const std::string hub = hub_llama().write("failing.hub"), folder = fresh_folder("failing-conversions");
  const std::string in = story_model(), out = folder + "/out.gguf", parts = folder + "/part";
  const auto leaves_nothing = [&](tessera_status status) {
    const WorkingAllocations working;
    EXPECT_EQ(names_in(folder).empty(), status != TESSERA_OK) << ::testing::PrintToString(names_in(folder));
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    return status;
  };
  auto mix = made(tessera_quantize_options_init);
  mix.type = "Q4_0";
  auto convert = made(tessera_convert_options_init);
  convert.mix = &mix;
  expect_survives("convert", 3, [&](tessera_error* error) {
    return leaves_nothing(
        tessera_convert(runtime.get(), hub.c_str(), out.c_str(), &convert, nullptr, nullptr, nullptr, nullptr, error));
  });
  auto split = made(tessera_split_options_init);
  split.max_file_tensors = 20;
  expect_survives("split", 3, [&](tessera_error* error) {
    return leaves_nothing(tessera_split(in.c_str(), parts.c_str(), &split, nullptr, nullptr, nullptr, nullptr, error));
  });
  const std::string to_merge = fresh_folder("failing-merge"), prefix = to_merge + "/part";
  EXPECT_SUCCESS(tessera_split(in.c_str(), prefix.c_str(), &split, nullptr, nullptr, nullptr, nullptr, error));
  const std::string first = to_merge + "/" + names_in(to_merge).front();
  expect_survives("merge", 1, [&](tessera_error* error) {
    return leaves_nothing(
        tessera_merge(first.c_str(), out.c_str(), nullptr, nullptr, nullptr, nullptr, nullptr, error));
  });
}

TEST(CapiFailingAllocations, OfWeightsThatAreReadAndChecked) {
  const RuntimeHandle runtime = create_runtime_handle(2);
  auto options = made(tessera_model_options_init);
  options.load_mode = TESSERA_LOAD_READ;
  options.flags = TESSERA_MODEL_CHECK_TENSORS;
  expect_survives("read", 1, [&](tessera_error* error) {
    const int64_t left = n_until_failure.exchange(-1);
    tessera_model* model = nullptr;
    EXPECT_SUCCESS(tessera_model_open(runtime.get(), story_model().c_str(), &options, &model, error));
    n_until_failure = left;
    const tessera_status status = tessera_model_load(model, nullptr, nullptr, nullptr, error);
    tessera_model_release(model);
    return status;
  });
}

}  // namespace
}  // namespace tessera
