// tessera run with diffusion models: texts, flags, and what other commands say of such models.
#include <csignal>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"
#include "tests/cli/pty.h"
#include "tests/support/diffusion_model.h"

namespace tessera {
namespace {

using testing::expect_refusal;
using testing::ProgramOutput;
using testing::run_program;
using Words = std::vector<std::string>;

std::string dream_path() {
  static const std::string path = testing::diffusion_model("dream-dense").write("dream.gguf");
  return path;
}
std::string llada_path() {
  static const std::string path = [] {
    testing::EditableModel model = testing::diffusion_model("llada-dense");
    model.builder.set("diffusion.shift_logits", false);
    return model.write("llada.gguf");
  }();
  return path;
}

ProgramOutput run_with(const std::string& model, Words more) {
  more.insert(more.begin(), {"run", "-m", model, "-p", "abc", "-s", "1"});
  return run_program(more);
}

Words ids_of(const std::string& line) {
  Words ids;
  for (size_t begin = 0; begin < line.size();) {
    const size_t end = line.find_first_of(",\n", begin);
    if (end > begin) ids.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return ids;
}

TEST(RunDiffusion, WritesATextOfTheRequestedLength) {
  // Of Dream's schedule, the first of 24 steps would reveal 0.999 tokens.
  for (const auto& [model, n_steps] : {std::pair{dream_path(), 23}, std::pair{llada_path(), 24}}) {
    const ProgramOutput output = run_with(model, {"-n", "24", "--ids", "--ignore-eos", "--temp", "0"});
    EXPECT_EQ(output.status, 0) << output.err;
    const Words ids = ids_of(output.out);
    EXPECT_EQ(ids.size(), 24u) << output.out;
    EXPECT_EQ(std::ranges::count(ids, std::to_string(testing::kDiffusionMask)), 0) << output.out;
    const std::string timings = fmt::format("prompt 3 tokens; generated 24 tokens in {} steps, ", n_steps);
    EXPECT_NE(output.err.find(timings), std::string::npos) << output.err;
    EXPECT_NE(output.err.find("; seed 1\n"), std::string::npos) << output.err;
  }
}

TEST(RunDiffusion, TheTextIsThatOfTheTokens) {
  const Words flags = {"-n", "16", "--diffusion-steps", "4", "-q"};
  Words with_ids = flags, with_prompt = flags;
  with_ids.emplace_back("--ids");
  with_prompt.emplace_back("--echo");
  const ProgramOutput text = run_with(dream_path(), flags);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(text.err, "");
  std::string want;
  for (const std::string& id : ids_of(run_with(dream_path(), with_ids).out)) {
    const int i = std::stoi(id);
    if (i >= 30) want += {static_cast<char>('A' + i / 26), static_cast<char>('A' + i % 26)};
    if (i >= 4 && i < 30) want += static_cast<char>('a' + i - 4);
  }
  EXPECT_EQ(text.out, want + "\n");
  EXPECT_EQ(run_with(dream_path(), with_prompt).out, "abc" + want + "\n");
}

TEST(RunDiffusion, TheTextEndsBeforeTheFirstTokenThatEndsOne) {
  // The most probable word of the text becomes one that ends it.
  const Words flags = {"-n", "24", "--ids", "--temp", "0", "-q"};
  const Words ids = ids_of(run_with(dream_path(), flags).out);
  ASSERT_EQ(ids.size(), 24u);
  const std::string& end = ids[12];
  const auto n_before = std::ranges::find(ids, end) - ids.begin();
  testing::EditableModel model = testing::diffusion_model("dream-dense");
  model.builder.set("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(std::stoi(end)));
  const std::string path = model.write("ended.gguf");
  Words whole = flags;
  whole.emplace_back("--ignore-eos");
  EXPECT_EQ(ids_of(run_with(path, whole).out), ids);
  EXPECT_EQ(ids_of(run_with(path, flags).out), Words(ids.begin(), ids.begin() + n_before));
}

TEST(RunDiffusion, SeedThreadsAndFlagsDecideTheText) {
  const auto text = [](Words more) {
    more.insert(more.end(), {"-n", "16", "-q", "--ids", "--ignore-eos"});
    const ProgramOutput output = run_with(dream_path(), more);
    EXPECT_EQ(output.status, 0) << output.err;
    return output.out;
  };
  const std::string plain = text({});
  EXPECT_EQ(text({"-t", "1"}), plain);
  EXPECT_EQ(text({"--diffusion-algorithm", "confidence"}), plain);
  EXPECT_EQ(text({"--diffusion-algorithm", "4", "--min-p", "0"}), plain);
  EXPECT_EQ(text({"--diffusion-eps", "0.001", "--diffusion-steps", "16"}), plain);
  for (const Words& more :
       {Words{"-s", "2"}, Words{"--diffusion-steps", "2"}, Words{"--diffusion-algorithm", "entropy"},
        Words{"--diffusion-algorithm", "0"}, Words{"--diffusion-alg-temp", "0.5"}, Words{"--diffusion-cfg-scale", "2"},
        Words{"--diffusion-gumbel", "1"}, Words{"--diffusion-block-length", "4"}, Words{"--temp", "0"},
        Words{"--top-k", "1"}, Words{"--top-p", "0.2"}, Words{"--diffusion-eps", "0.9"}})
    EXPECT_NE(text(more), plain) << more[0] << " " << more[1];
}

TEST(RunDiffusion, TheDefaultLengthIsLimitedByTheContext) {
  const auto n_ids = [](const Words& more) {
    Words flags = {"--ids", "--ignore-eos", "-q", "--diffusion-steps", "8"};
    flags.insert(flags.end(), more.begin(), more.end());
    const ProgramOutput output = run_with(llada_path(), flags);
    EXPECT_EQ(output.status, 0) << output.err;
    return ids_of(output.out).size();
  };
  EXPECT_EQ(n_ids({"-c", "1000"}), 128u);
  EXPECT_EQ(n_ids({"--diffusion-eps", "0.01"}), 125u);  // the model has a context of 128
  EXPECT_EQ(n_ids({"-c", "40", "--diffusion-block-length", "16"}), 32u);
  EXPECT_EQ(run_with(llada_path(), {"-n", "0", "-q"}).out, "\n");
}

TEST(RunDiffusion, VisualShowsALinePerStepOffTheTerminal) {
  const ProgramOutput output =
      run_with(llada_path(), {"-n", "8", "--diffusion-steps", "4", "--diffusion-visual", "-q", "--ignore-eos"});
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(std::ranges::count(output.err, '\n'), 4) << output.err;
  EXPECT_TRUE(output.err.starts_with("step 1 of 4: \"")) << output.err;
  const std::string first = output.err.substr(0, output.err.find('\n'));
  EXPECT_EQ(std::ranges::count(first, '_'), 6) << first;
  EXPECT_NE(output.err.find("step 4 of 4: \"" + output.out.substr(0, output.out.size() - 1) + "\"\n"),
            std::string::npos)
      << output.err << output.out;
}

TEST(RunDiffusion, VisualRedrawsTheTextOnATerminal) {
  const Words flags = {"-n", "100", "--diffusion-steps", "5", "-q", "--ignore-eos"};
  const std::string text = run_with(dream_path(), flags).out;
  Words args = {testing::program_path(), "run", "-m", dream_path(), "-p", "abc", "-s", "1", "--diffusion-visual"};
  args.insert(args.end(), flags.begin(), flags.end());
  constexpr int kColumns = 30;
  // The text of up to 200 columns has more rows than the screen.
  testing::PtyChild terminal(args, testing::program_environment({"TERM=xterm"}), 6, kColumns);
  EXPECT_EQ(terminal.wait_for_exit(), 0);
  const std::string& written = terminal.user().output();
  EXPECT_NE(written.find("____"), std::string::npos) << written;
  // Only the text is left.
  std::string left;
  for (const char c : terminal.screen().text())
    if (c != '\n') left += c;
  EXPECT_EQ(left,
            text.substr(0, text.size() - 1).substr(text.size() - 1 > left.size() ? text.size() - 1 - left.size() : 0));
  EXPECT_GT(left.size(), 100u);
}

TEST(RunDiffusion, InterruptionLeavesTheTextSoFarAndStatus130) {
  testing::Child child({"run", "-m", dream_path(), "-p", "abc", "-c", "2000", "-n", "1500", "--diffusion-steps", "1500",
                        "--diffusion-visual", "--ignore-eos"});
  child.wait_for_line("step 2 of ");
  child.send(SIGINT);
  const ProgramOutput output = child.wait();
  EXPECT_EQ(output.status, 130) << output.err;
  EXPECT_GT(std::ranges::count(output.out, '_'), 100);
  EXPECT_TRUE(output.out.ends_with("\n"));
  EXPECT_EQ(output.err.find("error"), std::string::npos);
}

TEST(RunDiffusion, TextsThatDoNotFitAreRefused) {
  expect_refusal(run_with(dream_path(), {"-c", "3"}), 1, "the prompt has 3 tokens, the context holds 3 (-c)");
  expect_refusal(run_with(dream_path(), {"-c", "30", "-n", "28"}), 1,
                 "the prompt has 3 tokens, 28 are to be generated, the context holds 30 (-c sets it)");
  expect_refusal(run_with(dream_path(), {"-n", "1000000", "--diffusion-block-length", "1"}), 1,
                 "1000000 are to be generated, the context holds 128");
  expect_refusal(run_with(dream_path(), {"-n", "28", "-ub", "30"}), 1, "a text of 31 tokens, micro-batch of 30 (-ub)");
  EXPECT_EQ(run_with(dream_path(), {"-n", "28", "-ub", "31", "-q"}).status, 0);
  expect_refusal(run_with(llada_path(), {"-c", "20", "--diffusion-block-length", "32"}), 1,
                 "--diffusion-block-length 32: the prompt leaves 17 tokens of a context of 20 (-c)");
}

TEST(RunDiffusion, BadValuesNameFlagValueAndRange) {
  const auto refuse = [](const Words& flags, int status, const std::string& part) {
    expect_refusal(run_with(llada_path(), flags), status, part);
  };
  refuse({"-n", "100", "--diffusion-block-length", "32"}, 1,
         "--diffusion-block-length 32: want a divisor of the 100 tokens (-n)");
  refuse({"-n", "96", "--diffusion-block-length", "32", "--diffusion-steps", "4"}, 1,
         "--diffusion-steps 4: want a multiple of the 3 blocks of 32 tokens");
  refuse({"--diffusion-steps", "0"}, 2, "--diffusion-steps: ");
  refuse({"--diffusion-eps", "1"}, 2, "--diffusion-eps: ");
  refuse({"--diffusion-algorithm", "5"}, 2,
         "--diffusion-algorithm: \"5\" is not one of origin, entropy, margin, random, confidence, nor a number from 0 "
         "to 4");
  refuse({"--diffusion-alg-temp", "-1"}, 2, "--diffusion-alg-temp: ");
  refuse({"--diffusion-cfg-scale", "nan"}, 2, "--diffusion-cfg-scale: ");
  refuse({"--diffusion-gumbel", "1e9"}, 2, "--diffusion-gumbel: ");
  refuse({"--diffusion-eps", "0.1", "--diffusion-block-length", "32"}, 2,
         "--diffusion-eps and --diffusion-block-length: give one of them");
}

TEST(RunDiffusion, FlagsOfOtherModelsAreRefused) {
  for (const auto& [flags, name] :
       std::vector<std::pair<Words, std::string>>{{{"--min-p", "0.1"}, "--min-p"},
                                                  {{"--typical", "0.5"}, "--typical"},
                                                  {{"--samplers", "top_k"}, "--samplers"},
                                                  {{"--sampling-seq", "k"}, "--sampling-seq"},
                                                  {{"--repeat-penalty", "1.2"}, "--repeat-penalty"},
                                                  {{"--logit-bias", "5+1"}, "--logit-bias"},
                                                  {{"--mirostat", "2"}, "--mirostat"},
                                                  {{"--context-shift"}, "--context-shift"},
                                                  {{"--spec-type", "ngram"}, "--spec-type"},
                                                  {{"--regex", "a+"}, "a grammar"}})
    expect_refusal(run_with(dream_path(), flags), 1, name + ": does not apply to dream, which fills in a whole text");
}

TEST(RunDiffusion, ItsFlagsAreRefusedWithOtherModels) {
  expect_refusal(
      run_with(testing::story_model(), {"--diffusion-steps", "4"}), 1,
      "--diffusion-steps: the model (llama) generates token by token, and this flag is for diffusion models");
  expect_refusal(run_program({"plan", "-m", testing::story_model(), "--diffusion-visual"}), 1,
                 "--diffusion-visual: the model (llama)");
}

TEST(RunDiffusion, AModelWithoutAMaskIsRefused) {
  testing::EditableModel model = testing::diffusion_model("dream-dense");
  model.builder.set("tokenizer.ggml.mask_token_id", uint32_t{0xFFFFFFFF});
  expect_refusal(run_with(model.write("unmasked.gguf"), {}), 1,
                 "no mask token (key 'tokenizer.ggml.mask_token_id'), which generation by diffusion needs");
}

TEST(RunDiffusion, ChatSaysWhatToUseInstead) {
  expect_refusal(run_program({"chat", "-m", dream_path()}, "hello"), 1, "dream fills in a whole text at once: use `te");
}

TEST(RunDiffusion, ThePlanIsThatOfTheRun) {
  const auto plan = [](Words more) {
    more.insert(more.begin(), {"plan", "-m", llada_path(), "--json"});
    const ProgramOutput output = run_program(more);
    EXPECT_EQ(output.status, 0) << output.err;
    return nlohmann::json::parse(output.out, nullptr, false);
  };
  const auto output_bytes = [](const nlohmann::json& of) {
    for (const auto& buffer : of["buffers"])
      if (buffer["what"] == "output") return buffer["bytes"].get<size_t>();
    return size_t{0};
  };
  const size_t row = testing::kDiffusionVocab * sizeof(float);
  const auto blocks = plan({"-p", "abc", "-n", "64", "--diffusion-block-length", "16"});
  EXPECT_EQ(blocks["n_ubatch"], 67);
  EXPECT_EQ(output_bytes(blocks), 16 * row);
  EXPECT_EQ(output_bytes(plan({"-p", "abc", "-n", "64", "--diffusion-eps", "0.1"})), 64 * row);
  EXPECT_EQ(output_bytes(plan({"-p", "abc", "-n", "64", "--diffusion-eps", "0.1", "--diffusion-cfg-scale", "1"})),
            128 * row);
  EXPECT_EQ(plan({"-n", "32"})["n_ubatch"], 128);  // without a prompt, the longest text
  // Smaller micro-batches would fit, but the text is computed at once.
  const auto total = blocks["total_bytes"].get<size_t>(), compute = blocks["compute_bytes"].get<size_t>();
  const Words flags = {"plan", "-m", llada_path(), "-p", "abc", "-n", "64", "--diffusion-block-length", "16"};
  Words little = flags;
  little.insert(little.end(), {"--memory", std::to_string(total - compute / 3)});
  expect_refusal(run_program(little), 1, "nothing fits in");
  const auto fitted =
      plan({"-p", "abc", "-n", "64", "--diffusion-block-length", "16", "--memory", std::to_string(total)});
  EXPECT_EQ(fitted["n_ubatch"], 67);
}

}  // namespace
}  // namespace tessera
