// tessera perplexity --hellaswag, --winogrande, --multiple-choice: scores counted by hand, results that do not depend
// on the division of the work, and clear refusals.
#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"
#include "tests/support/choice_files.h"
#include "tests/support/editable_model.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::BinaryTask;
using testing::expect_refusal;
using testing::run_program;
using testing::write_temporary;

// The story model prefers endings from stories. The labels of the first two tasks agree with it, the third does not.
const std::string kHellaSwag =
    "Once upon a time, there was a little\n1\nquantum field.\ngirl named Lily.\nbank of it.\nzzz qqq.\n"
    "One day, Lily and her mom went to the\n3\nxylophone.\nequation.\nqzx.\npark.\n"
    "Tom was sad. He started to\n2\ncry.\nfrxz.\nqvk.\nwxq.\n";

const std::string kWinoGrande =
    "a,Tom and his _ went to the park to play with the ball.,mom,qxv,1\n"
    "b,\"Once upon a time, there was a _ who liked to play.\",zqx,girl,2\r\n"
    "c,Lily was happy and _ played in the park all day.,she,zvw,2\n"
    "d,Tom and his _ went to the zoo to see the animals.,mom,xkz,1\n";

const std::vector<BinaryTask> kMultipleChoice = {
    {"Once upon a time, there was a little", {"girl", "qzx"}, {1, 0}},
    {"Lily was sad. She started to", {"vxw", "cry", "qqq", "zxz"}, {0, 1, 0, 0}},
    {"Tom went to the", {"park", "qxz", "vvw", "kzx"}, {0, 1, 0, 0}},
};

TEST(ChoiceCommand, HellaSwagCountsTheRightEndings) {
  const std::string model = testing::story_model();
  const auto output =
      run_program({"perplexity", "-m", model, "--hellaswag", "-f", write_temporary("hellaswag.txt", kHellaSwag), "-q"});
  ASSERT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(output.err, "");
  // Wilson's interval of 2 in 3: center (2/3 + z^2/6) / (1 + z^2/3), reach z sqrt(2/27 + z^2/36) / (1 + z^2/3), z
  // = 1.96
  EXPECT_EQ(output.out, "Final HellaSwag score (3 tasks): 66.6667 % [20.7660 %, 93.8508 %]\n");
}

TEST(ChoiceCommand, WinoGrandeCountsTheRightNames) {
  const std::string model = testing::story_model();
  const auto output = run_program(
      {"perplexity", "-m", model, "--winogrande", "-f", write_temporary("winogrande.csv", kWinoGrande), "-q"});
  ASSERT_EQ(output.status, 0) << output.err;
  // sqrt(0.75 * 0.25 / 3)
  EXPECT_EQ(output.out, "Final Winogrande score(4 tasks): 75.0000 +/- 25.0000\n");
}

TEST(ChoiceCommand, MultipleChoiceCountsTheRightAnswersAndGuesses) {
  const std::string model = testing::story_model();
  const std::string path = write_temporary("choices.bin", testing::binary_tasks(kMultipleChoice));
  for (const std::string flag : {"-f", "-bf", "--binary-file"}) {
    const auto output = run_program({"perplexity", "-m", model, "--multiple-choice", flag, path, "-q"});
    ASSERT_EQ(output.status, 0) << output.err;
    // sqrt(2/9 / 2); (1/2 + 1/4 + 1/4) / 3; sqrt(1/4 + 3/16 + 3/16) / 3
    EXPECT_EQ(output.out, "Final result: 66.6667 +/- 33.3333\nRandom chance: 33.3333 +/- 26.3523\n");
  }
}

