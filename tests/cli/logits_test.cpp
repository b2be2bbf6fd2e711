// tessera logits: golden values, bits that do not depend on the division of the work, and files that are complete or
// absent.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::expect_refusal;
using testing::ProgramOutput;
using testing::run_program;

struct LogitsFile {
  std::vector<int32_t> ids;
  int32_t n_vocab = 0;
  std::vector<float> logits;
};

LogitsFile read_logits(const std::string& path) {
  const std::string bytes = testing::read_all(path);
  LogitsFile file;
  int32_t n = 0;
  std::memcpy(&n, bytes.data(), sizeof n);
  std::memcpy(&file.n_vocab, bytes.data() + sizeof n, sizeof file.n_vocab);
  file.ids.resize(static_cast<size_t>(n));
  file.logits.resize(file.ids.size() * static_cast<size_t>(file.n_vocab));
  const size_t ids_at = 8, logits_at = ids_at + file.ids.size() * 4;
  EXPECT_EQ(bytes.size(), logits_at + file.logits.size() * 4);
  std::memcpy(file.ids.data(), bytes.data() + ids_at, file.ids.size() * 4);
  std::memcpy(file.logits.data(), bytes.data() + logits_at, file.logits.size() * 4);
  return file;
}

// Returns the file that `logits` writes for these tokens.
std::string logits_bytes(const std::string& model, const std::vector<int32_t>& ids, std::vector<std::string> flags,
                         const std::vector<std::string>& env = {}) {
  const std::string path = (testing::temporary_dir() / "out.logits").string();
  std::vector<std::string> args = {"logits", "-m", model, "--tokens", fmt::format("{}", fmt::join(ids, ",")),
                                   "-o",     path, "-q"};
  args.insert(args.end(), flags.begin(), flags.end());
  const ProgramOutput output = run_program(args, "", env);
  EXPECT_EQ(output.status, 0) << output.err;
  return testing::read_all(path);
}

TEST(Logits, AreTheGoldenOnes) {
  const std::string model = testing::arch_model("llama-dense");
  const std::string golden = testing::data_path("arch_specs/llama-dense.logits");
  const LogitsFile want = read_logits(golden);
  const std::string bytes = logits_bytes(model, want.ids, {"-ctk", "f32", "-ctv", "f32"});
  const LogitsFile got = read_logits(testing::write_temporary("got.logits", bytes));
  ASSERT_EQ(got.ids, want.ids);
  ASSERT_EQ(got.n_vocab, want.n_vocab);
  double error = 0, power = 0;
  for (size_t i = 0; i < want.logits.size(); ++i) {
    error += std::pow(static_cast<double>(got.logits[i]) - want.logits[i], 2);
    power += std::pow(static_cast<double>(want.logits[i]), 2);
  }
  EXPECT_LE(error / power, 1e-6);  // both sum f32 products, in different orders
}

TEST(Logits, SameBitsForAnyMicroBatchThreadsAndEachInstructionSet) {
  const std::string model = testing::story_model();
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 80; ++i) ids.push_back((i * 37 + 5) % 512);
  const auto devices = nlohmann::json::parse(run_program({"devices", "--json"}).out);
  const auto cpu = std::ranges::find(devices, "cpu", [](const auto& device) { return device["name"]; });
  ASSERT_NE(cpu, devices.end());
  const std::string isas = (*cpu)["properties"]["usable_isas"];
  for (const auto& part : std::views::split(isas, ' ')) {
    const std::string isa(part.begin(), part.end());
    const std::vector<std::string> env = {"TESSERA_ISA=" + isa};
    const std::string bits = logits_bytes(model, ids, {"-t", "1"}, env);
    EXPECT_GT(bits.size(), ids.size() * 512 * 4);
    for (const char* ub : {"1", "7", "64", "512"})
      EXPECT_EQ(logits_bytes(model, ids, {"-ub", ub}, env), bits) << isa << " -ub " << ub;
    for (const char* t : {"1", "2", "3"})
      EXPECT_EQ(logits_bytes(model, ids, {"-t", t}, env), bits) << isa << " -t " << t;
  }
}

