// tessera train and finetune from end to end: their output can be run, a run resumes at the step where it stopped, and
// every bad input gets a message of one line.
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tessera/gguf/reader.h"
#include "tests/cli/cli_support.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::Child;
using testing::expect_refusal;
using testing::ProgramOutput;
using testing::run_program;

std::string lines(int n, const std::string& what = "the cat saw a red ball") {
  std::string text;
  for (int i = 0; i < n; ++i) text += what + " and then it was day " + std::to_string(i % 10) + ".\n";
  return text;
}

// Limits the size of files of this process and its children during its lifetime.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

class TrainCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    text_ = testing::write_temporary("train.txt", lines(120));
    for (const char* name : {"new.gguf", "check.gguf", "loss.svg", "log.jsonl", "other.gguf"})
      fs::remove(testing::temporary_path(name));
  }
  std::vector<std::string> args(std::vector<std::string> more) const {
    std::vector<std::string> all = {"train", "--text",    text_, "--vocab-size", "300", "--n-layers", "2", "--n-embd",
                                    "32",    "--n-heads", "2",   "--ctx",        "32",  "--batch",    "4", "-t",
                                    "2",     "--lr",      "0.01"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string text_;
};

TEST_F(TrainCommand, WritesAModelThatRunsAndALogAndAPicture) {
  const std::string out = testing::temporary_path("new.gguf"), log = testing::temporary_path("log.jsonl"),
                    svg = testing::temporary_path("loss.svg");
  const ProgramOutput output = run_program(
      args({"-o", out, "--steps", "12", "--log", log, "--loss-svg", svg, "--eval-share", "0.1", "--eval-every", "5"}));
  ASSERT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(output.out, "");
  EXPECT_NE(output.err.find("step 12 of 12"), std::string::npos) << output.err;
  EXPECT_NE(output.err.find("tokens/s"), std::string::npos) << output.err;
  const ProgramOutput run = run_program({"run", "-m", out, "-p", "the cat", "-n", "8", "--temp", "0", "-q"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_GT(run.out.size(), 4u);

  std::istringstream in(testing::read_all(log));
  int n_steps = 0, n_evals = 0;
  double first = 0, last = 0;
  for (std::string line; std::getline(in, line);) {
    const auto entry = nlohmann::json::parse(line);
    if (entry.contains("eval_loss")) {
      ++n_evals;
      continue;
    }
    last = entry["loss"].get<double>();
    if (n_steps++ == 0) first = last;
  }
  EXPECT_EQ(n_steps, 12);
  EXPECT_EQ(n_evals, 3);  // after 5, 10 and 12 steps
  EXPECT_LT(last, first);
  const std::string picture = testing::read_all(svg);
  EXPECT_TRUE(picture.starts_with("<svg ")) << picture.substr(0, 80);
  EXPECT_NE(picture.find("<polyline"), std::string::npos);
}

TEST_F(TrainCommand, ThreadsAndRecomputationLeaveTheFileAsItIs) {
  const auto bytes = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"-o", testing::temporary_path("new.gguf"), "--steps", "4", "-q"});
    const ProgramOutput output = run_program(args(more));
    EXPECT_EQ(output.status, 0) << output.err;
    EXPECT_EQ(output.err, "");
    return testing::read_all(testing::temporary_path("new.gguf"));
  };
  const std::string file = bytes({});
  EXPECT_EQ(bytes({"-t", "1"}), file);
  EXPECT_EQ(bytes({"-t", "3"}), file);
  EXPECT_EQ(bytes({"--recompute"}), file);
  EXPECT_NE(bytes({"--seed", "2"}), file);
  EXPECT_NE(bytes({"--type", "bf16"}), file);
}