TEST(ChoiceCommand, JsonHasEachTask) {
  const std::string model = testing::story_model();
  const std::string path = write_temporary("choices.bin", testing::binary_tasks(kMultipleChoice));
  const auto output = run_program({"perplexity", "-m", model, "--multiple-choice", "-bf", path, "--json", "-q"});
  ASSERT_EQ(output.status, 0) << output.err;
  const json parsed = json::parse(output.out);
  EXPECT_EQ(parsed["test"], "multiple-choice");
  EXPECT_EQ(parsed["file"], path);
  EXPECT_EQ(parsed["tasks"], 3);
  EXPECT_EQ(parsed["correct"], 2);
  EXPECT_NEAR(parsed["score"].get<double>(), 200.0 / 3, 1e-9);
  EXPECT_NEAR(parsed["error"].get<double>(), 100.0 / 3, 1e-9);
  EXPECT_NEAR(parsed["random_score"].get<double>(), 100.0 / 3, 1e-9);
  ASSERT_EQ(parsed["results"].size(), 3u);
  const json& third = parsed["results"][2];
  EXPECT_EQ(third["task"], 3);
  EXPECT_EQ(third["right"], json::array({1}));
  EXPECT_EQ(third["chosen"], 0);
  ASSERT_EQ(third["mean_log_p"].size(), 4u);
  for (size_t i = 1; i < 4; ++i) EXPECT_GT(third["mean_log_p"][0], third["mean_log_p"][i]);
}

TEST(ChoiceCommand, JsonOfHellaSwagHasTheInterval) {
  const std::string model = testing::story_model();
  const auto output = run_program({"perplexity", "-m", model, "--hellaswag", "--json", "-q", "-p", kHellaSwag});
  ASSERT_EQ(output.status, 0) << output.err;
  const json parsed = json::parse(output.out);
  EXPECT_EQ(parsed["test"], "hellaswag");
  EXPECT_NEAR(parsed["interval"][0].get<double>(), 20.7660, 1e-4);
  EXPECT_FALSE(parsed.contains("error"));
  EXPECT_EQ(parsed["results"][1]["right"], json::array({3}));
  EXPECT_EQ(parsed["results"][1]["chosen"], 3);
}

TEST(ChoiceCommand, IsTheSameForAnyBatchAndThreads) {
  const std::string model = testing::story_model();
  const int n_repeats = testing::all_or_few(40, 5);
  std::string tasks;
  for (int i = 0; i < n_repeats; ++i) tasks += kHellaSwag;
  const std::string path = write_temporary("many.txt", tasks);
  const auto run = [&](std::vector<std::string> flags) {
    std::vector<std::string> args = {"perplexity", "-m", model, "--hellaswag", "-f", path, "--json", "-q"};
    args.insert(args.end(), flags.begin(), flags.end());
    const auto output = run_program(args);
    EXPECT_EQ(output.status, 0) << output.err;
    return output.out;
  };
  const std::string want = run({});
  EXPECT_EQ(json::parse(want)["correct"], 2 * n_repeats);
  EXPECT_EQ(run({"-t", "2", "-ub", "33"}), want);
  EXPECT_EQ(run({"-b", "10"}), want);
  EXPECT_EQ(run({"-b", "100000", "-c", "64"}), want);
}

TEST(ChoiceCommand, TakesSomeOfTheTasks) {
  const std::string model = testing::story_model();
  std::string tasks;
  for (int i = 0; i < 10; ++i) tasks += "1,Tom and his _ went home.,mom,dad,1\n";
  const auto numbers = [&](const std::string& n) {
    const auto output =
        run_program({"perplexity", "-m", model, "--winogrande", "--winogrande-tasks", n, "--json", "-q", "-p", tasks});
    EXPECT_EQ(output.status, 0) << output.err;
    std::vector<int> taken;
    const json parsed = json::parse(output.out);
    for (const json& result : parsed["results"]) taken.push_back(result["task"]);
    return taken;
  };
  EXPECT_EQ(numbers("4"), (std::vector{5, 9, 6, 7}));  // as in SampleChoiceTasks
  EXPECT_EQ(numbers("0").size(), 10u);
}

