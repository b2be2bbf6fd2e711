// tessera tune and the tunings that other commands use.
#include "tessera/cli/tuning.h"

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tessera/base/file.h"
#include "tessera/cli/tuner.h"
#include "tessera/cli/tuning_file.h"
#include "tests/cli/cli_support.h"
#include "tests/support/head_model.h"

namespace tessera {
namespace {

using cli::Tuning;
using cli::TuningFile;
using nlohmann::json;
using testing::ProgramOutput;
using testing::run_program;
using testing::story_model;
using testing::temporary_dir;

const CancelToken kNoCancel;

// A folder for the state of the program, and the file of tunings in it.
class State {
 public:
  explicit State(const std::string& name) : folder_(temporary_dir() / name) { std::filesystem::remove_all(folder_); }

  std::string file() const { return (folder_ / "tessera" / "tuning.json").string(); }
  ProgramOutput run(const std::vector<std::string>& args) const {
    return run_program(args, "", {"XDG_STATE_HOME=" + folder_.string()});
  }
  void keep(const Tuning& tuning, const std::string& machine = cli::machine_identity()) const {
    ASSERT_OK_AND_ASSIGN(const std::string model, cli::model_identity(story_model()));
    ASSERT_OK(TuningFile::keep(file(), machine, model, tuning, kNoCancel));
  }
  void write(const std::string& text) const {
    std::filesystem::create_directories(folder_ / "tessera");
    AtomicFile out = *AtomicFile::create(file());
    ASSERT_OK(out.write(std::as_bytes(std::span(text))));
    ASSERT_OK(out.commit());
  }

