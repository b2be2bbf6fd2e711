// Flags of the number of threads and their CPUs: the resolved values, and results that do not depend on them.
#include "tessera/base/cpu_info.h"
#include "tessera/cli/model_args.h"
#include "tests/cli/cli_support.h"

namespace tessera {
namespace {

using testing::expect_refusal;
using testing::ProgramOutput;
using testing::run_program;

// Restores the thread's CPUs, which --numa isolate changes.
class Threads : public ::testing::Test {
 protected:
  ~Threads() override { static_cast<void>(set_thread_affinity(before_)); }
  std::string one_cpu() const { return std::to_string(before_.cpus().back()); }
  const CpuMask before_ = thread_affinity();
};

TEST_F(Threads, UnknownNumaPolicyIsRefusedWithTheNames) {
  for (const char* command : {"run", "logits", "bench", "perplexity", "quantize"})
    for (const char* name : {"", "none", "Isolate", "mirror"})
      expect_refusal(run_program({command, "--numa", name}), 2,
                     "--numa: '" + std::string(name) + "' is not one of distribute, isolate, numactl");
  expect_refusal(run_program({"run", "-m", "x"}, "", {"TESSERA_NUMA=1"}), 2, "TESSERA_NUMA: '1' is not one of");
}

TEST_F(Threads, LogitsAreTheSameWhereverThreadsRun) {
  const std::string model = testing::story_model();
  const std::string file = (testing::temporary_dir() / "threads.logits").string();
  const auto logits = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"logits", "-m", model, "--tokens", "1,403,407,261,378", "-o", file});
    const ProgramOutput output = run_program(flags);
    EXPECT_EQ(output.status, 0) << output.err;
    EXPECT_EQ(output.err, "");
    return testing::read_all(file);
  };
  const std::string expected = logits({"-t", "1"});
  for (const char* policy : {"distribute", "isolate", "numactl"})
    for (const char* n_threads : {"1", "3"})
      EXPECT_TRUE(logits({"-t", n_threads, "--numa", policy}) == expected) << policy << " " << n_threads;
  EXPECT_TRUE(logits({"--numa", "distribute", "-Cr", one_cpu(), "--cpu-strict", "1", "-t", "2"}) == expected);
}

TEST_F(Threads, DefaultCountIsThatOfTheCpusThatWereNamed) {
  cli::ContextArgs all, masked, asked;
  masked.cpu_range = asked.cpu_range = one_cpu();
  asked.has_threads = true;
  asked.session.threads.n_threads = 5;
  const int expected = default_thread_count();
  for (cli::ContextArgs* args : {&all, &masked, &asked}) ASSERT_OK(args->check());
  EXPECT_EQ(all.session.threads.n_threads, expected);
  EXPECT_EQ(masked.session.threads.n_threads, 1);
  EXPECT_EQ(asked.session.threads.n_threads, 5);
}

TEST_F(Threads, ThreadsFlagCountsAsGiven) {
  cli::ContextArgs args;
  cli::FlagTable table;
  args.add_to(table);
  const auto flag = std::ranges::find(table.flags, "--threads", &cli::Flag::name);
  ASSERT_NE(flag, table.flags.end());
  ASSERT_OK(flag->set("7"));
  args.cpu_range = one_cpu();
  ASSERT_OK(args.check());
  EXPECT_EQ(args.session.threads.n_threads, 7);
}

TEST_F(Threads, CpusThatWereNamedAreThoseOfTheWholeProcess) {
  const CpuMask one = CpuMask::from_list(one_cpu()).value();
  cli::ContextArgs args;
  args.cpu_range = one_cpu();
  ASSERT_OK(args.check());
  EXPECT_EQ(thread_affinity(), one);
}

TEST_F(Threads, IsolateNamesTheCpusOfThisNode) {
  const CpuMask here = numa_cpus_here(before_);
  cli::ContextArgs args;
  args.session.threads.numa = NumaPolicy::isolate;
  ASSERT_OK(args.check());
  EXPECT_EQ(args.session.threads.cpus, here);
  EXPECT_EQ(thread_affinity(), here);
}

}  // namespace
}  // namespace tessera
