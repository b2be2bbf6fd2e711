// Speculation on the command line: the same texts with all kinds of guesses, plans with a draft model, refusals, and
// bench --replay.
#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"
#include "tests/support/draft_file.h"
#include "tests/support/head_model.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::expect_refusal;
using testing::ProgramOutput;
using testing::run_program;

TEST(SpeculationFlags, RunPrintsTheSameText) {
  const std::string model = testing::story_model(), eagle = testing::eagle_file(model);
  for (const std::vector<std::string>& choice : {std::vector<std::string>{"--temp", "0"},
                                                 {"-s", "5"},
                                                 {"-s", "9", "--grammar", "root ::= (\"ab\" | \"cd\" | \" \")+"}}) {
    std::vector<std::string> args = {"run", "-m",  model,         "-p", "The dog and the cat. The dog",
                                     "-n",  "120", "--ignore-eos"};
    args.insert(args.end(), choice.begin(), choice.end());
    const std::string want = run_program(args).out;
    EXPECT_GT(want.size(), 20u);
    for (const std::vector<std::string>& guesses :
         {std::vector<std::string>{"--spec-type", "ngram"},
          {"--spec-type", "suffix,ngram"},
          {"-md", model},
          {"-md", eagle},
          {"--spec-type", "suffix,draft", "--spec-draft-model", model, "--spec-draft-n-max", "63"}}) {
      std::vector<std::string> with = args;
      with.insert(with.end(), guesses.begin(), guesses.end());
      const ProgramOutput output = run_program(with);
      EXPECT_EQ(output.status, 0) << output.err;
      EXPECT_EQ(output.out, want) << guesses[1];
      EXPECT_NE(output.err.find("guesses right"), std::string::npos) << output.err;
    }
  }
}

TEST(SpeculationFlags, ChatsAndServersTakeThem) {
  const std::string model = testing::story_model();
  const std::vector<std::string> args = {"chat", "-m", model, "--temp", "0", "-n", "60", "-q", "-c", "512"};
  const std::string want = run_program(args, "Tell me a story.\nMore.\n").out;
  for (const std::vector<std::string>& guesses :
       {std::vector<std::string>{"--spec-type", "suffix"}, {"-md", testing::eagle_file(model)}}) {
    std::vector<std::string> with = args;
    with.insert(with.end(), guesses.begin(), guesses.end());
    const ProgramOutput output = run_program(with, "Tell me a story.\nMore.\n");
    EXPECT_EQ(output.status, 0) << output.err;
    EXPECT_EQ(output.out, want);
  }
}

TEST(SpeculationFlags, ThePlanHasTheDraftModel) {
  const std::string model = testing::story_model();
  const auto plan = [&](std::vector<std::string> more) {
    std::vector<std::string> args = {"plan", "-m", model, "--json", "-c", "256"};
    args.insert(args.end(), more.begin(), more.end());
    const ProgramOutput output = run_program(args);
    EXPECT_EQ(output.status, 0) << output.err;
    return json::parse(output.out);
  };
  const json plain = plan({}), rows = plan({"--spec-type", "suffix"}), draft = plan({"-md", model});
  EXPECT_EQ(rows["weights_bytes"], plain["weights_bytes"]);
  EXPECT_GT(rows["compute_bytes"], plain["compute_bytes"]);  // the logits of the guesses
  EXPECT_EQ(draft["weights_bytes"], 2 * plain["weights_bytes"].get<uint64_t>());
  EXPECT_EQ(draft["kv_bytes"], 2 * plain["kv_bytes"].get<uint64_t>());
  EXPECT_EQ(plan({"--spec-type", "none"}), plain);
  const json eagle = plan({"-md", testing::eagle_file(model)});
  EXPECT_GT(eagle["weights_bytes"], plain["weights_bytes"]);
  EXPECT_GT(eagle["kv_bytes"], plain["kv_bytes"]);
  EXPECT_LT(eagle["kv_bytes"], draft["kv_bytes"]);  // one layer
  const json server = plan({"--serve", "-np", "2", "-cram", "0"});
  const json with_draft = plan({"--serve", "-np", "2", "-cram", "0", "-md", model});
  EXPECT_EQ(with_draft["weights_bytes"], 2 * server["weights_bytes"].get<uint64_t>());
  const uint64_t total = draft["total_bytes"];
  expect_refusal(run_program({"plan", "-m", model, "-md", model, "-c", "256", "--memory", std::to_string(total / 3)}),
                 1, "nothing fits");
}