TEST(ChoiceCommand, SaysTheRunningScoreOnStderr) {
  const std::string model = testing::story_model();
  const auto output = run_program({"perplexity", "-m", model, "--hellaswag", "-b", "1", "-p", kHellaSwag});
  EXPECT_NE(output.err.find("task 1 of 3, score = 100.0000 %\n"), std::string::npos) << output.err;
  EXPECT_NE(output.err.find("task 3 of 3, score = 66.6667 %\n"), std::string::npos) << output.err;
}

TEST(ChoiceCommand, RefusesFlagsThatDoNotFit) {
  const std::string model = testing::story_model();
  const std::vector<std::string> base = {"perplexity", "-m", model};
  const auto run = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), base.begin(), base.end());
    return run_program(flags);
  };
  expect_refusal(run({"--hellaswag", "--winogrande"}), 2, "give one of them");
  expect_refusal(run({"-bf", "x"}), 2, "--binary-file: only with");
  expect_refusal(run({"--multiple-choice", "-bf", "x", "-f", "y"}), 1, "--binary-file and --file: give one of them");
  expect_refusal(run({"--hellaswag", "--hellaswag-tasks", "-1", "-p", "x"}), 2, "-1 is out of range");
}

TEST(ChoiceCommand, RefusesFilesOfAnotherKind) {
  const std::string model = testing::story_model();
  const auto run = [&](const std::string& mode, const std::string& path) {
    return run_program({"perplexity", "-m", model, mode, "-f", path, "-q"});
  };
  const std::string text = write_temporary("hellaswag.txt", kHellaSwag),
                    csv = write_temporary("winogrande.csv", kWinoGrande),
                    binary = write_temporary("choices.bin", testing::binary_tasks(kMultipleChoice)),
                    empty = write_temporary("empty.txt", "");
  expect_refusal(run("--hellaswag", csv), 1, "winogrande.csv: line 2: right ending");
  expect_refusal(run("--hellaswag", binary), 1, "choices.bin: line 1:");
  expect_refusal(run("--hellaswag", model), 1, "story.gguf: line");
  expect_refusal(run("--winogrande", text), 1, "hellaswag.txt: line 1: ");
  expect_refusal(run("--winogrande", binary), 1, "choices.bin: line 1: fewer than 5 fields");
  expect_refusal(run("--multiple-choice", text), 1, "hellaswag.txt: offsets of 1701015119 tasks: truncated");
  expect_refusal(run("--multiple-choice", csv), 1, "winogrande.csv: offsets of ");
  expect_refusal(run("--hellaswag", empty), 1, "empty.txt: the file is empty");
  expect_refusal(run("--winogrande", empty), 1, "empty.txt: the file is empty");
  expect_refusal(run("--multiple-choice", empty), 1, "empty.txt: number of tasks: truncated");
  expect_refusal(run("--hellaswag", "/none/tasks"), 1, "/none/tasks");
}

TEST(ChoiceCommand, RefusesATaskLongerThanTheContext) {
  const std::string model = testing::story_model();
  expect_refusal(run_program({"perplexity", "-m", model, "--hellaswag", "-c", "20", "-q", "-p", kHellaSwag}), 1,
                 "task 1: ");
}

TEST(ChoiceCommand, TakesTextThatIsNotUtf8) {
  const std::string model = testing::story_model();
  const auto output =
      run_program({"perplexity", "-m", model, "--winogrande", "-q", "-f",
                   write_temporary("latin1.csv", "1,\xe9\xff _ went home to eat his cake.,Tom,\xe9\xe9,1\n")});
  EXPECT_EQ(output.status, 0) << output.err;
}

TEST(ChoiceCommand, RefusesLogitsThatAreNotFinite) {
  const std::string path = testing::story_model();
  testing::EditableModel model(path);
  std::ranges::fill(model.tensor("output_norm.weight"), std::byte{0xff});  // NaN
  expect_refusal(run_program({"perplexity", "-m", model.write("nan.gguf"), "--hellaswag", "-p", kHellaSwag, "-q"}), 1,
                 "task 1, answer 1, position");
}

}  // namespace
}  // namespace tessera