 private:
  std::filesystem::path folder_;
};

json bench_row(const State& state, std::vector<std::string> flags) {
  std::vector<std::string> args = {"bench", "-m", story_model(), "-p", "4", "-n", "0", "-r", "1", "-o", "jsonl"};
  args.insert(args.end(), flags.begin(), flags.end());
  const ProgramOutput output = state.run(args);
  EXPECT_EQ(output.status, 0) << output.err;
  return json::parse(output.out);
}

TEST(Tune, MeasuresEverySettingAndKeepsTheChoice) {
  const State state("tune-keeps");
  // Such a small request needs a few hundred milliseconds for all rounds. The time is enough for a busy machine too.
  const ProgramOutput tuned = state.run({"tune", "-m", story_model(), "--seconds", "600", "-p", "96", "-n", "8"});
  ASSERT_EQ(tuned.status, 0) << tuned.err;
  for (const char* part : {"setting      choice     time of 96 + 8 tokens\n", "\nthreads      ", "\nplacement    ",
                           "\nmicro-batch  ", "\nguesses      ", "512: ", "64: ", "free: ", "a CPU each: "})
    EXPECT_NE(tuned.out.find(part), std::string::npos) << part << "\n" << tuned.out;
  EXPECT_EQ(tuned.out.find("128: "), std::string::npos) << tuned.out;  // longer than the prompt
  EXPECT_NE(tuned.err.find("kept in " + state.file()), std::string::npos) << tuned.err;

  ASSERT_OK_AND_ASSIGN(const TuningFile file, TuningFile::read(state.file()));
  ASSERT_OK_AND_ASSIGN(const std::string model, cli::model_identity(story_model()));
  const Tuning* kept = file.find(cli::machine_identity(), model);
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(kept->date.size(), 10u);
  const ProgramOutput run = state.run({"run", "-m", story_model(), "-p", "Once", "-n", "8", "--temp", "0"});
  EXPECT_NE(run.err.find("tuned on " + kept->date + ": " + cli::describe(*kept)), std::string::npos) << run.err;
  const ProgramOutput untuned =
      state.run({"run", "-m", story_model(), "-p", "Once", "-n", "8", "--temp", "0", "--no-tuning"});
  EXPECT_EQ(untuned.err.find("tuned on"), std::string::npos) << untuned.err;
  EXPECT_EQ(run.out, untuned.out);

  EXPECT_EQ(state.run({"tune", "-m", story_model(), "--forget"}).out, "removed the tuning of the model\n");
  EXPECT_EQ(state.run({"tune", "-m", story_model(), "--forget"}).out, "there is no tuning of the model\n");
  EXPECT_EQ(state.run({"run", "-m", story_model(), "-p", "Once", "-n", "1"}).err.find("tuned"), std::string::npos);
}

TEST(Tune, InterruptKeepsNothing) {
  const State state("tune-interrupted");
  const std::string out = (temporary_dir() / "tune.out").string();
  testing::Child child(
      {"tune", "-m", story_model(), "--seconds", "3000", "-p", "30000", "-n", "30000"}, out,
      {"/usr/bin/env", "XDG_STATE_HOME=" + std::filesystem::path(state.file()).parent_path().parent_path().string(),
       testing::program_path()});
  child.wait_for_output(10);  // the title: measurements have begun
  child.send(SIGINT);
  EXPECT_EQ(child.wait().status, 130);
  EXPECT_FALSE(std::filesystem::exists(state.file()));
}

TEST(Tuning, BenchUsesItWhereFlagsSayNothingElse) {
  const State state("tuning-bench");
  state.keep(
      {.n_threads = 3, .has_cpu_each = false, .n_ubatch = 32, .kinds = {DraftKind::suffix}, .date = "2026-01-02"});
  const json tuned = bench_row(state, {});
  EXPECT_EQ(tuned["n_threads"], 3);
  EXPECT_EQ(tuned["n_ubatch"], 32);
  EXPECT_EQ(bench_row(state, {"-t", "1"})["n_threads"], 1);
  EXPECT_EQ(bench_row(state, {"-t", "1"})["n_ubatch"], 32);
  EXPECT_EQ(bench_row(state, {"-ub", "64"})["n_threads"], 3);
  EXPECT_EQ(bench_row(state, {"-ub", "64"})["n_ubatch"], 64);
  EXPECT_NE(bench_row(state, {"--cpu-strict", "0"})["n_threads"], 3);  // the flag places threads
  EXPECT_NE(bench_row(state, {"--no-tuning"})["n_threads"], 3);
  EXPECT_EQ(bench_row(state, {"--no-tuning"})["n_ubatch"], 512);
}

TEST(Tuning, APredictionHeadIsTried) {
  const State state("tuning-head");
  const std::string model = story_head_model();
  const ProgramOutput tuned = state.run({"tune", "-m", model, "-p", "32", "-n", "4", "--seconds", "2"});
  ASSERT_EQ(tuned.status, 0) << tuned.err;
  if (tuned.out.find("too slow to measure") != std::string::npos) GTEST_SKIP() << "the machine is busy";
  for (const char* part : {"suffix on prose: ", "mtp on prose: ", "suffix,mtp on prose: "})
    EXPECT_NE(tuned.out.find(part), std::string::npos) << part << "\n" << tuned.out;
}

TEST(Tuning, TheLineHasThePlacementThatIsUsed) {
  const State state("tuning-placement");
  state.keep({.n_threads = 2, .has_cpu_each = true, .is_distributed = true, .n_ubatch = 32, .date = "2026-01-02"});
  const std::vector<std::string> run = {"run", "-m", story_model(), "-p", "Once", "-n", "1"};
  const ProgramOutput tuned = state.run(run);
  EXPECT_NE(tuned.err.find("2 threads with a CPU each spread over memory nodes, micro-batch 32"), std::string::npos)
      << tuned.err;
  std::vector<std::string> placed = run;
  placed.insert(placed.end(), {"-t", "1"});
  const ProgramOutput flags = state.run(placed);
  EXPECT_NE(flags.err.find("tuned on 2026-01-02: 1 thread, micro-batch 32"), std::string::npos) << flags.err;
}

TEST(Tuning, RunPlanAndServeUseIt) {
  const State state("tuning-run");
  state.keep({.n_threads = 2, .n_ubatch = 32, .kinds = {DraftKind::suffix}, .date = "2026-01-02"});
  const std::string line = "tuned on 2026-01-02: 2 threads, micro-batch 32, guesses by suffix (--no-tuning";
  const ProgramOutput run = state.run({"run", "-m", story_model(), "-p", "Once", "-n", "4"});
  EXPECT_NE(run.err.find(line), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("guesses right"), std::string::npos) << run.err;
  const ProgramOutput other = state.run({"run", "-m", story_model(), "-p", "Once", "-n", "4", "--spec-type", "none"});
  EXPECT_EQ(other.err.find("guesses"), std::string::npos) << other.err;
  EXPECT_NE(other.err.find("tuned on 2026-01-02: 2 threads, micro-batch 32 (--no"), std::string::npos) << other.err;
  EXPECT_EQ(state.run({"run", "-q", "-m", story_model(), "-p", "Once", "-n", "1"}).err, "");
  const auto planned_ubatch = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"plan", "--json", "-m", story_model()});
    return json::parse(state.run(flags).out);
  };
  EXPECT_NE(planned_ubatch({}), planned_ubatch({"--no-tuning"}));
  EXPECT_EQ(planned_ubatch({}), planned_ubatch({"--no-tuning", "-ub", "32", "--spec-type", "suffix"}));
  EXPECT_EQ(planned_ubatch({"--serve"}),
            planned_ubatch({"--serve", "--no-tuning", "-ub", "32", "--spec-type", "suffix"}));
}

