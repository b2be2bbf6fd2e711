// tessera convert: a folder becomes a model that can be verified and run, sizes equal the dry run's, and refusals leave
// no output.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"
#include "tests/convert/hub_folder.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::expect_refusal;
using testing::hub_llama;
using testing::ProgramOutput;
using testing::run_program;
using testing::temporary_path;

TEST(Convert, OutputIsVerifiedAndOfTheSizeThatTheDryRunSaid) {
  const std::string folder = hub_llama().write("hub"), out = temporary_path("converted.gguf");
  for (const char* type : {"bf16", "F32", "q8_0", "Q4_K_M"}) {
    const ProgramOutput plan = run_program({"convert", folder, "--type", type, "--dry-run", "--json"});
    ASSERT_EQ(plan.status, 0) << plan.err;
    const json rows = json::parse(plan.out);
    EXPECT_EQ(rows["tensors"].size(), 21u);
    EXPECT_EQ(rows["n_bytes_before"], std::filesystem::file_size(folder + "/model.safetensors"));
    const ProgramOutput output = run_program({"convert", folder, "-o", out, "--type", type});
    ASSERT_EQ(output.status, 0) << output.err;
    EXPECT_EQ(output.out, "");
    EXPECT_EQ(rows["n_bytes"], std::filesystem::file_size(out)) << type;
    EXPECT_NE(output.err.find(std::to_string(std::filesystem::file_size(out)) + " bytes ("), std::string::npos);
    const ProgramOutput verified = run_program({"verify", out});
    EXPECT_EQ(verified.status, 0) << verified.err;
    EXPECT_NE(verified.out.find("21 tensors"), std::string::npos) << verified.out;
    std::filesystem::remove(out);
  }
}

TEST(Convert, AFileOfTheFolderWillDo) {
  const std::string folder = hub_llama().write("hub"), out = temporary_path("converted.gguf");
  const ProgramOutput output = run_program({"convert", folder + "/model.safetensors", "-q", "-o", out});
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(output.err, "");
  const ProgramOutput table = run_program({"convert", folder, "--dry-run"});
  EXPECT_NE(table.out.find("blk.1.ffn_down.weight"), std::string::npos);
}

TEST(Convert, HitsASize) {
  const std::string folder = hub_llama().write("hub"), out = temporary_path("converted.gguf");
  const ProgramOutput output = run_program({"convert", folder, "-o", out, "--size", "60000"});
  ASSERT_EQ(output.status, 0) << output.err;
  EXPECT_LE(std::filesystem::file_size(out), 60000u);
  EXPECT_GT(std::filesystem::file_size(out), 50000u);
}

TEST(Convert, WarnsOfValuesThatBecameInfinite) {
  testing::HubFolder folder = hub_llama("F32");
  folder.find("model.layers.0.mlp.up_proj.weight").bytes.replace(0, 4, testing::number_bytes(1e6f));
  const std::string path = folder.write("hub"), out = temporary_path("converted.gguf");
  const ProgramOutput output = run_program({"convert", path, "-o", out, "--type", "f16"});
  EXPECT_EQ(output.status, 0);
  EXPECT_NE(output.err.find("warning: 1 value too large for F16: infinite in the output"), std::string::npos);
  std::filesystem::remove(out);
  const ProgramOutput refused = run_program({"convert", "-q", path, "-o", out, "--type", "f16", "--check-tensors"});
  expect_refusal(refused, 1, "element 0 is inf");
  EXPECT_FALSE(std::filesystem::exists(out));
}

// A tokenizer whose steps are not known, in a folder of its own.
TEST(Convert, TakesTheVocabularyFromAnotherFolder) {
  const std::string folder = hub_llama().write("hub"), out = temporary_path("vocabulary.gguf");
  const std::string tokenizer = temporary_path("tokenizer");
  std::filesystem::create_directories(tokenizer);
  std::ofstream(tokenizer + "/tokenizer.json")
      << R"({"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Whitespace"},{"type":"ByteLevel"}]},)"
         R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},)"
         R"("merges":["a b"]}})";
  const std::vector<std::string> convert = {"convert", folder, "-o", out, "--vocab", tokenizer};
  expect_refusal(run_program(convert), 1,
                 "the pre-tokenizer is not known (--pre names one); its steps: Whitespace; ByteLevel");
  std::vector<std::string> named = convert;
  named.insert(named.end(), {"--pre", "gpt-2"});
  const ProgramOutput output = run_program(named);
  ASSERT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(output.err.find("no vocabulary"), std::string::npos) << output.err;
  const std::string keys = run_program({"inspect", out, "--keys"}).out;
  EXPECT_NE(keys.find("gpt-2"), std::string::npos) << keys;
  named.back() = "gpt-9";
  expect_refusal(run_program(named), 1, "pre-tokenizer \"gpt-9\": not known");
  expect_refusal(run_program({"convert", folder, "-o", out, "--vocab", temporary_path("none")}), 1, "no vocabulary");
}

TEST(Convert, RefusesWrongArguments) {
  const std::string folder = hub_llama().write("hub"), out = temporary_path("refused.gguf");
  expect_refusal(run_program({"convert"}), 2, "no checkpoint: want a folder");
  expect_refusal(run_program({"convert", folder}), 2, "no output: want -o FILE, or --dry-run");
  expect_refusal(run_program({"convert", folder, folder, "-o", out}), 2, "one checkpoint at a time");
  expect_refusal(run_program({"convert", folder, "-o", out, "--type", "q4_k_x"}), 2, "did you mean");
  expect_refusal(run_program({"convert", folder, "-o", out, "--json"}), 2, "--json requires --dry-run");
  expect_refusal(run_program({"convert", folder, "-o", out, "--pure"}), 2, "require a quantized --type, or --size");
  expect_refusal(run_program({"convert", folder, "-o", out, "--type", "f16", "--imatrix", "x"}), 2,
                 "require a quantized");
  expect_refusal(run_program({"convert", folder + "/none", "-o", out}), 1, "none");
  expect_refusal(run_program({"convert", "-q", folder, "-o", folder + "/model.safetensors"}), 1, "is the input");
  EXPECT_FALSE(std::filesystem::exists(out));
  EXPECT_TRUE(std::filesystem::exists(folder + "/model.safetensors"));
}

}  // namespace
}  // namespace tessera