TEST(SpeculationFlags, BadOnesAreRefused) {
  const std::string model = testing::story_model();
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> args = {"run", "-m", model, "-p", "a", "-n", "4"};
    args.insert(args.end(), more.begin(), more.end());
    return run_program(args);
  };
  expect_refusal(run({"--spec-type", "magic"}), 2, "none, ngram, suffix, draft, mtp");
  expect_refusal(run({"--spec-type", ""}), 2, "none, ngram, suffix, draft, mtp");
  expect_refusal(run({"--spec-type", "draft"}), 2, "-md FILE");
  expect_refusal(run({"--spec-draft-n-max", "0"}), 2, "--spec-draft-n-max");
  expect_refusal(run({"--spec-draft-n-max", "64"}), 2, "--spec-draft-n-max");
  expect_refusal(run({"-md", "/no/such/file.gguf"}), 1, "/no/such/file.gguf");
  expect_refusal(run({"-md", testing::write_temporary("broken.gguf", "GGUF is broken")}), 1, "broken.gguf");
  expect_refusal(run({"-md", testing::arch_model("llama-dense")}), 1, "not a draft model for");
  const std::string eagle = testing::eagle_file(model, {.layers = {1, 2, 300}});
  expect_refusal(run({"-md", eagle}), 1, "key 'eagle3.target_layers' has layer 300, and it has");
  expect_refusal(run_program({"run", "-m", testing::eagle_file(model), "-p", "a"}), 1, "a draft model (eagle3)");
}

TEST(SpeculationFlags, APredictionHeadGuesses) {
  for (const uint32_t n_blocks : {1u, 3u}) {
    const std::vector<std::string> args = {
        "run", "-m",          testing::story_head_model(n_blocks), "-p", "Once", "-n", "60", "--temp", "0", "-c",
        "100", "--ignore-eos"};
    std::vector<std::string> with = args;
    with.insert(with.end(), {"--spec-type", "mtp"});
    const ProgramOutput plain_text = run_program(args), text = run_program(with);
    EXPECT_EQ(text.status, 0) << text.err;
    EXPECT_EQ(text.out, plain_text.out);
    EXPECT_NE(text.err.find("guesses right"), std::string::npos) << text.err;
  }

  const std::string model = testing::copying_head_model(), headless = testing::headless_model("glm4moe-moe");
  const auto plan = [&](std::vector<std::string> more) {
    std::vector<std::string> args = {"plan", "-m", model, "--json", "-c", "64"};
    args.insert(args.end(), more.begin(), more.end());
    const ProgramOutput output = run_program(args);
    EXPECT_EQ(output.status, 0) << output.err;
    return json::parse(output.out);
  };
  const json plain = plan({}), head = plan({"--spec-type", "mtp"});
  EXPECT_GT(head["weights_bytes"], plain["weights_bytes"]);  // its block is not loaded otherwise
  EXPECT_GT(head["kv_bytes"], plain["kv_bytes"]);
  EXPECT_LT(head["kv_bytes"], 3 * plain["kv_bytes"].get<uint64_t>());
  expect_refusal(run_program({"plan", "-m", headless, "--spec-type", "mtp"}), 1, "the file has no prediction head");
  expect_refusal(run_program({"run", "-m", testing::story_model(), "-p", "a", "--spec-type", "mtp"}), 1,
                 "prediction heads of the architecture llama are not supported");
}

TEST(SpeculationFlags, ReplayMeasuresAText) {
  const std::string model = testing::story_model();
  std::string text;
  for (int i = 0; i < 12; ++i) text += "The cat sat on the mat and the dog ran to the park.\n";
  const std::string file = testing::write_temporary("replay.txt", text);
  const auto replay = [&](std::vector<std::string> more) {
    std::vector<std::string> args = {"bench", "-m", model, "--replay", file, "-r", "2", "-t", "1"};
    args.insert(args.end(), more.begin(), more.end());
    return run_program(args);
  };
  const ProgramOutput output = replay({"--spec-type", "suffix", "-o", "json"});
  ASSERT_EQ(output.status, 0) << output.err;
  const json row = json::parse(output.out);
  EXPECT_EQ(row["spec_type"], "suffix");
  EXPECT_EQ(row["plain_ts"].size(), 2u);
  EXPECT_EQ(row["spec_ts"].size(), 2u);
  EXPECT_GT(row["median_ratio"], 0);
  const int64_t written = row["n_written"], right = row["n_accepted"], drafted = row["n_drafted"];
  EXPECT_GT(written, 50);
  EXPECT_LE(std::abs(written - row["n_prompt"].get<int64_t>()), 1);
  EXPECT_GE(right, 0);
  EXPECT_GE(drafted, right);
  const ProgramOutput table = replay({"--spec-type", "ngram", "--replay-tokens", "30"});
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_NE(table.out.find("ngram"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find(" 30 "), std::string::npos) << table.out;
  const ProgramOutput draft = replay({"-md", testing::eagle_file(model), "-o", "json"});
  ASSERT_EQ(draft.status, 0) << draft.err;
  EXPECT_EQ(json::parse(draft.out)["spec_type"], "draft");
  expect_refusal(replay({}), 1, "--spec-type");
  expect_refusal(replay({"--spec-type", "ngram", "--replay-tokens", "100000"}), 1, "too few");
}

}  // namespace
}  // namespace tessera
