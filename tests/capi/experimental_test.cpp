// Functions of tessera_experimental.h: training gives the file of the command, and graphs describe the steps.
#include "tessera/tessera_experimental.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "tests/capi/files_support.h"

namespace tessera {
namespace {

using namespace testing;
using nlohmann::json;

class CapiTrain : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder(::testing::UnitTest::GetInstance()->current_test_info()->name());
    text_ = write_temporary("train.txt", read_all(story_text()).substr(0, 3000));
    texts_ = {text_.c_str()};
    options_.texts = texts_.data();
    options_.n_texts = 1;
    options_.n_ctx = 16;
    options_.n_batch = 2;
    options_.n_steps = 3;
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  tessera_status train(const std::string& output, tessera_error* error) const {
    return tessera_train(runtime_.get(), story_model().c_str(), output.c_str(), &options_, nullptr, nullptr, nullptr,
                         error);
  }
  void expect_same(std::vector<std::string> flags) const {
    EXPECT_SUCCESS(train(path("ours.gguf"), error));
    flags.insert(flags.begin(), {"finetune", "-m", story_model(), "-f", text_, "-o", path("theirs.gguf"), "-c", "16",
                                 "-b", "2", "--steps", "3", "-t", "2"});
    const auto output = run_program(flags);
    ASSERT_EQ(output.status, 0) << output.err;
    EXPECT_TRUE(read_all(path("ours.gguf")) == read_all(path("theirs.gguf")));
    EXPECT_NE(read_all(path("ours.gguf")), read_all(story_model()));
  }
  void expect_refused(const std::string& text, tessera_status status = TESSERA_INVALID_ARGUMENT) const {
    EXPECT_STATUS(train(path("out.gguf"), error), status, text);
    EXPECT_TRUE(names_in(folder_).empty());
  }

