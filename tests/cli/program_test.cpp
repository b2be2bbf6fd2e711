// The command line as a whole: refusals before anything is loaded, help, version, man pages and completions.
#include <cstdlib>
#include <regex>

#include "tests/cli/cli_support.h"

namespace tessera {
namespace {

using testing::expect_refusal;
using testing::ProgramOutput;
using testing::run_program;

const std::vector<std::string> kModelCommands = {"tokenize", "detokenize", "logits", "inspect", "bench", "finetune"};
const std::vector<std::string> kCommands = {
    "run",        "tokenize", "detokenize", "logits", "inspect", "plan",  "bench",   "devices", "quantize", "imatrix",
    "perplexity", "split",    "merge",      "verify", "graph",   "trace", "compare", "reply",   "convert"};

TEST(Program, WithoutArgumentsListsTheCommands) {
  const ProgramOutput output = run_program({});
  EXPECT_EQ(output.status, 2);
  EXPECT_EQ(output.out, "");
  for (const std::string& command : kCommands) EXPECT_NE(output.err.find("  " + command + " "), std::string::npos);
}

TEST(Program, UnknownCommandNamesTheNearest) {
  expect_refusal(run_program({"tokenise"}), 2, "unknown command 'tokenise'; did you mean tokenize?");
  expect_refusal(run_program({"xyzzyxyzzy"}), 2, "unknown command 'xyzzyxyzzy'");
}

struct Refusal {
  std::vector<std::string> args;
  std::string message;
};

TEST(Program, WrongCommandLinesAreRefusedBeforeTheModelIsOpened) {
  const Refusal refusals[] = {
      {{"--tempp", "1"}, "unknown flag --tempp; did you mean --temp?"},
      {{"-n"}, "-n wants a value: N"},
      {{"-p", "-n"}, "-p wants a value: TEXT, got the flag -n"},
      {{"-c", "-5"}, "-c: -5 is out of range"},
      {{"-c", "99999999999"}, "-c: 99999999999 is out of range"},
      {{"-t", "0"}, "-t: 0 is out of range"},
      {{"-t", "two"}, "-t: 'two' is not a whole number"},
      {{"-ub", "0"}, "-ub: 0 is out of range"},
      {{"--temp", "0,8"}, "--temp: '0,8' is not a number"},
      {{"--temp", "nan"}, "--temp: nan is out of range"},
      {{"--top-p", "1e999"}, "--top-p: '1e999' is not a number"},
      {{"-ctk", "q9_9"}, "-ctk: 'q9_9' is not a type"},
      {{"-lm", "magic"}, "-lm: 'magic' is not a load mode"},
      {{"--echo=1"}, "--echo takes no value"},
      {{"model.gguf"}, "unexpected argument 'model.gguf'"},
      {{"-p", "a", "-f", "b"}, "--prompt and --file: give one of them"},
      {{"--samplers", "top_k", "--sampling-seq", "k"}, "--samplers and --sampling-seq: give one of them"},
      {{"-C", "3", "-Cr", "0-1"}, "--cpu-mask and --cpu-range: give one of them"},
      {{"-l", "5"}, "-l: '5': want TOKEN_ID+BIAS"},
  };
  for (const Refusal& refusal : refusals) {
    std::vector<std::string> args = {"run", "-m", "/no/such/model.gguf"};
    args.insert(args.end(), refusal.args.begin(), refusal.args.end());
    expect_refusal(run_program(args), 2, refusal.message);
    args[0] = "plan";
    expect_refusal(run_program(args), 2, refusal.message);
  }
}

TEST(Program, EveryCommandThatNeedsAModelSaysSo) {
  for (const std::string& command : kModelCommands)
    expect_refusal(run_program({command}), 2, "no model: give one with -m FILE or TESSERA_MODEL");
}

TEST(Program, GarbageInTheEnvironmentIsRefused) {
  expect_refusal(run_program({"run", "-m", "x"}, "", {"TESSERA_THREADS=x"}), 2,
                 "TESSERA_THREADS: 'x' is not a whole number");
}

TEST(Program, ModelComesFromTheEnvironment) {
  expect_refusal(run_program({"inspect"}, "", {"TESSERA_MODEL=/no/such/model.gguf"}), 1, "/no/such/model.gguf");
}

TEST(Program, MissingModelIsNamed) {
  expect_refusal(run_program({"run", "-m", "/no/such/model.gguf", "-p", "x"}), 1, "/no/such/model.gguf: cannot open");
}

TEST(Program, NamesInErrorsReachTheTerminalWithoutControls) {
  const ProgramOutput output = run_program({"inspect", "\x1b[2J\xc2\x9b\xff\n"});
  expect_refusal(output, 1, "error: ?[2J??\xEF\xBF\xBD?: cannot open");
}

TEST(Program, VersionIsOneLineWithTheCommitIfItIsKnown) {
  const ProgramOutput output = run_program({"--version"});
  EXPECT_EQ(output.status, 0);
  const std::regex line(R"(tessera \d+\.\d+\.\d+( \([0-9a-f]{12,40}(, dirty)?\))?\n)");
  EXPECT_TRUE(std::regex_match(output.out, line)) << output.out;
}

TEST(Program, HelpShowsCommonFlagsAndHelpAllEveryOne) {
  const ProgramOutput common = run_program({"run", "-h"}), all = run_program({"run", "--help-all"});
  EXPECT_EQ(common.status, 0);
  EXPECT_NE(common.out.find("--ctx-size"), std::string::npos);
  EXPECT_EQ(common.out.find("--yarn-beta-fast"), std::string::npos);
  EXPECT_NE(all.out.find("--yarn-beta-fast"), std::string::npos);
  for (const std::string& command : kCommands) {
    const ProgramOutput help = run_program({"help", command});
    EXPECT_EQ(help.status, 0);
    EXPECT_TRUE(help.out.starts_with("tessera " + command)) << help.out;
  }
  expect_refusal(run_program({"help", "nothing"}), 2, "unknown command 'nothing'");
}

TEST(Program, ManPagesNameEveryFlag) {
  EXPECT_TRUE(run_program({"man"}).out.starts_with(".TH tessera 1"));
  for (const std::string& command : kCommands) {
    const ProgramOutput page = run_program({"man", command});
    EXPECT_EQ(page.status, 0);
    EXPECT_TRUE(page.out.starts_with(".TH tessera-" + command + " 1")) << page.out;
    EXPECT_NE(page.out.find(".B \\-\\-help, \\-h"), std::string::npos);
    EXPECT_EQ(page.out.find(" here)"), std::string::npos) << "a default of this machine in the page of " << command;
  }
}

TEST(Program, BashCompletionIsAScriptThatCompletes) {
  const ProgramOutput output = run_program({"completion", "bash"});
  EXPECT_EQ(output.status, 0);
  const std::string script = testing::write_temporary("completion.bash", output.out);
  EXPECT_EQ(std::system(("bash -n " + script).c_str()), 0);
  const std::string answer = (testing::temporary_dir() / "answer").string();
  const std::string command = "bash -c 'source " + script +
                              "; COMP_WORDS=(tessera run --ctx); COMP_CWORD=2; _tessera; echo ${COMPREPLY[*]}' > " +
                              answer;
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(testing::read_all(answer), "--ctx-size\n");
}

TEST(Program, OtherShellsHaveCompletionsAndUnknownOnesAnError) {
  EXPECT_NE(run_program({"completion", "zsh"}).out.find("#compdef tessera"), std::string::npos);
  EXPECT_NE(run_program({"completion", "fish"}).out.find("complete -c tessera"), std::string::npos);
  expect_refusal(run_program({"completion", "tcsh"}), 2, "want bash, zsh or fish");
}

TEST(Program, FullDiskIsAnError) {
  const ProgramOutput output = testing::Child({"help", "run"}, "/dev/full").wait();
  expect_refusal(output, 1, "cannot write to stdout: No space left on device");
}

}  // namespace
}  // namespace tessera
