// tessera serve as a process: its first minute, its signals, and refusals of its command line.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"

namespace tessera {
namespace {

using namespace testing;

// The port in "listening on http://127.0.0.1:PORT".
std::string wait_for_address(const Child& server) {
  for (int i = 0; i < 12000; ++i) {
    const std::string log = server.err_so_far();
    const size_t line = log.find("\nlistening on ");
    if (line != std::string::npos && log.find('\n', line + 1) != std::string::npos) {
      const size_t begin = line + std::string_view("\nlistening on ").size();
      return log.substr(begin, log.find('\n', begin) - begin);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ADD_FAILURE() << "no address in 120 s";
  return "";
}

TEST(Serve, AnswersUntilASignalAndEndsWithSuccess) {
  Child server({"serve", "--port", "0", "-c", "512", "-np", "2", "-t", "1", "--cache-ram", "1"});
  const std::string address = wait_for_address(server);
  EXPECT_TRUE(address.starts_with("http://127.0.0.1:")) << address;
  server.send(SIGTERM);
  const ProgramOutput output = server.wait();
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_NE(output.err.find("no model given: using the bundled one"), std::string::npos);
  const ProgramOutput plan = run_program({"plan", "--json", "-c", "512", "-np", "2", "-t", "1", "--cache-ram", "1"});
  const auto n_bytes = nlohmann::json::parse(plan.out)["kv_bytes"].get<double>();
  const std::string kv = fmt::format(" KV buffer size = {:.2f} MiB", n_bytes / (1 << 20));
  EXPECT_NE(output.err.find(kv), std::string::npos) << output.err << kv;
  EXPECT_NE(output.err.find("2 slots, 256 tokens each, 512 in all"), std::string::npos) << output.err;
  EXPECT_NE(output.err.find("shutting down"), std::string::npos);
}

TEST(Serve, RefusesWhatItDoesNotOffer) {
  expect_refusal(run_program({"serve", "--host", "0.0.0.0", "--port", "0"}), 2, "--api-key");
  expect_refusal(run_program({"serve", "--tools", "all"}), 2, "not offered");
  expect_refusal(run_program({"serve", "--mmproj", "x.gguf"}), 2, "images");
  expect_refusal(run_program({"serve", "--port", "70000"}), 2, "--port");
  expect_refusal(run_program({"serve", "--ssl-key-file", "x"}), 2, "--ssl-cert-file");
  expect_refusal(run_program({"serve", "--parallel", "0"}), 2, "--parallel");
  expect_refusal(run_program({"serve", "-m", "/no/such/model.gguf"}), 1, "/no/such/model.gguf");
}

TEST(Serve, APortInUseIsAnError) {
  Child server({"serve", "--port", "0", "-c", "256", "-np", "1", "-t", "1"});
  const std::string address = wait_for_address(server);
  const ProgramOutput second = run_program({"serve", "-q", "--port", address.substr(address.rfind(':') + 1)});
  expect_refusal(second, 1, "in use");
  server.send(SIGINT);
  EXPECT_EQ(server.wait().status, 0);
}

}  // namespace
}  // namespace tessera
