// The program under mpirun: the same results as from one process, and errors when a rank is lost. Skipped without Open
// MPI.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ranges>

#include "tests/cli/cli_support.h"
#include "tests/server/http_client.h"
#include "tests/support/spec_model.h"
#include "tests/support/wait.h"

namespace tessera {
namespace {

using namespace testing;
using Args = std::vector<std::string>;

constexpr const char* kMpirun = "/usr/bin/mpirun";

bool has_open_mpi() {
  const auto library = std::filesystem::path(program_path()).parent_path().parent_path() / "lib/tessera";
  return std::filesystem::exists(kMpirun) && std::filesystem::exists(library / "libtessera-mpi.so");
}

#define TESSERA_OPEN_MPI_OR_SKIP() \
  if (!has_open_mpi()) GTEST_SKIP() << "no " << kMpirun << ", or a build without libtessera-mpi.so"

Args mpirun(int n_ranks) {
  return {kMpirun, "--allow-run-as-root",   "--oversubscribe", "--bind-to", "none",
          "-np",   std::to_string(n_ranks), program_path()};
}

Args operator+(Args args, const Args& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

ProgramOutput run_ranks(int n_ranks, const Args& args) {
  return Child(args, temporary_path("ranks.out"), mpirun(n_ranks)).wait();
}

// The processes of a job that has not ended, in order of their numbers: ranks are started one after the other.
std::vector<pid_t> ranks_of(const Child& job) {
  std::vector<pid_t> ranks;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (!std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; })) continue;
    std::ifstream stat(entry.path() / "stat");
    std::string text((std::istreambuf_iterator<char>(stat)), {});
    const size_t end = text.rfind(')');  // of the name, which may have spaces; then the state and the parent
    if (end == std::string::npos || text.size() < end + 4) continue;
    if (std::atoi(text.c_str() + end + 4) == job.pid() && text.find("(tessera)") != std::string::npos)
      ranks.push_back(static_cast<pid_t>(std::stol(name)));
  }
  std::ranges::sort(ranks);
  return ranks;
}

std::string logits_of(int n_ranks, const std::string& model, const Args& flags) {
  const std::string path = temporary_path("ranks.logits");
  std::filesystem::remove(path);
  std::string tokens = "1";
  for (int i = 0; i < 40; ++i) tokens += fmt::format(",{}", (i * 7 + 3) % 90);
  const Args args = Args{"logits", "-m", model, "--tokens", tokens, "-o", path, "-t", "1"} + flags;
  const ProgramOutput output = n_ranks == 1 ? run_program(args) : run_ranks(n_ranks, args);
  EXPECT_EQ(output.status, 0) << output.err;
  return read_all(path);
}

TEST(Mpirun, LogitsAreThoseOfOneProcess) {
  TESSERA_OPEN_MPI_OR_SKIP();
  for (const std::string name : {"story", "qwen2moe-moe", "falcon-h1-dense"}) {
    const std::string model = named_model(name);
    const std::string alone = logits_of(1, model, {"-dev", "none"});
    EXPECT_EQ(logits_of(2, model, {"-dev", "mpi"}), alone) << name;
    EXPECT_EQ(logits_of(3, model, {"-dev", "mpi", "-ub", "7", "-ts", "1,2"}), alone) << name;
    EXPECT_EQ(logits_of(3, model, {"-dev", "mpi", "-sm", "row"}), alone) << name;
    EXPECT_EQ(logits_of(4, model, {"-dev", "mpi:3,mpi:1", "-ngl", "2"}), alone) << name;
  }
}

TEST(Mpirun, WeightsComeFromTheFileOfEachRankOrFromRank0) {
  TESSERA_OPEN_MPI_OR_SKIP();
  const std::string model = story_model(), other = write_temporary("other.gguf", read_all(arch_model("llama-dense")));
  const std::string alone = logits_of(1, model, {"-dev", "none"});
  for (const Args& files : {Args{"--mpi-files", "send"}, Args{"--mpi-files", "local"}, Args{"--mpi-model", other},
                            Args{"--mpi-files", "local", "--mpi-model", write_temporary("copy.gguf", read_all(model))}})
    EXPECT_EQ(logits_of(2, model, Args{"-dev", "mpi"} + files), alone) << files.back();
  const ProgramOutput output = run_ranks(2, {"logits", "-m", model, "--tokens", "1", "-dev", "mpi", "--mpi-files",
                                             "local", "--mpi-model", other, "-o", temporary_path("no.logits")});
  EXPECT_EQ(output.status, 1);
  EXPECT_NE(output.err.find("error: mpi:1 ("), std::string::npos) << output.err;
  EXPECT_NE(output.err.find(" bytes, "), std::string::npos) << output.err;
}