TEST(Tuning, BelongsToOneModelAndOneMachine) {
  const State state("tuning-others");
  state.keep({.n_threads = 3, .n_ubatch = 32, .date = "2026-01-02"}, "another machine");
  EXPECT_EQ(bench_row(state, {})["n_ubatch"], 512);
  EXPECT_NE(*cli::model_identity(story_model()), *cli::model_identity(""));
  EXPECT_NE(*cli::model_identity(testing::write_temporary("a.bin", "abc")),
            *cli::model_identity(testing::write_temporary("b.bin", "abd")));
  EXPECT_EQ(*cli::model_identity(testing::write_temporary("a.bin", "abc")),
            *cli::model_identity(testing::write_temporary("c.bin", "abc")));
  const std::string long_text(200'000, 'x');
  std::string other_end = long_text;
  other_end.back() = 'y';
  EXPECT_NE(*cli::model_identity(testing::write_temporary("a.bin", long_text)),
            *cli::model_identity(testing::write_temporary("b.bin", other_end)));
  EXPECT_FALSE(cli::model_identity("no-such-file").has_value());
}

TEST(Tuning, BrokenFileIsAWarningForRunAndAnErrorForTune) {
  const State state("tuning-broken");
  state.write("{\"tunings\": 5}");
  const ProgramOutput run = state.run({"run", "-m", story_model(), "-p", "Once", "-n", "1"});
  EXPECT_EQ(run.status, 0);
  EXPECT_NE(run.err.find("warning: " + state.file() + ": no list tunings"), std::string::npos) << run.err;
  const ProgramOutput tune = state.run({"tune", "-m", story_model()});
  EXPECT_EQ(tune.status, 1);
  EXPECT_NE(tune.err.find("error: " + state.file()), std::string::npos) << tune.err;
  EXPECT_EQ(testing::read_all(state.file()), "{\"tunings\": 5}");
}

TEST(Tuning, AFolderThatCannotBeWrittenIsAnErrorBeforeTheMeasurements) {
  const std::string file = testing::write_temporary("no-folder", "");
  const ProgramOutput output = run_program({"tune", "-m", story_model()}, "", {"XDG_STATE_HOME=" + file});
  EXPECT_EQ(output.status, 1);
  EXPECT_EQ(output.out, "");
  EXPECT_NE(output.err.find("cannot create its folder"), std::string::npos) << output.err;
}

TEST(Tuning, NeedsAFolder) {
  const ProgramOutput output = run_program({"tune", "-m", story_model()}, "", {"XDG_STATE_HOME=", "HOME="});
  EXPECT_EQ(output.status, 2);
  EXPECT_NE(output.err.find("set HOME or XDG_STATE_HOME"), std::string::npos) << output.err;
  EXPECT_EQ(run_program({"run", "-m", story_model(), "-p", "a", "-n", "1"}, "", {"XDG_STATE_HOME=", "HOME="}).status,
            0);
}

TEST(TuningFile, KeepsAndRemovesTunings) {
  const State state("tuning-file");
  const Tuning first{.n_threads = 7,
                     .has_cpu_each = true,
                     .is_distributed = true,
                     .n_ubatch = 1024,
                     .kinds = {DraftKind::ngram, DraftKind::suffix},
                     .date = "2026-03-04"};
  ASSERT_OK(TuningFile::keep(state.file(), "m", "one", {.n_threads = 1}, kNoCancel));
  ASSERT_OK(TuningFile::keep(state.file(), "m", "two", {.n_threads = 2}, kNoCancel));
  ASSERT_OK(TuningFile::keep(state.file(), "m", "one", first, kNoCancel));
  ASSERT_OK_AND_ASSIGN(TuningFile file, TuningFile::read(state.file()));
  const Tuning* one = file.find("m", "one");
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(cli::describe(*one),
            "7 threads with a CPU each spread over memory nodes, micro-batch 1024, guesses by ngram,suffix");
  EXPECT_EQ(one->date, "2026-03-04");
  ThreadPoolOptions threads;
  one->apply_threads(threads);
  EXPECT_EQ(threads.n_threads, 7);
  EXPECT_EQ(threads.affinity, Affinity::strict);
  EXPECT_EQ(threads.numa, NumaPolicy::distribute);
  EXPECT_EQ(file.find("m", "two")->n_threads, 2);
  EXPECT_EQ(file.find("n", "one"), nullptr);
  ASSERT_OK_AND_ASSIGN(bool was_there, TuningFile::remove(state.file(), "m", "one", kNoCancel));
  EXPECT_TRUE(was_there);
  ASSERT_OK_AND_ASSIGN(was_there, TuningFile::remove(state.file(), "m", "one", kNoCancel));
  EXPECT_FALSE(was_there);
  ASSERT_OK_AND_ASSIGN(file, TuningFile::read(state.file()));
  EXPECT_EQ(file.find("m", "one"), nullptr);
  EXPECT_NE(file.find("m", "two"), nullptr);
}

TEST(TuningFile, RefusesWhatItDoesNotKnow) {
  const json good = {{"machine", "m"},          {"model", "x"},        {"threads", 2},
                     {"cpu_strict", false},     {"numa", false},       {"ubatch_size", 512},
                     {"spec_type", {"suffix"}}, {"date", "2026-01-02"}};
  const State state("tuning-refuses");
  const auto read = [&](const json& tuning) {
    state.write(json{{"tunings", {tuning}}}.dump());
    return TuningFile::read(state.file());
  };
  EXPECT_OK(read(good));
  for (const auto& [key, value] : good.items()) {
    json without = good;
    without.erase(key);
    EXPECT_FALSE(read(without).has_value()) << key;
    json other = good;
    other[key] = nullptr;
    EXPECT_FALSE(read(other).has_value()) << key;
  }
  const std::pair<const char*, json> kBad[] = {{"threads", 0},       {"threads", 513},       {"threads", 1.5},
                                               {"ubatch_size", 0},   {"ubatch_size", 65537}, {"spec_type", {"draft"}},
                                               {"spec_type", {"x"}}, {"spec_type", {1}},     {"cpu_strict", 1}};
  for (const auto& [key, value] : kBad) {
    json other = good;
    other[key] = value;
    EXPECT_FALSE(read(other).has_value()) << key << " " << value;
  }
  EXPECT_FALSE(read(5).has_value());
  for (const char* text : {"", "[]", "{}", "{\"tunings\": {}}", "{\"tunings\": []", "\xff"}) {
    state.write(text);
    EXPECT_FALSE(TuningFile::read(state.file()).has_value()) << text;
  }
  json many = json::array();
  for (int i = 0; i < 1000; ++i) {
    many.push_back(good);
    many.back()["model"] = std::to_string(i);
  }
  state.write(json{{"tunings", many}}.dump());
  EXPECT_OK(TuningFile::keep(state.file(), "m", "7", {.n_threads = 5}, kNoCancel));
  const auto full = TuningFile::keep(state.file(), "m", "new", {.n_threads = 5}, kNoCancel);
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().code(), ErrorCode::limit);
  many.push_back(good);
  state.write(json{{"tunings", many}}.dump());
  EXPECT_FALSE(TuningFile::read(state.file()).has_value());
}

TEST(Tuner, OnlyAClearGainReplacesTheFirstSetting) {
  const auto winner = [](std::vector<double> seconds) { return cli::clear_winner(seconds); };
  EXPECT_EQ(winner({1.0}), 0u);
  EXPECT_EQ(winner({1.0, 0.99, 1.2}), 0u);
  EXPECT_EQ(winner({1.0, 0.97, 0.9}), 2u);
  EXPECT_EQ(winner({1.0, 0.97, 1.5}), 1u);
  constexpr double kDoesNotFit = std::numeric_limits<double>::infinity();
  EXPECT_EQ(winner({kDoesNotFit, 1.0}), 1u);
  EXPECT_EQ(winner({1.0, kDoesNotFit}), 0u);
}

}  // namespace
}  // namespace tessera
