// tessera convert in parts, and conversions that were killed: a later run with --resume gives the same bytes.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/gguf/split.h"
#include "tests/cli/cli_support.h"
#include "tests/convert/hub_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::Child;
using testing::expect_refusal;
using testing::hub_llama;
using testing::ProgramOutput;
using testing::run_program;
using testing::slow_llama;

class ConvertInParts : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::temporary_dir() / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::create_directory(dir_);
    out_ = (dir_ / "o.gguf").string();
  }
  // The partial file of the output; empty if there is none.
  std::string partial() const {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(dir_, error))
      if (entry.path().extension() == ".part") return entry.path().string();
    return "";
  }
  // Starts a conversion and kills it when its partial file has more than n bytes. A child that has ended before leaves
  // its output.
  void kill_after(const std::vector<std::string>& args, uint64_t n_bytes) const {
    Child child(args, (dir_ / "child.out").string());
    while (child.is_running()) {
      const std::string path = partial();
      std::error_code none_yet;
      const uint64_t size = path.empty() ? 0 : fs::file_size(path, none_yet);
      if (!none_yet && size > n_bytes) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    child.send(SIGKILL);
    child.wait();
  }
  fs::path dir_;
  std::string out_;
};

TEST_F(ConvertInParts, AKilledConversionIsResumed) {
  const std::string hub = slow_llama().write("slow-hub"), whole = (dir_ / "whole").string();
  std::vector<std::string> args = {"convert", hub, "-o", out_, "--type", "Q4_K_M", "--threads", "1"};
  ASSERT_EQ(run_program({"convert", "-q", hub, "-o", whole, "--type", "Q4_K_M"}).status, 0);
  const std::string wanted = testing::read_all(whole);
  for (const uint64_t share : {0, 3, 8}) {
    fs::remove(out_);
    kill_after(args, wanted.size() * share / 10);
    const bool is_partial = !partial().empty();
    EXPECT_NE(fs::exists(out_), is_partial) << share;
    std::vector<std::string> again = args;
    again.push_back("--resume");
    const ProgramOutput resumed = run_program(again);
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_TRUE(testing::read_all(out_) == wanted) << share;
    if (is_partial && share > 0) {
      EXPECT_NE(resumed.err.find(" s, resumed after "), std::string::npos) << resumed.err;
    }
    EXPECT_EQ(partial(), "");
  }
}

// The partial file of another plan gives a line with --resume, and is removed.
TEST_F(ConvertInParts, PartialFilesOfOtherPlansAreReplaced) {
  const std::string hub = hub_llama().write("plan-hub"), other = out_ + ".0123456789abcdef.part";
  std::vector<std::string> args = {"convert", hub, "-o", out_, "--type", "q8_0"};
  std::ofstream(other) << "abc";
  const ProgramOutput plain = run_program(args);
  ASSERT_EQ(plain.status, 0) << plain.err;
  EXPECT_EQ(plain.err.find("another plan"), std::string::npos);
  EXPECT_EQ(plain.err.find("resumed"), std::string::npos);
  EXPECT_FALSE(fs::exists(other));
  const std::string wanted = testing::read_all(out_);
  std::ofstream(other) << "abc";
  args.push_back("--resume");
  const ProgramOutput resumed = run_program(args);
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_NE(resumed.err.find(other + ": is of another plan (type, options or files): removed, starting anew\n"),
            std::string::npos)
      << resumed.err;
  EXPECT_FALSE(fs::exists(other));
  EXPECT_TRUE(testing::read_all(out_) == wanted);
}

TEST_F(ConvertInParts, PartsAreLoadedAndCountedByTheDryRun) {
  const std::string hub = hub_llama().write("split-hub");
  std::vector<std::string> args = {"convert", hub, "-o", out_, "--split-max-tensors", "8"};
  std::vector<std::string> dry = args;
  dry.insert(dry.end(), {"--dry-run", "--json"});
  const auto plan = nlohmann::json::parse(run_program(dry).out);
  EXPECT_EQ(plan["n_files"], 3);
  dry.pop_back();
  EXPECT_NE(run_program(dry).out.find("\n3 files: "), std::string::npos);
  const ProgramOutput output = run_program(args);
  ASSERT_EQ(output.status, 0) << output.err;
  uint64_t n_bytes = 0;
  for (uint32_t part = 0; part < 3; ++part) n_bytes += fs::file_size(split_path((dir_ / "o").string(), part, 3));
  EXPECT_EQ(plan["n_bytes"], n_bytes);
  const std::string first = split_path((dir_ / "o").string(), 0, 3);
  const ProgramOutput verified = run_program({"verify", first});
  EXPECT_NE(verified.out.find("21 tensors"), std::string::npos) << verified.out << verified.err;
  ASSERT_EQ(run_program({"convert", "-q", hub, "-o", out_, "--split-max-size", "1M"}).status, 0);
  EXPECT_TRUE(fs::exists(out_));
  ASSERT_EQ(run_program({"merge", "-q", first, (dir_ / "merged").string()}).status, 0);
  EXPECT_TRUE(testing::read_all((dir_ / "merged").string()) == testing::read_all(out_));
  expect_refusal(run_program({"convert", hub, "-o", out_, "--split-max-size", "1K"}), 2, "is not a shard size");
  expect_refusal(run_program({"convert", hub, "-o", out_, "--no-tensor-first-split"}), 2, "requires --split-max-size");
}

// The output of a part must not be a file of the checkpoint.
TEST_F(ConvertInParts, PartsAreNoInputs) {
  const std::string hub = hub_llama().write("part-input");
  fs::rename(hub + "/model.safetensors", hub + "/model-00002-of-00003.gguf");
  fs::create_symlink("model-00002-of-00003.gguf", hub + "/model.safetensors");
  expect_refusal(run_program({"convert", "-q", hub, "-o", hub + "/model.gguf", "--split-max-tensors", "8"}), 1,
                 "model-00002-of-00003.gguf: is the input");
}

TEST_F(ConvertInParts, LaterLayersAreLeftOutOnDemand) {
  TESSERA_SHARED_OR_SKIP(folder, "golden/convert/hf/glm4moe");
  const auto whole = run_program({"convert", folder, "--dry-run"}),
             less = run_program({"convert", folder, "--dry-run", "--no-mtp"});
  EXPECT_NE(whole.out.find("blk.2.nextn.eh_proj.weight"), std::string::npos) << whole.err;
  EXPECT_EQ(less.out.find("blk.2."), std::string::npos);
  EXPECT_NE(less.out.find("blk.1.attn_q.weight"), std::string::npos) << less.err;
}

}  // namespace
}  // namespace tessera