TEST_F(TrainCommand, InterruptedRunGoesOnToTheSameFile) {
  const std::string out = testing::temporary_path("new.gguf"), check = testing::temporary_path("check.gguf"),
                    other = testing::temporary_path("other.gguf");
  ASSERT_EQ(run_program(args({"-o", other, "--steps", "60", "-q"})).status, 0);
  Child child(args({"-o", out, "--steps", "60", "--checkpoint", check, "--log", testing::temporary_path("log.jsonl"),
                    "--save-every", "5"}));
  for (int i = 0; i < 12000 && !fs::exists(check); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  child.send(SIGINT);
  const ProgramOutput stopped = child.wait();
  if (stopped.status == 0) GTEST_SKIP() << "the run was over before the signal came";
  EXPECT_EQ(stopped.status, 130) << stopped.err;
  EXPECT_FALSE(fs::exists(out));
  ASSERT_TRUE(fs::exists(check));
  expect_refusal(run_program(args({"-o", out, "--steps", "60", "--checkpoint", check, "-q"})), 1, "--resume");
  const ProgramOutput rest = run_program(args({"-o", out, "--steps", "60", "--checkpoint", check, "--resume", "-q"}));
  ASSERT_EQ(rest.status, 0) << rest.err;
  EXPECT_EQ(testing::read_all(out), testing::read_all(other));
  // A checkpoint is a model too. Training that begins with it leaves its optimizer's state out.
  EXPECT_EQ(run_program({"run", "-m", check, "-p", "the", "-n", "2", "-q"}).status, 0);
  const std::string tuned = testing::temporary_path("tuned.gguf"), again = testing::temporary_path("again.gguf");
  const ProgramOutput next = run_program({"finetune", "-m", check, "--text", text_, "-o", tuned, "--ctx", "32",
                                          "--batch", "1", "--steps", "2", "--checkpoint", again, "-q"});
  ASSERT_EQ(next.status, 0) << next.err;
  EXPECT_EQ(fs::file_size(tuned), fs::file_size(out));
  EXPECT_EQ(fs::file_size(again), fs::file_size(check));
}

TEST_F(TrainCommand, RefusesBadInput) {
  const std::string out = testing::temporary_path("new.gguf");
  const auto refused = [&](std::vector<std::string> flags, int status, const std::string& part) {
    flags.insert(flags.begin(), "train");
    flags.push_back("-q");
    expect_refusal(run_program(flags), status, part);
    EXPECT_FALSE(fs::exists(out));
  };
  const std::string empty = testing::write_temporary("empty.txt", ""),
                    brief = testing::write_temporary("short.txt", "A few words.");
  refused({"-o", out}, 2, "no text");
  refused({"--text", text_}, 2, "no output");
  refused({"--text", empty, "-o", out}, 1, "text");
  refused({"--text", brief, "-o", out, "--vocab-size", "260", "--ctx", "64"}, 1, "64");
  refused({"--text", testing::temporary_path("none.txt"), "-o", out}, 1, "none.txt");
  refused({"--text", text_, "-o", "/nowhere/x.gguf"}, 1, "/nowhere/x.gguf");
  refused({"--text", text_, "-o", out, "--arch", "bert"}, 1, "'bert'");
  refused({"--text", text_, "-o", out, "--n-embd", "33"}, 1, "33");
  refused({"--text", text_, "-o", out, "--vocab-size", "10"}, 1, "10");
  refused({"--text", text_, "-o", out, "--optimizer", "adma"}, 2, "'adma'");
  refused({"--text", text_, "-o", out, "--schedule", "up"}, 2, "'up'");
  refused({"--text", text_, "-o", out, "--resume"}, 2, "--checkpoint");
  refused({"--text", text_, "-o", out, "--checkpoint", testing::temporary_path("none.gguf"), "--resume"}, 1,
          "none.gguf");
  refused({"--text", text_, "-o", out, "--eval-every", "2"}, 2, "--eval-share");
  refused({"--text", text_, "-o", out, "--vocab-from", "x.gguf", "--vocab-size", "300"}, 2, "--vocab-from");
  refused({"--text", text_, "-o", out, "--vocab-from", text_}, 1, text_);
}

// A text of one-line conversations, in which the assistant always says the same.
class ConversationTraining : public TrainCommand {
 protected:
  static constexpr const char* kTemplate =
      "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% endif %}";
  void SetUp() override {
    TrainCommand::SetUp();
    std::string text;
    for (int i = 0; i < 200; ++i)
      text += "<|user|>hello " + std::to_string(i) + "<|end|><|assistant|>good day<|end|>\n";
    text_ = testing::write_temporary("talks.txt", text);
    template_ = testing::write_temporary("template.jinja", kTemplate);
  }
  std::vector<std::string> talk_args(std::vector<std::string> more) const {
    std::vector<std::string> all = args({"--control-token", "<|user|>", "--control-token", "<|assistant|>",
                                         "--end-token", "<|end|>", "--separator", "\n", "--whole-documents", "-q"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string template_;
};

TEST_F(ConversationTraining, ModelAnswersAndStopsAtTheEndToken) {
  const std::string out = testing::temporary_path("new.gguf");
  const ProgramOutput trained =
      run_program(talk_args({"-o", out, "--steps", "60", "--optimizer", "muon", "--chat-template-file", template_}));
  ASSERT_EQ(trained.status, 0) << trained.err;
  const ProgramOutput run = run_program(
      {"run", "-m", out, "--special", "-p", "<|user|>hello 3<|end|><|assistant|>", "-n", "30", "--temp", "0", "-q"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(run.out.starts_with("good day")) << run.out;
  EXPECT_EQ(run.out.find("<|user|>"), std::string::npos) << run.out;
  const ProgramOutput source = run_program({"template", "-m", out, "--source"});
  EXPECT_EQ(source.status, 0) << source.err;
  EXPECT_NE(source.out.find(kTemplate), std::string::npos) << source.out;
}

TEST_F(ConversationTraining, KeysOfTheFileNameTheControlTokens) {
  const std::string out = testing::temporary_path("new.gguf");
  ASSERT_EQ(run_program(talk_args({"-o", out, "--steps", "1", "--chat-template", "chatml"})).status, 0);
  ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::open(out));
  const Metadata& keys = file->metadata();
  ASSERT_OK_AND_ASSIGN(const auto tokens, keys.get_vector<std::string_view>("tokenizer.ggml.tokens"));
  ASSERT_OK_AND_ASSIGN(const auto end, keys.get<uint32_t>("tokenizer.ggml.eot_token_id"));
  ASSERT_LT(end, tokens.size());
  EXPECT_EQ(tokens[end], "<|end|>");
  ASSERT_OK_AND_ASSIGN(const auto source, keys.get<std::string_view>("tokenizer.chat_template"));
  EXPECT_NE(source.find("<|im_start|>"), std::string_view::npos);
}

TEST_F(ConversationTraining, ResumedRunAndVocabFromKeepTheConversation) {
  const std::string out = testing::temporary_path("new.gguf"), other = testing::temporary_path("other.gguf"),
                    check = testing::temporary_path("check.gguf");
  const std::vector<std::string> flags = {"-o", out, "--checkpoint", check, "--chat-template-file", template_};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), flags.begin(), flags.end());
    return run_program(talk_args(more));
  };
  ASSERT_EQ(with({"--steps", "2"}).status, 0);
  const ProgramOutput resumed = with({"--steps", "3", "--resume"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  const auto source_of = [](const std::string& model) {
    return run_program({"template", "-m", model, "--source"}).out;
  };
  EXPECT_NE(source_of(out).find(kTemplate), std::string::npos);
  std::vector<std::string> from = {"train", "--text",    text_, "--vocab-from", out,  "--n-layers", "1", "--n-embd",
                                   "32",    "--n-heads", "2",   "--ctx",        "32", "--steps",    "1", "-o",
                                   other,   "--special", "-q"};
  ASSERT_EQ(run_program(from).status, 0);
  EXPECT_NE(source_of(other).find(kTemplate), std::string::npos);
  from.insert(from.end(), {"--chat-template", "chatml", "--end-token", "<|user|>"});
  ASSERT_EQ(run_program(from).status, 0);
  EXPECT_NE(source_of(other).find("<|im_start|>"), std::string::npos);
  from.back() = "<|nobody|>";
  expect_refusal(run_program(from), 1, "--end-token \"<|nobody|>\"");
}

TEST_F(ConversationTraining, RefusesWhatCannotWork) {
  const std::string out = testing::temporary_path("new.gguf");
  const auto refused = [&](std::vector<std::string> more, int status, const std::string& part) {
    more.insert(more.end(), {"-o", out, "--steps", "1"});
    expect_refusal(run_program(talk_args(more)), status, part);
    EXPECT_FALSE(fs::exists(out));
  };
  const std::string broken = testing::write_temporary("broken.jinja", "{% for m in messages %}");
  refused({"--chat-template-file", broken}, 1, "template: 1:");
  refused({"--chat-template-file", testing::temporary_path("none.jinja")}, 1, "none.jinja");
  refused({"--chat-template", "chatmll"}, 2, "did you mean chatml");
  refused({"--chat-template", "chatml", "--chat-template-file", template_}, 2, "--chat-template-file");
  refused({"--control-token", ""}, 1, "control token");
  refused({"--control-token", "<|user|>"}, 1, "\"<|user|>\"");
  refused({"--separate-documents"}, 2, "--whole-documents");
  expect_refusal(
      run_program({"train", "--text", text_, "-o", out, "--vocab-from", text_, "--control-token", "<a>", "-q"}), 2,
      "--control-token");
}

TEST_F(ConversationTraining, WholeDocumentsAndSpecialTokensMakeAnotherModel) {
  const auto bytes = [&](std::vector<std::string> more) {
    const std::string out = testing::temporary_path("new.gguf");
    std::vector<std::string> all =
        args({"--separator", "\n", "-o", out, "--steps", "2", "-q", "--vocab-size", "310", "--ctx", "128"});
    all.insert(all.end(), more.begin(), more.end());
    const ProgramOutput output = run_program(all);
    EXPECT_EQ(output.status, 0) << output.err;
    return testing::read_all(out);
  };
  const std::string packed = bytes({});
  EXPECT_TRUE(packed != bytes({"--whole-documents"}));
  EXPECT_TRUE(bytes({"--separate-documents"}) != bytes({"--whole-documents"}));
  EXPECT_TRUE(packed != bytes({"--control-token", "<|nowhere|>"}));
  text_ = testing::write_temporary("special.txt", lines(60) + "<|end_of_text|>" + lines(60));
  EXPECT_TRUE(bytes({}) != bytes({"--special"}));
}

TEST_F(TrainCommand, DivergenceIsAnErrorAndKeepsTheCheckpoint) {
  const std::string check = testing::temporary_path("check.gguf");
  const ProgramOutput output = run_program(
      args({"-o", testing::temporary_path("new.gguf"), "--steps", "400", "--checkpoint", check, "--save-every", "1",
            "--lr", "10000", "--optimizer", "sgd", "--clip", "0", "--warmup", "0", "-q"}));
  expect_refusal(output, 1, "diverges");
  EXPECT_FALSE(fs::exists(testing::temporary_path("new.gguf")));
}

TEST_F(TrainCommand, FullDiskAtACheckpointKeepsTheLastOne) {
  const std::string out = testing::temporary_path("new.gguf"), check = testing::temporary_path("check.gguf");
  ASSERT_EQ(run_program(args({"-o", out, "--steps", "2", "--checkpoint", check, "-q"})).status, 0);
  fs::remove(out);
  const std::string before = testing::read_all(check);
  {
    FileSizeLimit limit(before.size() / 2);  // a write fails like on a full disk
    expect_refusal(run_program(args({"-o", out, "--steps", "4", "--checkpoint", check, "--resume", "-q"})), 1,
                   "checkpoint of step 4");
  }
  EXPECT_EQ(testing::read_all(check), before);
  EXPECT_FALSE(fs::exists(out));
  for (const auto& entry : fs::directory_iterator(testing::temporary_dir()))
    EXPECT_FALSE(entry.path().filename().string().starts_with("check.gguf.")) << entry.path();
  EXPECT_EQ(run_program(args({"-o", out, "--steps", "4", "--checkpoint", check, "--resume", "-q"})).status, 0);
}

class FinetuneCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = testing::story_model();
    text_ = testing::write_temporary("tune.txt", lines(300, "Tom the robot sang to the moon"));
    for (const char* name : {"tuned.gguf", "lora.gguf", "merged.gguf", "q8.gguf"})
      fs::remove(testing::temporary_path(name));
  }
  std::string generate(std::vector<std::string> flags, const std::string& model) const {
    flags.insert(flags.begin(), {"run", "-m", model, "-p", "Tom the", "-n", "24", "--temp", "0", "-q"});
    const ProgramOutput output = run_program(flags);
    EXPECT_EQ(output.status, 0) << output.err;
    return output.out;
  }
  std::vector<float> logits(std::vector<std::string> flags, const std::string& model) const {
    const std::string path = testing::temporary_path("out.logits");
    flags.insert(flags.begin(), {"logits", "-m", model, "--tokens", "1,410,436,270,427,261,376", "-o", path, "-q",
                                 "-ctk", "f32", "-ctv", "f32"});
    const ProgramOutput output = run_program(flags);
    EXPECT_EQ(output.status, 0) << output.err;
    const std::string bytes = testing::read_all(path);
    constexpr size_t kHead = 8 + 7 * 4;
    std::vector<float> values((bytes.size() - kHead) / sizeof(float));
    std::memcpy(values.data(), bytes.data() + kHead, values.size() * sizeof(float));
    return values;
  }
  std::string model_, text_;
};

TEST_F(FinetuneCommand, LoraChangesTheStoriesAsTheTextAsksMergedOrNot) {
  TESSERA_SKIP_UNLESS_ALL_CASES();
  const std::string lora = testing::temporary_path("lora.gguf"), merged = testing::temporary_path("merged.gguf");
  const ProgramOutput output =
      run_program({"finetune", "-m",      model_, "--text",  text_, "--lora", "--rank", "8",  "-o", lora, "--ctx",
                   "64",       "--batch", "8",    "--steps", "60",  "--lr",   "0.01",   "-t", "2",  "-q"});
  ASSERT_EQ(output.status, 0) << output.err;
  const std::string before = generate({}, model_), after = generate({"--lora", lora}, model_);
  EXPECT_EQ(before.find("robot"), std::string::npos) << before;
  EXPECT_NE(after.find("robot sang to the moon"), std::string::npos) << after;

  ASSERT_EQ(run_program({"export-lora", "-m", model_, "--lora", lora, "-o", merged, "-q"}).status, 0);
  const std::vector<float> beside = logits({"--lora", lora}, model_), within = logits({}, merged);
  ASSERT_EQ(beside.size(), within.size());
  double error = 0, power = 0;
  for (size_t i = 0; i < beside.size(); ++i) {
    error += std::pow(double{beside[i]} - double{within[i]}, 2);
    power += std::pow(double{beside[i]}, 2);
  }
  EXPECT_LT(std::sqrt(error / power), 1e-5);  // the same sums in another order
}

TEST_F(FinetuneCommand, AllWeightsOfAFloatModelAndAnAdapterOfAQuantizedOne) {
  TESSERA_SKIP_UNLESS_ALL_CASES();
  const std::string tuned = testing::temporary_path("tuned.gguf"), q8 = testing::temporary_path("q8.gguf"),
                    lora = testing::temporary_path("lora.gguf");
  const std::vector<std::string> common = {"--text", text_,  "--ctx", "64", "--batch", "4", "--steps",
                                           "30",     "--lr", "0.003", "-t", "2",       "-q"};
  const auto finetune = [&](std::vector<std::string> more) {
    more.insert(more.begin(), "finetune");
    more.insert(more.end(), common.begin(), common.end());
    return run_program(more);
  };
  ASSERT_EQ(finetune({"-m", model_, "-o", tuned}).status, 0);
  EXPECT_NE(generate({}, tuned).find("robot"), std::string::npos);
  ASSERT_EQ(run_program({"quantize", model_, q8, "Q8_0", "-q"}).status, 0);
  expect_refusal(finetune({"-m", q8, "-o", testing::temporary_path("no.gguf")}), 1, "--lora");
  const ProgramOutput adapter = finetune({"-m", q8, "--lora", "-o", lora});
  ASSERT_EQ(adapter.status, 0) << adapter.err;
  EXPECT_NE(generate({"--lora", lora}, q8), generate({}, q8));
  expect_refusal(finetune({"-m", model_, "-o", model_}), 1, "is the input");
  expect_refusal(finetune({"-m", model_, "-o", tuned, "--rank", "4"}), 2, "--lora");
  expect_refusal(finetune({"-m", model_, "-o", tuned, "--lora", "--targets", "attn_x"}), 1, "attn_x");
}

}  // namespace
}  // namespace tessera