  RuntimeHandle runtime_ = create_runtime_handle();
  tessera_train_options options_ = made(tessera_train_options_init);
  std::vector<const char*> texts_;
  std::string folder_, text_;
};

// Events as text: "step 1", "evaluated 3", and the number of calls after which to stop.
struct Seen {
  std::vector<std::string> names;
  std::vector<tessera_train_event> events;
  size_t stop_at = 0;
  static int32_t note(void* user, const tessera_train_event* event) {
    constexpr const char* kNames[] = {"step ", "evaluated ", "saved "};
    auto& of = *static_cast<Seen*>(user);
    of.names.push_back(kNames[event->kind] + std::to_string(event->step));
    of.events.push_back(*event);
    return of.names.size() == of.stop_at ? 1 : 0;
  }
};

TEST_F(CapiTrain, FilesAreThoseOfTheCommand) {
  const auto usual = made(tessera_train_options_init);
  EXPECT_EQ(usual.n_batch, 8);
  EXPECT_EQ(usual.n_epochs, 1.0f);
  EXPECT_EQ(usual.n_warmup, -1);
  expect_same({});
  options_.lora_rank = 2;
  options_.lora_alpha = 3;
  options_.lora_targets = "attn_q,ffn_up";
  expect_same({"--lora", "--rank", "2", "--alpha", "3", "--targets", "attn_q,ffn_up"});
  options_.lora_targets = nullptr;
  options_.lora_alpha = 16;
  expect_same({"--lora", "--rank", "2"});
  options_.lora_rank = 0;
  options_.flags = TESSERA_TRAIN_BF16 | TESSERA_TRAIN_RECOMPUTE | TESSERA_TRAIN_SPECIAL;
  options_.optimizer = TESSERA_OPTIMIZER_MUON;
  options_.schedule = TESSERA_SCHEDULE_LINEAR;
  options_.layout = TESSERA_WINDOWS_WHOLE;
  options_.learning_rate = 1e-3f;
  options_.weight_decay = 0;
  options_.clip = 0.5f;
  options_.floor = 0;
  options_.n_warmup = 1;
  options_.seed = 7;
  options_.n_micro = 1;
  options_.separator = ".";
  expect_same({"--type",     "bf16",        "--recompute",
               "-sp",        "--optimizer", "muon",
               "--schedule", "linear",      "--whole-documents",
               "--lr",       "0.001",       "--weight-decay",
               "0",          "--clip",      "0.5",
               "--lr-floor", "0",           "--warmup",
               "1",          "-s",          "7",
               "-ub",        "1",           "--separator",
               "."});
}

TEST_F(CapiTrain, TellsStepsEvaluationsAndCheckpoints) {
  const std::string checkpoint = path("run.checkpoint");
  options_.checkpoint = checkpoint.c_str();
  options_.eval_share = 0.2f;
  options_.eval_every = 2;
  options_.save_every = 2;
  Seen seen;
  EXPECT_SUCCESS(tessera_train(runtime_.get(), story_model().c_str(), path("out.gguf").c_str(), &options_, Seen::note,
                               &seen, nullptr, error));
  EXPECT_EQ(seen.names, (std::vector<std::string>{"step 1", "step 2", "evaluated 2", "saved 2", "step 3", "evaluated 3",
                                                  "saved 3"}));
  for (const tessera_train_event& event : seen.events) EXPECT_EQ(event.n_steps, 3);
  EXPECT_EQ(seen.events[0].n_tokens, 32);
  EXPECT_EQ(seen.events[0].learning_rate, 2e-4f);
  EXPECT_GT(seen.events[0].loss, 0);
  EXPECT_GT(seen.events[0].gradient_norm, 0);
  EXPECT_GT(seen.events[0].seconds, 0);
  EXPECT_GT(seen.events[2].loss, 0);
  EXPECT_EQ(names_in(folder_), (std::vector<std::string>{"out.gguf", "run.checkpoint"}));
}

TEST_F(CapiTrain, StopsAndResumesToTheSameBits) {
  const std::string checkpoint = path("run.checkpoint");
  options_.checkpoint = checkpoint.c_str();
  Seen seen{.names = {}, .events = {}, .stop_at = 2};
  const auto run = [&](tessera_cancel* cancel, tessera_error* error) {
    return tessera_train(runtime_.get(), story_model().c_str(), path("parts.gguf").c_str(), &options_, Seen::note,
                         &seen, cancel, error);
  };
  EXPECT_STATUS(run(nullptr, error), TESSERA_CANCELLED, "stopped after step 2 of 3");
  EXPECT_EQ(names_in(folder_), std::vector<std::string>{"run.checkpoint"});
  EXPECT_STATUS(run(nullptr, error), TESSERA_INVALID_ARGUMENT, "a checkpoint exists");
  options_.flags = TESSERA_TRAIN_RESUME;
  seen = {};
  EXPECT_SUCCESS(run(nullptr, error));
  EXPECT_EQ(seen.names, (std::vector<std::string>{"step 3", "saved 3"}));
  options_.checkpoint = nullptr;
  options_.flags = 0;
  EXPECT_SUCCESS(train(path("whole.gguf"), error));
  EXPECT_TRUE(read_all(path("parts.gguf")) == read_all(path("whole.gguf")));
  const CancelHandle cancel = create_cancel_handle(true);
  std::filesystem::remove(path("parts.gguf"));
  EXPECT_STATUS(run(cancel.get(), error), TESSERA_CANCELLED, "");
  EXPECT_FALSE(std::filesystem::exists(path("parts.gguf")));
}

TEST_F(CapiTrain, NewModelsHaveAVocabularyOfAFile) {
  auto model = made(tessera_new_model_init);
  model.n_layers = 1;
  model.n_embd = 32;
  model.n_heads = 2;
  model.n_heads_kv = 1;
  model.n_ff = 64;
  model.name = "small";
  model.untied = 1;
  const auto call = [&](const char* vocabulary, tessera_error* error) {
    return tessera_train_new(runtime_.get(), &model, vocabulary, path("ours.gguf").c_str(), &options_, nullptr, nullptr,
                             nullptr, error);
  };
  const std::string story = story_model();
  EXPECT_SUCCESS(call(story.c_str(), error));
  const auto output = run_program({"train",
                                   "--vocab-from",
                                   story,
                                   "-f",
                                   text_,
                                   "-o",
                                   path("theirs.gguf"),
                                   "-c",
                                   "16",
                                   "-b",
                                   "2",
                                   "--steps",
                                   "3",
                                   "-t",
                                   "2",
                                   "--n-layers",
                                   "1",
                                   "--n-embd",
                                   "32",
                                   "--n-heads",
                                   "2",
                                   "--n-heads-kv",
                                   "1",
                                   "--n-ff",
                                   "64",
                                   "--model-name",
                                   "small",
                                   "--untied",
                                   "--lr",
                                   "0.0002"});
  ASSERT_EQ(output.status, 0) << output.err;
  EXPECT_TRUE(read_all(path("ours.gguf")) == read_all(path("theirs.gguf")));
  EXPECT_STATUS(call(nullptr, error), TESSERA_INVALID_ARGUMENT, "vocabulary: is NULL");
  EXPECT_STATUS(call("/none.gguf", error), TESSERA_NOT_FOUND, "/none.gguf");
  model.n_layers = -1;
  EXPECT_STATUS(call(story.c_str(), error), TESSERA_INVALID_ARGUMENT, "n_layers: -1, want 0 or more");
  model.n_layers = 1;
  model.untied = 2;
  EXPECT_STATUS(call(story.c_str(), error), TESSERA_INVALID_ARGUMENT, "untied: 2, want 0 or 1");
  model.untied = 0;
  model.architecture = "none";
  EXPECT_STATUS(call(story.c_str(), error), TESSERA_UNSUPPORTED, "none");
  model.size = 1;
  EXPECT_STATUS(call(story.c_str(), error), TESSERA_INVALID_ARGUMENT, "model: size is 1");
  model.size = sizeof model;
  options_.lora_rank = 1;
  EXPECT_STATUS(call(story.c_str(), error), TESSERA_INVALID_ARGUMENT, "lora_rank: a new model has no adapter");
  EXPECT_STATUS(tessera_train_new(nullptr, &model, story.c_str(), "x", &options_, nullptr, nullptr, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "runtime: is NULL");
  options_.lora_rank = 0;
  model.architecture = nullptr;
  EXPECT_STATUS(
      tessera_train_new(runtime_.get(), &model, story.c_str(), nullptr, &options_, nullptr, nullptr, nullptr, error),
      TESSERA_INVALID_ARGUMENT, "output: is NULL");
  EXPECT_STATUS(tessera_train_new(runtime_.get(), &model, story.c_str(), "x", &options_, nullptr, nullptr,
                                  reinterpret_cast<tessera_cancel*>(runtime_.get()), error),
                TESSERA_INVALID_ARGUMENT, "cancel: is a handle of another kind");
}

TEST_F(CapiTrain, RefusesWrongOptions) {
  const tessera_train_options good = options_;
  const auto expect = [&](auto&& change, const std::string& text) {
    options_ = good;
    change(options_);
    expect_refused(text);
  };
  expect([](auto& o) { o.flags = 16; }, "flags: 0x10, known are 0xf");
  expect([](auto& o) { o.n_texts = 0; }, "texts: there are none");
  expect([](auto& o) { o.texts = nullptr; }, "texts: is NULL");
  expect([](auto& o) { o.layout = 3; }, "layout: 3, want 0 to 2");
  expect([](auto& o) { o.schedule = -1; }, "schedule: -1, want 0 to 2");
  expect([](auto& o) { o.optimizer = 3; }, "optimizer: 3, want 0 to 2");
  expect([](auto& o) { o.n_threads = -1; }, "n_threads: -1");
  expect([](auto& o) { o.n_ctx = -1; }, "n_ctx: -1, want 0 to ");
  expect([](auto& o) { o.n_batch = 0; }, "n_batch: 0, want 1 to 1048576");
  expect([](auto& o) { o.n_micro = -1; }, "n_micro: -1, want 0 to ");
  expect([](auto& o) { o.n_steps = -1; }, "n_steps: -1, want 0 to ");
  expect([](auto& o) { o.n_warmup = -2; }, "n_warmup: -2, want -1 to ");
  expect([](auto& o) { o.n_warmup = 4; }, "n_warmup: 4, there are 3 steps");
  expect([](auto& o) { o.n_epochs = 0; }, "n_epochs: 0, want 1e-06 to ");
  expect([](auto& o) { o.learning_rate = std::numeric_limits<float>::quiet_NaN(); }, "learning_rate: nan, want 0 to ");
  expect([](auto& o) { o.floor = 1.5f; }, "floor: 1.5, want 0 to 1");
  expect([](auto& o) { o.clip = -1; }, "clip: -1, want 0 to ");
  expect([](auto& o) { o.weight_decay = -1; }, "weight_decay: -1, want 0 to ");
  expect([](auto& o) { o.eval_share = 0.75f; }, "eval_share: 0.75, want 0 to 0.5");
  expect([](auto& o) { o.eval_every = -1; }, "eval_every: -1, want 0 to ");
  expect([](auto& o) { o.eval_every = 1; }, "eval_every requires eval_share");
  expect([](auto& o) { o.save_every = 1; }, "TESSERA_TRAIN_RESUME, save_every and n_keep require checkpoint");
  expect([](auto& o) { o.n_keep = 1; }, "require checkpoint");
  expect([](auto& o) { o.flags = TESSERA_TRAIN_RESUME; }, "require checkpoint");
  expect([](auto& o) { o.n_keep = 1001; }, "n_keep: 1001, want 0 to 1000");
  expect([](auto& o) { o.seed = -1; }, "seed: -1, want 0 to ");
  expect([](auto& o) { o.lora_rank = -1; }, "lora_rank: -1, want 0 to 4096");
  expect([](auto& o) { o.lora_alpha = 0; }, "lora_alpha: 0, want 1e-06 to ");
  expect(
      [](auto& o) {
        o.lora_rank = 1;
        o.flags = TESSERA_TRAIN_BF16;
      },
      "TESSERA_TRAIN_BF16: an adapter is trained and written in F32");
  expect([](auto& o) { o.size = 1; }, "options: size is 1");
  options_ = good;
  options_.lora_rank = 1;
  options_.lora_targets = "none";
  expect_refused("none", TESSERA_NOT_FOUND);
  options_ = good;
  options_.n_ctx = 4096;
  expect_refused("", TESSERA_LIMIT);  // a text of less than a window
  options_ = good;
  const std::string none = path("none.checkpoint");
  options_.checkpoint = none.c_str();
  options_.flags = TESSERA_TRAIN_RESUME;
  expect_refused("no checkpoint to resume from", TESSERA_NOT_FOUND);
}

TEST_F(CapiTrain, RefusesWrongArguments) {
  const std::string to = path("out.gguf"), story = story_model();
  const auto call = [&](tessera_runtime* runtime, const char* input, const char* output, tessera_cancel* cancel,
                        tessera_error* error) {
    return tessera_train(runtime, input, output, &options_, nullptr, nullptr, cancel, error);
  };
  tessera_runtime* const r = runtime_.get();
  const CancelHandle cancel = create_cancel_handle();
  EXPECT_STATUS(call(nullptr, story.c_str(), to.c_str(), nullptr, error), TESSERA_INVALID_ARGUMENT, "runtime: is NULL");
  EXPECT_STATUS(call(as_other<tessera_runtime>(cancel.get()), story.c_str(), to.c_str(), nullptr, error),
                TESSERA_INVALID_ARGUMENT, "runtime: is a handle of another kind");
  EXPECT_STATUS(call(r, nullptr, to.c_str(), nullptr, error), TESSERA_INVALID_ARGUMENT, "input: is NULL");
  EXPECT_STATUS(call(r, story.c_str(), nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT, "output: is NULL");
  EXPECT_STATUS(call(r, story.c_str(), to.c_str(), reinterpret_cast<tessera_cancel*>(r), error),
                TESSERA_INVALID_ARGUMENT, "cancel: is a handle of another kind");
  EXPECT_STATUS(call(r, "/none.gguf", to.c_str(), nullptr, error), TESSERA_NOT_FOUND, "/none.gguf");
  EXPECT_STATUS(call(r, story.c_str(), "/nowhere/x", nullptr, error), TESSERA_NOT_FOUND, "/nowhere/x");
  EXPECT_STATUS(call(r, story.c_str(), text_.c_str(), nullptr, error), TESSERA_INVALID_ARGUMENT,
                "train.txt: is the input");
  const std::string copy = write_temporary("train-copy.gguf", read_all(story));
  EXPECT_STATUS(call(r, copy.c_str(), copy.c_str(), nullptr, error), TESSERA_INVALID_ARGUMENT, "is the input");
  EXPECT_TRUE(read_all(copy) == read_all(story));
  EXPECT_TRUE(names_in(folder_).empty());
}

TEST(CapiSchedule, RatesAreThoseOfTraining) {
  auto schedule = made(tessera_schedule_init);
  EXPECT_EQ(schedule.peak, 1e-3f);
  EXPECT_EQ(schedule.floor, 0.1f);
  schedule.peak = 1;
  schedule.n_warmup = 4;
  schedule.n_steps = 15;
  float rate = 0;
  const auto at = [&](int64_t step) {
    EXPECT_SUCCESS(tessera_schedule_rate(&schedule, step, &rate, error));
    return rate;
  };
  EXPECT_EQ(at(0), 0.25f);
  EXPECT_EQ(at(3), 1.0f);
  EXPECT_NEAR(at(9), 0.55f, 1e-6f);  // half of a cosine
  EXPECT_NEAR(at(14), 0.1f, 1e-6f);
  EXPECT_EQ(at(1000), at(14));
  schedule.shape = TESSERA_SCHEDULE_LINEAR;
  EXPECT_NEAR(at(6), 1 - 0.9f * 0.2f, 1e-6f);
  schedule.shape = TESSERA_SCHEDULE_CONSTANT;
  EXPECT_EQ(at(9), 1.0f);
  const auto expect_refused = [&](auto&& change, const std::string& text) {
    auto wrong = schedule;
    change(wrong);
    EXPECT_STATUS(tessera_schedule_rate(&wrong, 0, &rate, error), TESSERA_INVALID_ARGUMENT, text);
  };
  expect_refused([](auto& s) { s.shape = 3; }, "shape: 3, want 0 to 2");
  expect_refused([](auto& s) { s.peak = -1; }, "peak: -1");
  expect_refused([](auto& s) { s.floor = 2; }, "floor: 2");
  expect_refused([](auto& s) { s.n_warmup = -1; }, "n_warmup and n_steps: -1 and 15");
  expect_refused([](auto& s) { s.n_warmup = 16; }, "n_warmup and n_steps: 16 and 15");
  expect_refused(
      [](auto& s) {
        s.n_warmup = 0;
        s.n_steps = 0;
      },
      "n_warmup and n_steps: 0 and 0");
  expect_refused([](auto& s) { s.size = 1; }, "schedule: size is 1");
  EXPECT_STATUS(tessera_schedule_rate(&schedule, -1, &rate, error), TESSERA_INVALID_ARGUMENT, "step: -1");
  EXPECT_STATUS(tessera_schedule_rate(&schedule, 0, nullptr, error), TESSERA_INVALID_ARGUMENT, "rate: is NULL");
  EXPECT_SUCCESS(tessera_schedule_rate(nullptr, 0, &rate, error));
  EXPECT_EQ(rate, 1e-3f);
}

struct Text {
  std::string text;
  int32_t answer = 0;
  static int32_t add(void* user, const char* bytes, uint64_t n_bytes) {
    static_cast<Text*>(user)->text.append(bytes, n_bytes);
    return static_cast<Text*>(user)->answer;
  }
};

TEST(CapiGraph, DescribesTheStepsOfASession) {
  const RuntimeHandle runtime = create_runtime_handle();
  const ModelHandle model = open_story(runtime.get());
  auto options = made(tessera_session_options_init);
  options.n_ctx = 64;
  const SessionHandle session = create_session_handle(model.get(), &options);
  const auto graph = [&](int32_t format, int64_t n_tokens) {
    Text text;
    EXPECT_SUCCESS(tessera_session_graph(session.get(), format, n_tokens, Text::add, &text, nullptr, error));
    return text.text;
  };
  const json report = json::parse(graph(TESSERA_GRAPH_JSON, 9));
  ASSERT_EQ(report["steps"].size(), 2u);
  EXPECT_EQ(report["steps"][0]["title"], "prefill");
  EXPECT_EQ(report["steps"][0]["n_tokens"], 9);
  EXPECT_EQ(report["steps"][1]["n_tokens"], 1);
  const std::string path = temporary_path("graph.json");
  ASSERT_EQ(run_program({"graph", "-m", story_model(), "-c", "64", "-p", "9", "-o", path}).status, 0);
  const json theirs = json::parse(read_all(path));
  EXPECT_EQ(report["model"], theirs["model"]);
  EXPECT_EQ(report["steps"][0]["nodes"].size(), theirs["steps"][0]["nodes"].size());
  EXPECT_TRUE(graph(TESSERA_GRAPH_DOT, 9).starts_with("digraph"));
  EXPECT_NE(graph(TESSERA_GRAPH_PAGE, 0).find("<html"), std::string::npos);
  int32_t first = 0, last = 0;
  EXPECT_SUCCESS(tessera_sequence_range(session.get(), 0, &first, &last, error));
  EXPECT_EQ(last, -1);

  Text text{.text = {}, .answer = 1};
  const auto call = [&](tessera_session* of, int32_t format, int64_t n_tokens, tessera_write_function write,
                        tessera_cancel* cancel, tessera_error* error) {
    return tessera_session_graph(of, format, n_tokens, write, &text, cancel, error);
  };
  tessera_session* const s = session.get();
  EXPECT_STATUS(call(s, 0, 9, Text::add, nullptr, error), TESSERA_CANCELLED, "stopped by write");
  EXPECT_STATUS(call(s, -1, 9, Text::add, nullptr, error), TESSERA_INVALID_ARGUMENT, "format: -1");
  EXPECT_STATUS(call(s, 3, 9, Text::add, nullptr, error), TESSERA_INVALID_ARGUMENT, "format: 3");
  EXPECT_STATUS(call(s, 0, -1, Text::add, nullptr, error), TESSERA_INVALID_ARGUMENT, "n_tokens: -1");
  EXPECT_STATUS(call(s, 0, 64, Text::add, nullptr, error), TESSERA_LIMIT, "a prefill step of 64 tokens");
  EXPECT_STATUS(call(s, 0, 9, nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT, "write: is NULL");
  EXPECT_STATUS(call(nullptr, 0, 9, Text::add, nullptr, error), TESSERA_INVALID_ARGUMENT, "session: is NULL");
  EXPECT_STATUS(call(reinterpret_cast<tessera_session*>(model.get()), 0, 9, Text::add, nullptr, error),
                TESSERA_INVALID_ARGUMENT, "session: is a handle of another kind");
  EXPECT_STATUS(call(s, 0, 9, Text::add, reinterpret_cast<tessera_cancel*>(s), error), TESSERA_INVALID_ARGUMENT,
                "cancel: is a handle of another kind");
  const CancelHandle cancel = create_cancel_handle(true);
  EXPECT_STATUS(call(s, 0, 9, Text::add, cancel.get(), error), TESSERA_CANCELLED, "");
  EXPECT_SUCCESS(tessera_trace_begin(s, error));
  EXPECT_STATUS(call(s, 0, 9, Text::add, nullptr, error), TESSERA_INVALID_ARGUMENT, "session: is recorded");
}

}  // namespace
}  // namespace tessera
