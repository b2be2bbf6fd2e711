// tessera convert: a folder becomes a model that can be verified and run, sizes equal the dry run's, and refusals leave
// no output.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"
#include "tests/convert/hub_folder.h"
#include "tests/convert/lora_folder.h"
#include "tests/convert/plamo_files.h"

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

TEST(Convert, PlamoKeepsItsTokenizer) {
  const size_t n_tokens = testing::kPlamoFirst + 3;
  const std::string folder = testing::hub_plamo3(n_tokens).write("plamo3"), out = temporary_path("plamo3.gguf");
  std::ofstream(folder + "/tokenizer.jsonl") << testing::plamo_lines()
                                             << R"(["</s>", -20.0, "NORMAL"])"
                                                "\n"
                                                R"(["\u732b", -8.5, "NORMAL"])"
                                                "\n"
                                             << R"([" cat", -9.0, "NORMAL"])"
                                                "\n";
  std::ofstream(folder + "/tokenizer_config.json") << R"({"bos_token": "<|plamo:bos|>", "add_bos_token": true})";
  const ProgramOutput output = run_program({"convert", folder, "-o", out});
  ASSERT_EQ(output.status, 0) << output.err;
  const ProgramOutput verified = run_program({"verify", out});
  EXPECT_EQ(verified.status, 0) << verified.err;
  EXPECT_NE(verified.out.find("tokenizer: plamo2, 264 tokens"), std::string::npos) << verified.out;
  const std::string text = "\u732b</s> cat!";
  EXPECT_EQ(run_program({"tokenize", "-m", out, "-p", text}).out, "[262, 261, 263, 38]\n");
  EXPECT_EQ(run_program({"tokenize", "-m", out, "--special", "-p", text}).out, "[1, 262, 261, 263, 38]\n");
  EXPECT_EQ(run_program({"detokenize", "-m", out, "262,261,263,38"}).out, text + "\n");
  const ProgramOutput run = run_program({"run", "-m", out, "-p", text, "-n", "4", "-t", "1"});
  EXPECT_EQ(run.status, 0) << run.err;
}

// An adapter needs the config of its base model, from the folder that it names, from the cache, or from --base.
TEST(Convert, AnAdapterFindsItsBaseModel) {
  const testing::HubFolder model = hub_llama("F32");
  const std::string base = model.write("base"), out = temporary_path("adapter.gguf"), cache = temporary_path("cache");
  std::filesystem::remove_all(cache);
  testing::HubFolder merged = model;
  testing::LoraFolder lora;
  lora.add(merged, "model.layers.1.self_attn.q_proj", 4, 1.0f);
  const std::vector<std::string> environment = {"HF_HUB_CACHE=" + cache};
  const auto convert = [&](const std::string& name, const std::vector<std::string>& more = {}) {
    lora.config["base_model_name_or_path"] = name;
    std::filesystem::remove(out);
    std::vector<std::string> arguments = {"convert", lora.write("lora"), "-o", out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments, "", environment);
  };
  EXPECT_EQ(convert(base).status, 0);
  const std::string keys = run_program({"inspect", out, "--keys"}).out;
  EXPECT_NE(keys.find("adapter.lora.alpha"), std::string::npos) << keys;
  EXPECT_EQ(convert("me/tiny", {"--base", base}).status, 0);
  EXPECT_TRUE(std::filesystem::exists(out));
  expect_refusal(convert("me/tiny", {"--base", cache}), 1, "neither a folder with config.json nor in the cache");
  expect_refusal(convert("me/tiny"), 1,
                 "the base model \"me/tiny\" is neither a folder with config.json nor in the cache");
  expect_refusal(convert(""), 1, "adapter_config.json: names no base model: give the folder of its config.json with");
  expect_refusal(convert("", {"--base", base, "--type", "q8_0"}), 1, "adapters have the type F32, F16 or BF16");

  const std::string repository = cache + "/models--me--tiny", commit(40, 'a'), other(40, 'b');
  const auto write = [&](const std::string& folder, const std::string& file, const std::string& text) {
    std::filesystem::create_directories(repository + folder);
    std::ofstream(repository + folder + "/" + file) << text;
  };
  write("/snapshots/" + commit, "config.json", model.config);
  EXPECT_EQ(convert("me/tiny").status, 0);
  write("/snapshots/" + other, "config.json", "{}");
  write("/refs", "main", other);
  expect_refusal(convert("me/tiny"), 1, "models of class \"\" are not converted");
  write("/refs", "main", commit);
  EXPECT_EQ(convert("me/tiny").status, 0);
  expect_refusal(convert("me/tiny@" + other), 1, "models of class \"\" are not converted");
}

TEST(Convert, AnAdapterIsPlannedAndInspected) {
  testing::HubFolder model = hub_llama("F32");
  const std::string base = model.write("base");
  testing::LoraFolder lora;
  lora.add(model, "model.layers.1.self_attn.q_proj", 4, 1.0f);
  const std::string folder = lora.write("lora"), tensors = folder + "/adapter_model.safetensors";
  const ProgramOutput plan = run_program({"convert", tensors, "--base", base, "--dry-run", "--json"});
  ASSERT_EQ(plan.status, 0) << plan.err;
  const json rows = json::parse(plan.out);
  EXPECT_EQ(rows["tensors"].size(), 2u);
  EXPECT_EQ(rows["tensors"][0]["name"], "blk.1.attn_q.weight.lora_a");
  const ProgramOutput report = run_program({"inspect", folder});
  EXPECT_EQ(report.status, 0) << report.err;
  EXPECT_NE(report.out.find("\nadapter_config.json\n"), std::string::npos) << report.out;
  EXPECT_NE(report.out.find("lora_alpha"), std::string::npos);
  EXPECT_NE(report.out.find("layers.1.self_attn.q_proj.lora_B.weight"), std::string::npos);
  EXPECT_EQ(json::parse(run_program({"inspect", folder, "--json"}).out)["config"]["lora_alpha"], 8.0);
  expect_refusal(run_program({"convert", base, "--base", base, "--dry-run"}), 1,
                 "is no adapter with adapter_config.json");
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