TEST(Mpirun, TextAndPerplexityAreThoseOfOneProcess) {
  TESSERA_OPEN_MPI_OR_SKIP();
  const Args text = {"run", "-m", story_model(), "-p", "Once", "-n", "24", "--temp", "0", "-q", "-t", "1"};
  EXPECT_EQ(run_ranks(2, text + Args{"-dev", "mpi"}).out, run_program(text).out);
  const ProgramOutput bench =
      run_ranks(2, {"bench", "-m", story_model(), "-p", "8", "-n", "4", "-r", "1", "-dev", "mpi"});
  EXPECT_EQ(bench.status, 0) << bench.err;
  EXPECT_NE(bench.out.find(" tg4 |"), std::string::npos) << bench.out;
  const Args perplexity = {"perplexity", "-m", story_model(), "-f", data_path("stories.txt"), "-c", "64", "--chunks",
                           "4",          "-q", "-t",          "1"};
  const std::string alone = run_program(perplexity).out;
  EXPECT_NE(alone, "");
  EXPECT_EQ(run_ranks(3, perplexity + Args{"-dev", "mpi"}).out, alone);
}

TEST(Mpirun, AServerAnswersItsClientsWithTheSameText) {
  TESSERA_OPEN_MPI_OR_SKIP();
  const auto answers = [&](const Args& program, const Args& flags) {
    const Args args = Args{"serve", "-m", story_model(), "--port", "0", "-c", "2048", "-np", "8", "-t", "1"} + flags;
    Child server(args, temporary_path("server.out"), program);
    const uint16_t port = server.wait_for_port();
    std::vector<HttpClient> clients;
    for (int i = 0; i < 8; ++i) {
      clients.push_back(HttpClient::connect(port));
      EXPECT_TRUE(clients.back().post(
          "/completion", fmt::format(R"({{"prompt":"Once there was a {}","n_predict":16,"seed":{}}})", i, i)));
    }
    std::vector<std::string> texts;
    for (HttpClient& client : clients) {
      const HttpReply reply = client.read_answer();
      EXPECT_EQ(reply.status, 200) << reply.body;
      texts.push_back(nlohmann::json::parse(reply.body)["content"].get<std::string>());
    }
    server.send(SIGTERM);
    server.wait();
    return texts;
  };
  EXPECT_EQ(answers(mpirun(3), {"-dev", "mpi"}), answers({program_path()}, {}));
}

// A rank that ends in any way ends the job with an error, and no process is left.
TEST(Mpirun, ARankThatIsLostEndsTheJob) {
  TESSERA_OPEN_MPI_OR_SKIP();
  for (const int signal : {SIGKILL, SIGSTOP}) {
    // Text without an end: the model never gets the token that ends a story.
    Child job({"run", "-m", story_model(), "-p", "Once", "-n", "100000", "-c", "128", "--context-shift", "--ignore-eos",
               "-dev", "mpi", "-t", "1", "--mpi-timeout", "1"},
              temporary_path("lost.out"), mpirun(3));
    job.wait_for_output(200);
    const std::vector<pid_t> ranks = ranks_of(job);
    ASSERT_EQ(ranks.size(), 3u);
    ::kill(ranks[1], signal);
    const ProgramOutput output = job.wait();
    EXPECT_NE(output.status, 0);
    if (signal == SIGSTOP)
      EXPECT_NE(output.err.find("error: mpi:1 ("), std::string::npos) << output.err;
    else  // mpirun ends the other ranks at once, and says why
      EXPECT_NE(output.err.find("signal 9"), std::string::npos) << output.err;
    for (const pid_t rank : ranks) EXPECT_TRUE(wait_until([&] { return ::kill(rank, 0) != 0; })) << signal;
  }
}

