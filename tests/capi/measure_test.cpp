// Measurements by tessera.h: perplexity and importance matrices as the commands compute them, and the cost of a step.
#include <cmath>
#include <cstdlib>

#include "tessera/capi/objects.h"
#include "tests/capi/files_support.h"

namespace tessera {
namespace {

using namespace testing;

// The number behind "name": in JSON.
double number_in(const std::string& json, const std::string& name) {
  const size_t at = json.find('"' + name + "\": ");
  EXPECT_NE(at, std::string::npos) << name << " in " << json;
  return at == std::string::npos ? 0 : std::strtod(json.c_str() + at + name.size() + 4, nullptr);
}

class CapiMeasure : public ::testing::Test {
 protected:
  void SetUp() override {
    text_ = read_all(story_text()).substr(0, 4000);
    file_ = write_temporary("measure.txt", text_);
    folder_ = fresh_folder(::testing::UnitTest::GetInstance()->current_test_info()->name());
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  tessera_status perplexity(const tessera_perplexity_options& options, tessera_perplexity_info* info,
                            tessera_error* error) const {
    return tessera_perplexity(model_.get(), text_.c_str(), -1, &options, nullptr, nullptr, nullptr, info, error);
  }
  tessera_status imatrix(const tessera_imatrix_options& options, const std::string& output, tessera_error* error,
                         tessera_imatrix_info* info = nullptr) const {
    return tessera_imatrix_collect(model_.get(), text_.c_str(), -1, output.c_str(), &options, nullptr, nullptr, nullptr,
                                   info, error);
  }

  RuntimeHandle runtime_ = create_runtime_handle();
  ModelHandle model_ = open_story(runtime_.get());
  tessera_perplexity_options options_ = made(tessera_perplexity_options_init);
  tessera_imatrix_options imatrix_options_ = made(tessera_imatrix_options_init);
  std::string text_, file_, folder_;
};

TEST_F(CapiMeasure, PerplexityIsThatOfTheCommand) {
  options_.n_ctx = 64;
  auto info = sized<tessera_perplexity_info>();
  const auto expect_same = [&](std::vector<std::string> flags) {
    EXPECT_SUCCESS(perplexity(options_, &info, error));
    flags.insert(flags.begin(), {"perplexity", "-m", story_model(), "-f", file_, "-c", "64", "--json", "-q"});
    const auto output = run_program(flags);
    ASSERT_EQ(output.status, 0) << output.err;
    EXPECT_EQ(info.perplexity, number_in(output.out, "ppl"));
    EXPECT_EQ(info.perplexity_error, number_in(output.out, "error"));
    EXPECT_EQ(static_cast<double>(info.n_tokens), number_in(output.out, "tokens"));
    EXPECT_EQ(static_cast<double>(info.n_chunks), number_in(output.out, "chunks"));
    EXPECT_EQ(info.perplexity, std::exp(info.mean_nll));
    EXPECT_EQ(info.perplexity_error, info.mean_nll_error * info.perplexity);
    EXPECT_GT(info.mean_nll_error, 0);
  };
  expect_same({});
  options_.n_chunks = 3;
  expect_same({"--chunks", "3"});
  EXPECT_EQ(info.n_chunks, 3);
  EXPECT_EQ(info.n_tokens, 3 * 31);
  options_.stride = 17;
  expect_same({"--chunks", "3", "--ppl-stride", "17"});
  options_.stride = 0;
  options_.flags = TESSERA_PERPLEXITY_F32_ACTIVATIONS;
  auto session = made(tessera_session_options_init);
  session.type_k = TESSERA_CACHE_BF16;
  session.n_ubatch = 16;
  options_.session = &session;
  expect_same({"--chunks", "3", "--reference-activations", "-ctk", "bf16", "-ub", "16"});
}

TEST_F(CapiMeasure, PerplexityOfTokensIsThatOfTheirText) {
  options_.n_ctx = 64;
  auto of_text = sized<tessera_perplexity_info>(), of_tokens = of_text;
  Shares shares;
  EXPECT_SUCCESS(tessera_perplexity(model_.get(), text_.data(), static_cast<int64_t>(text_.size()), &options_,
                                    Shares::note, &shares, nullptr, &of_text, error));
  EXPECT_TRUE(shares.is_complete());
  const std::vector<int32_t> tokens = tokens_of(model_.get(), text_);
  const auto measure = [&](const int32_t* ids, uint64_t n, tessera_error* error) {
    return tessera_perplexity_of_tokens(model_.get(), ids, n, &options_, nullptr, nullptr, nullptr, &of_tokens, error);
  };
  EXPECT_SUCCESS(measure(tokens.data(), tokens.size(), error));
  EXPECT_EQ(of_tokens.perplexity, of_text.perplexity);
  EXPECT_EQ(of_tokens.n_tokens, of_text.n_tokens);
  EXPECT_STATUS(measure(nullptr, 1, error), TESSERA_INVALID_ARGUMENT, "tokens: is NULL");
  EXPECT_STATUS(measure(nullptr, 0, error), TESSERA_LIMIT, "text of 0 tokens");
  EXPECT_STATUS(measure(tokens.data(), uint64_t{1} << 40, error), TESSERA_INVALID_ARGUMENT, "tokens: ");
  const std::vector<int32_t> wrong(200, 512);
  EXPECT_STATUS(measure(wrong.data(), wrong.size(), error), TESSERA_MISMATCH, "token 0 is 512");
}

TEST_F(CapiMeasure, PerplexityStopsAndRefusesWrongArguments) {
  options_.n_ctx = 64;
  auto info = sized<tessera_perplexity_info>();
  Shares shares{.values = {}, .stop_at = 1};
  EXPECT_STATUS(
      tessera_perplexity(model_.get(), text_.c_str(), -1, &options_, Shares::note, &shares, nullptr, &info, error),
      TESSERA_CANCELLED, "stopped after chunk ");
  const CancelHandle cancel = create_cancel_handle(true);
  EXPECT_STATUS(
      tessera_perplexity(model_.get(), text_.c_str(), -1, &options_, nullptr, nullptr, cancel.get(), &info, error),
      TESSERA_CANCELLED, "");
  const auto call = [&](tessera_model* model, const char* text, int64_t length, tessera_cancel* stop,
                        tessera_perplexity_info* into, tessera_error* error) {
    return tessera_perplexity(model, text, length, &options_, nullptr, nullptr, stop, into, error);
  };
  tessera_model* const m = model_.get();
  const char* const t = text_.c_str();
  EXPECT_STATUS(call(nullptr, t, -1, nullptr, &info, error), TESSERA_INVALID_ARGUMENT, "model: is NULL");
  EXPECT_STATUS(call(as_other<tessera_model>(cancel.get()), t, -1, nullptr, &info, error), TESSERA_INVALID_ARGUMENT,
                "model: is a handle of another kind");
  EXPECT_STATUS(call(m, nullptr, -1, nullptr, &info, error), TESSERA_INVALID_ARGUMENT, "text: is NULL");
  EXPECT_STATUS(call(m, t, -2, nullptr, &info, error), TESSERA_INVALID_ARGUMENT, "text: length -2");
  EXPECT_STATUS(call(m, t, 20, nullptr, &info, error), TESSERA_LIMIT, "want at least 128: two chunks of 64");
  EXPECT_STATUS(call(m, "\xff", -1, nullptr, &info, error), TESSERA_FORMAT, "not UTF-8");
  EXPECT_STATUS(call(m, t, -1, reinterpret_cast<tessera_cancel*>(m), &info, error), TESSERA_INVALID_ARGUMENT,
                "cancel: is a handle of another kind");
  EXPECT_STATUS(call(m, t, -1, nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT, "info: is NULL");
  tessera_perplexity_info unset{};
  EXPECT_STATUS(call(m, t, -1, nullptr, &unset, error), TESSERA_INVALID_ARGUMENT, "info: size is 0");
  EXPECT_STATUS(tessera_perplexity(m, t, 40, nullptr, nullptr, nullptr, nullptr, &info, error), TESSERA_LIMIT,
                "two chunks of 512");
  const ModelHandle unloaded = open_story(runtime_.get(), false);
  EXPECT_STATUS(call(unloaded.get(), t, -1, nullptr, &info, error), TESSERA_INVALID_ARGUMENT,
                "model: call tessera_model_load() first");
}

TEST_F(CapiMeasure, PerplexityRefusesWrongOptions) {
  auto info = sized<tessera_perplexity_info>();
  const auto expect_refused = [&](auto&& change, const std::string& text) {
    auto options = made(tessera_perplexity_options_init);
    options.n_ctx = 64;
    change(options);
    EXPECT_STATUS(perplexity(options, &info, error), TESSERA_INVALID_ARGUMENT, text);
  };
  expect_refused([](auto& o) { o.flags = 2; }, "flags: 0x2, known are 0x1");
  expect_refused([](auto& o) { o.n_ctx = -1; }, "n_ctx: -1, want 0 or more");
  expect_refused([](auto& o) { o.n_ctx = 3; }, "chunks of 3 tokens, want 4 to ");
  expect_refused([](auto& o) { o.n_ctx = INT64_MAX; }, "chunks of ");
  expect_refused([](auto& o) { o.stride = -1; }, "stride: -1, want 0 or more");
  expect_refused([](auto& o) { o.stride = INT64_MAX; }, "");
  expect_refused([](auto& o) { o.n_chunks = -1; }, "n_chunks: -1, want 0 or more");
  expect_refused([](auto& o) { o.size = 2; }, "options: size is 2");
  auto session = made(tessera_session_options_init);
  session.flags = TESSERA_SESSION_EMBEDDINGS;
  expect_refused([&](auto& o) { o.session = &session; }, "session: TESSERA_SESSION_EMBEDDINGS: logits are needed");
  session.flags = 0;
  session.n_ubatch = -1;
  expect_refused([&](auto& o) { o.session = &session; }, "");
}

TEST_F(CapiMeasure, ImatrixIsThatOfTheCommand) {
  imatrix_options_.n_ctx = 32;
  imatrix_options_.n_chunks = 5;
  imatrix_options_.text_name = file_.c_str();
  auto info = sized<tessera_imatrix_info>();
  const auto expect_same = [&](const std::string& suffix, std::vector<std::string> flags) {
    const std::string ours = path("ours." + suffix), theirs = path("theirs." + suffix);
    EXPECT_SUCCESS(imatrix(imatrix_options_, ours, error, &info));
    flags.insert(flags.begin(), {"imatrix", "-m", story_model(), "-f", file_, "-c", "32", "-o", theirs});
    const auto output = run_program(flags);
    ASSERT_EQ(output.status, 0) << output.err;
    EXPECT_TRUE(read_all(ours) == read_all(theirs));
  };
  expect_same("gguf", {"--chunks", "5"});
  EXPECT_EQ(info.n_chunks, 5u);
  EXPECT_EQ(info.n_weights, 35u);
  EXPECT_EQ(info.n_scored, 5 * 15);
  EXPECT_GT(info.perplexity, 1);
  EXPECT_GT(info.perplexity_error, 0);
  const std::string plain = read_all(path("ours.gguf"));
  imatrix_options_.flags = TESSERA_IMATRIX_OUTPUT_WEIGHT | TESSERA_IMATRIX_NO_PERPLEXITY;
  imatrix_options_.n_skip = 2;
  imatrix_options_.snapshot_every = 2;
  expect_same("gguf", {"--chunks", "5", "--chunk", "2", "--process-output", "--no-ppl", "--save-frequency", "2"});
  EXPECT_EQ(info.n_scored, 0);
  EXPECT_NE(read_all(path("ours.gguf")), plain);
  EXPECT_TRUE(std::filesystem::exists(path("ours.gguf.at_2")));
  EXPECT_TRUE(std::filesystem::exists(path("ours.gguf.at_4")));
  imatrix_options_.flags = 0;
  imatrix_options_.n_skip = 0;
  imatrix_options_.snapshot_every = 0;
  expect_same("dat", {"--chunks", "5"});
  imatrix_options_.flags = TESSERA_IMATRIX_DAT;
  expect_same("any", {"--chunks", "5", "--output-format", "dat"});
  EXPECT_TRUE(read_all(path("ours.any")) == read_all(path("ours.dat")));
}

TEST_F(CapiMeasure, ImatrixResumesAndMerges) {
  imatrix_options_.n_ctx = 32;
  imatrix_options_.n_chunks = 6;
  imatrix_options_.save_every = 2;
  auto session = made(tessera_session_options_init);
  session.n_ubatch = 32;
  imatrix_options_.session = &session;
  const std::string whole = path("whole.gguf"), parts = path("parts.gguf");
  EXPECT_SUCCESS(imatrix(imatrix_options_, whole, error));
  Shares shares{.values = {}, .stop_at = 3};
  EXPECT_STATUS(tessera_imatrix_collect(model_.get(), text_.c_str(), -1, parts.c_str(), &imatrix_options_, Shares::note,
                                        &shares, nullptr, nullptr, error),
                TESSERA_CANCELLED, "stopped after chunk 3 of 6");
  imatrix_options_.flags = TESSERA_IMATRIX_RESUME;
  shares = {};
  auto info = sized<tessera_imatrix_info>();
  EXPECT_SUCCESS(tessera_imatrix_collect(model_.get(), text_.c_str(), -1, parts.c_str(), &imatrix_options_,
                                         Shares::note, &shares, nullptr, &info, error));
  EXPECT_EQ(shares.values.size(), 4u);  // two chunks were saved
  EXPECT_TRUE(shares.is_complete());
  EXPECT_EQ(info.n_chunks, 6u);
  imatrix_options_.text_name = "another";
  EXPECT_STATUS(imatrix(imatrix_options_, parts, error), TESSERA_MISMATCH, "cannot continue with 32 of another");

  const char* const files[] = {whole.c_str(), parts.c_str()};
  auto merging = made(tessera_imatrix_options_init);
  merging.merged = files;
  merging.n_merged = 2;
  const auto merge = [&](tessera_model* model, const char* text, const std::string& output, tessera_error* error) {
    return tessera_imatrix_collect(model, text, -1, output.c_str(), &merging, nullptr, nullptr, nullptr, &info, error);
  };
  EXPECT_SUCCESS(merge(nullptr, nullptr, path("ours.gguf"), error));
  EXPECT_EQ(info.n_chunks, 12u);
  EXPECT_EQ(info.n_scored, 0);
  ASSERT_EQ(run_program({"imatrix", "--in-file", whole, "--in-file", parts, "-o", path("theirs.gguf")}).status, 0);
  EXPECT_TRUE(read_all(path("ours.gguf")) == read_all(path("theirs.gguf")));
  merging.n_ctx = 32;
  merging.n_chunks = 2;
  EXPECT_SUCCESS(merge(model_.get(), text_.c_str(), path("more.gguf"), error));
  EXPECT_EQ(info.n_chunks, 14u);
  merging.flags = TESSERA_IMATRIX_RESUME;
  EXPECT_STATUS(merge(nullptr, nullptr, path("no.gguf"), error), TESSERA_INVALID_ARGUMENT,
                "TESSERA_IMATRIX_RESUME and merged: set one of them");
  merging.flags = 0;
  const char* const none[] = {nullptr};
  merging.merged = none;
  merging.n_merged = 1;
  EXPECT_STATUS(merge(nullptr, nullptr, path("no.gguf"), error), TESSERA_INVALID_ARGUMENT, "merged: is NULL");
  merging.merged = nullptr;
  EXPECT_STATUS(merge(nullptr, nullptr, path("no.gguf"), error), TESSERA_INVALID_ARGUMENT, "merged: is NULL");
  EXPECT_FALSE(std::filesystem::exists(path("no.gguf")));
}

TEST_F(CapiMeasure, ImatrixIsSavedEveryTenChunks) {
  imatrix_options_.n_ctx = 16;
  imatrix_options_.n_chunks = 12;
  Shares shares{.values = {}, .stop_at = 1};
  EXPECT_STATUS(tessera_imatrix_collect(model_.get(), text_.c_str(), -1, path("m.gguf").c_str(), &imatrix_options_,
                                        Shares::note, &shares, nullptr, nullptr, error),
                TESSERA_CANCELLED, "stopped after chunk 10 of 12");
  EXPECT_EQ(names_in(folder_), std::vector<std::string>{"m.gguf"});
}

TEST_F(CapiMeasure, ImatrixRefusesWrongArguments) {
  const std::string out = path("out.gguf");
  const CancelHandle cancel = create_cancel_handle(true);
  imatrix_options_.n_ctx = 32;
  const auto call = [&](tessera_model* model, const char* text, const char* output, tessera_cancel* stop,
                        tessera_imatrix_info* info, tessera_error* error) {
    return tessera_imatrix_collect(model, text, -1, output, &imatrix_options_, nullptr, nullptr, stop, info, error);
  };
  tessera_model* const m = model_.get();
  const char *const t = text_.c_str(), *const o = out.c_str();
  EXPECT_STATUS(call(m, t, o, cancel.get(), nullptr, error), TESSERA_CANCELLED, "");
  EXPECT_STATUS(call(nullptr, t, o, nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT, "model: is NULL");
  EXPECT_STATUS(call(nullptr, nullptr, o, nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT, "model: is NULL");
  EXPECT_STATUS(call(as_other<tessera_model>(cancel.get()), t, o, nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "model: is a handle of another kind");
  EXPECT_STATUS(call(m, nullptr, o, nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT, "text: is NULL");
  EXPECT_STATUS(call(m, t, nullptr, nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT, "output: is NULL");
  EXPECT_STATUS(call(m, t, "/nowhere/o", nullptr, nullptr, error), TESSERA_NOT_FOUND, "/nowhere/");
  EXPECT_STATUS(call(m, t, o, reinterpret_cast<tessera_cancel*>(m), nullptr, error), TESSERA_INVALID_ARGUMENT,
                "cancel: is a handle of another kind");
  tessera_imatrix_info unset{};
  EXPECT_STATUS(call(m, t, o, nullptr, &unset, error), TESSERA_INVALID_ARGUMENT, "info: size is 0");
  EXPECT_STATUS(call(m, "short", o, nullptr, nullptr, error), TESSERA_LIMIT, "two chunks of 32");
  const auto usual = made(tessera_imatrix_options_init);
  EXPECT_STATUS(tessera_imatrix_collect(m, "short", -1, o, &usual, nullptr, nullptr, nullptr, nullptr, error),
                TESSERA_LIMIT, "two chunks of 512");
  EXPECT_STATUS(call(open_story(runtime_.get(), false).get(), t, o, nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "model: call tessera_model_load() first");
  const auto expect_refused = [&](auto&& change, const std::string& text) {
    auto options = made(tessera_imatrix_options_init);
    options.n_ctx = 32;
    change(options);
    EXPECT_STATUS(imatrix(options, out, error), TESSERA_INVALID_ARGUMENT, text);
  };
  expect_refused([](auto& of) { of.flags = 16; }, "flags: 0x10, known are 0xf");
  expect_refused([](auto& of) { of.n_ctx = -1; }, "n_ctx: -1");
  expect_refused([](auto& of) { of.n_chunks = -1; }, "n_chunks: -1");
  expect_refused([](auto& of) { of.n_skip = -1; }, "n_skip: -1");
  expect_refused([](auto& of) { of.save_every = -1; }, "save_every: -1");
  expect_refused([](auto& of) { of.snapshot_every = -1; }, "snapshot_every: -1");
  expect_refused([](auto& of) { of.flags = TESSERA_IMATRIX_DAT | TESSERA_IMATRIX_RESUME; },
                 "the dat format does not record the progress");
  expect_refused([](auto& of) { of.size = 2; }, "options: size is 2");
  EXPECT_TRUE(names_in(folder_).empty());
  // The model stays as it is.
  const std::string copy = write_temporary("imatrix-model.gguf", read_all(story_model()));
  tessera_model* model = nullptr;
  EXPECT_SUCCESS(tessera_model_open(runtime_.get(), copy.c_str(), nullptr, &model, error));
  const ModelHandle owner(model, tessera_model_release);
  EXPECT_SUCCESS(tessera_model_load(model, nullptr, nullptr, nullptr, error));
  EXPECT_STATUS(call(model, t, copy.c_str(), nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT, "is the input, ");
  EXPECT_TRUE(read_all(copy) == read_all(story_model()));
}

TEST_F(CapiMeasure, StepCostIsThatOfTheSession) {
  auto options = made(tessera_session_options_init);
  options.n_ctx = 64;
  options.n_ubatch = 16;
  options.n_outputs = 4;
  const SessionHandle session = create_session_handle(model_.get(), &options);
  auto info = sized<tessera_step_cost_info>();
  EXPECT_SUCCESS(tessera_session_step_cost(session.get(), 16, 4, &info, error));
  const auto want = session->session->step_cost(16, 4);
  ASSERT_OK(want);
  EXPECT_EQ(info.macs, want->macs);
  EXPECT_EQ(info.int8_macs, want->int8_macs);
  EXPECT_EQ(info.weight_bytes, want->weight_bytes);
  EXPECT_EQ(info.macs_per_pair, want->macs_per_pair);
  EXPECT_EQ(info.kv_bytes_per_position, want->kv_bytes_per_position);
  EXPECT_GT(info.macs, 16 * 200'000);
  const double macs = info.macs;
  EXPECT_SUCCESS(tessera_session_step_cost(session.get(), 1, 0, &info, error));
  EXPECT_LT(info.macs, macs / 15);
  const auto expect_refused = [&](int64_t n_tokens, int64_t n_outputs, const std::string& text) {
    EXPECT_STATUS(tessera_session_step_cost(session.get(), n_tokens, n_outputs, &info, error), TESSERA_INVALID_ARGUMENT,
                  text);
  };
  expect_refused(0, 0, "n_tokens: 0, want 1 to 16");
  expect_refused(-1, 0, "n_tokens: -1, want 1 to 16");
  expect_refused(17, 0, "n_tokens: 17, want 1 to 16");
  expect_refused(16, -1, "n_outputs: -1, want 0 to 4");
  expect_refused(16, 5, "n_outputs: 5, want 0 to 4");
  expect_refused(3, 4, "n_outputs: 4, want 0 to 3");
  EXPECT_STATUS(tessera_session_step_cost(nullptr, 1, 1, &info, error), TESSERA_INVALID_ARGUMENT, "session: is NULL");
  EXPECT_STATUS(tessera_session_step_cost(reinterpret_cast<tessera_session*>(model_.get()), 1, 1, &info, error),
                TESSERA_INVALID_ARGUMENT, "session: is a handle of another kind");
  EXPECT_STATUS(tessera_session_step_cost(session.get(), 1, 1, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "info: is NULL");
  info.size = 0;
  EXPECT_STATUS(tessera_session_step_cost(session.get(), 1, 1, &info, error), TESSERA_INVALID_ARGUMENT,
                "info: size is 0");
}

}  // namespace
}  // namespace tessera