TEST(Logits, BadTokensAreRefused) {
  const std::string model = testing::story_model();
  const std::string out = (testing::temporary_dir() / "bad.logits").string();
  expect_refusal(run_program({"logits", "-m", model, "-o", out}), 2, "no tokens");
  expect_refusal(run_program({"logits", "-m", model, "--tokens", "1,2"}), 2, "no output");
  expect_refusal(run_program({"logits", "-m", model, "-o", out, "--tokens", "1,x"}), 2, "--tokens: token 1: 'x'");
  expect_refusal(run_program({"logits", "-m", model, "-o", out, "--tokens", "1,512"}), 1,
                 "token 512 at position 1, want 0 to 511");
  expect_refusal(run_program({"logits", "-m", model, "-o", out, "--tokens", "1,2,3", "-c", "2"}), 1,
                 "3 tokens, the context holds 2");
  EXPECT_FALSE(fs::exists(out));
}

TEST(Logits, TheErrorAgainstAReferenceIsShownPerPosition) {
  const std::string model = testing::story_model();
  std::string bytes = logits_bytes(model, {1, 5, 9}, {});
  // The second position's first logit grows by 1000, so it becomes the highest.
  float changed;
  const size_t at = 8 + 3 * 4 + 512 * 4;
  std::memcpy(&changed, bytes.data() + at, 4);
  changed += 1000;
  std::memcpy(bytes.data() + at, &changed, 4);
  const std::string reference = testing::write_temporary("changed.logits", bytes);
  const ProgramOutput output = run_program({"logits", "-m", model, "--reference", reference});
  ASSERT_EQ(output.status, 0) << output.err;
  std::vector<std::vector<std::string>> rows;
  for (std::istringstream lines(output.out); !lines.eof();) {
    std::string line;
    std::getline(lines, line);
    std::istringstream words(line);
    rows.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
  }
  ASSERT_GE(rows.size(), 5u) << output.out;
  EXPECT_EQ(rows[1], (std::vector<std::string>{"0", "1", "0", "0", "yes"}));
  EXPECT_EQ(rows[2][0], "1");
  EXPECT_EQ(rows[2][3], "1e+03");
  EXPECT_EQ(rows[2][4], "no");
  EXPECT_EQ(rows[3], (std::vector<std::string>{"2", "9", "0", "0", "yes"}));
  EXPECT_NE(output.out.find(", worst at 1; 2 with the same top token\n"), std::string::npos) << output.out;
  expect_refusal(run_program({"logits", "-m", model, "--reference", reference, "--tokens", "1,5,8"}), 1,
                 "changed.logits: contains the logits of other tokens");
  expect_refusal(run_program({"logits", "-m", model, "--reference", "/absent"}), 1, "/absent: cannot open");
}

TEST(Logits, FailedOutputLeavesNothing) {
  const std::string model = testing::story_model();
  const fs::path dir = testing::temporary_dir() / "outputs";
  fs::create_directory(dir);
  const auto write_to = [&](const std::string& path) {
    return run_program({"logits", "-m", model, "--tokens", "1,2,3", "-o", path, "-q"});
  };
  expect_refusal(write_to((dir / "none" / "x").string()), 1, "none/x: cannot create");
  expect_refusal(write_to("/dev/full"), 1, "/dev/full: exists and is not a regular file");
  expect_refusal(write_to(dir.string()), 1, "outputs: exists and is not a regular file");
  EXPECT_TRUE(fs::is_empty(dir));
}

TEST(Logits, FullDiskLeavesNothing) {
  const std::string model = testing::story_model();
  const fs::path dir = testing::temporary_dir() / "limited";
  fs::create_directory(dir);
  // A limit on the size of files simulates a full disk. Both fail in the middle of a write.
  const std::string err = (testing::temporary_dir() / "limited.err").string();
  const std::string command = "ulimit -f 2; " + testing::program_path() + " logits -q -m " + model +
                              " --tokens 1,2,3 -o " + (dir / "x").string() + " 2> " + err;
  const int status = std::system(("bash -c '" + command + "'").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_NE(testing::read_all(err).find("limited/x: cannot write: File too large"), std::string::npos)
      << testing::read_all(err);
  EXPECT_TRUE(fs::is_empty(dir));
}

}  // namespace
}  // namespace tessera