TEST(Mpirun, AnInterruptEndsAllRanks) {
  TESSERA_OPEN_MPI_OR_SKIP();
  Child job({"run", "-m", story_model(), "-p", "Once", "-n", "100000", "-c", "128", "--context-shift", "--ignore-eos",
             "-dev", "mpi", "-t", "1"},
            temporary_path("interrupted.out"), mpirun(2));
  job.wait_for_output(200);
  const std::vector<pid_t> ranks = ranks_of(job);
  ASSERT_EQ(ranks.size(), 2u);
  ::kill(ranks[0], SIGINT);
  const ProgramOutput output = job.wait();
  EXPECT_EQ(output.status, 130) << output.err;
  for (const pid_t rank : ranks) EXPECT_TRUE(wait_until([&] { return ::kill(rank, 0) != 0; }));
}

TEST(Mpirun, RefusalsNameWhatIsWrong) {
  expect_refusal(run_program({"plan", "-m", story_model(), "-dev", "mpi"}), 1,
                 "mpi: this process has no other ranks (mpirun -np 2 tessera ... starts two)");
  expect_refusal(run_program({"plan", "-m", "x", "--mpi-files", "some"}), 2, "'some' is not one of auto, local, send");
  expect_refusal(run_program({"plan", "-m", "x", "--mpi-timeout", "0"}), 2, "--mpi-timeout");
  expect_refusal(run_program({"devices"}, "", {"OMPI_COMM_WORLD_SIZE=2", "TESSERA_MPI=/nowhere/mpi.so"}), 1,
                 "/nowhere/mpi.so");
  EXPECT_EQ(run_program({"--version"}, "", {"OMPI_COMM_WORLD_SIZE=2", "TESSERA_MPI=off"}).status, 0);
  TESSERA_OPEN_MPI_OR_SKIP();
  const ProgramOutput output = run_ranks(2, {"plan", "-m", story_model(), "-dev", "mpi:7"});
  EXPECT_EQ(output.status, 1);
  EXPECT_NE(output.err.find("error: no device named mpi:7 (there are: "), std::string::npos) << output.err;
  EXPECT_NE(output.err.find("mpi:1, cpu)"), std::string::npos) << output.err;
}

TEST(Mpirun, DevicesAndPlanNameTheRanks) {
  TESSERA_OPEN_MPI_OR_SKIP();
  const auto devices = nlohmann::json::parse(run_ranks(2, {"devices", "--json"}).out);
  const auto remote = std::ranges::find(devices, "mpi:1", [](const auto& device) { return device["name"]; });
  ASSERT_NE(remote, devices.end());
  EXPECT_EQ((*remote)["properties"]["rank"], "1");
  EXPECT_NE((*remote)["memory_free_bytes"], 0);
  const auto plan = nlohmann::json::parse(run_ranks(3, {"plan", "-m", story_model(), "--json", "-dev", "mpi"}).out);
  for (const char* device : {"mpi:1", "mpi:2"})
    EXPECT_TRUE(std::ranges::any_of(plan["buffers"], [&](const auto& part) {
      return part["device"] == device && part["what"] == "weights" && part["bytes"] > 0;
    })) << device;
  // The hosts share what the devices have.
  ASSERT_EQ(plan["hosts"].size(), 3u);
  for (const char* what : {"weights_bytes", "kv_bytes", "compute_bytes", "total_bytes"}) {
    uint64_t sum = 0;
    for (const auto& host : plan["hosts"]) sum += host[what].get<uint64_t>();
    EXPECT_EQ(sum, plan[what].get<uint64_t>()) << what;
  }
  EXPECT_EQ(plan["hosts"][0]["rank"], "rank 0");
  EXPECT_EQ(plan["hosts"][2]["rank"], "mpi:2");
  EXPECT_EQ(plan["hosts"][2]["has_file"], true);
  EXPECT_GT(plan["hosts"][2]["weights_bytes"], 0);
  const ProgramOutput sent = run_ranks(2, {"plan", "-m", story_model(), "-dev", "mpi", "--mpi-files", "send"});
  EXPECT_NE(sent.out.find("weights from"), std::string::npos) << sent.out;
  EXPECT_TRUE(sent.out.find("its own file") < sent.out.find("rank 0\n")) << sent.out;
}

}  // namespace
}  // namespace tessera
