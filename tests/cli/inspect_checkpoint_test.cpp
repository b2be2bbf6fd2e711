// tessera inspect on checkpoints: folders and files of safetensors and PyTorch.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"
#include "tests/convert/checkpoint_files.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::expect_refusal;
using testing::ProgramOutput;
using testing::run_program;

class InspectCheckpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::write_temporary("inspect_marker", "")).parent_path() / "inspected";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    write("config.json",
          R"({"architectures":["LlamaForCausalLM"],"hidden_size":3,"rope":{"theta":1e4},"name":"a\u0007"})");
    write("model-1.safetensors",
          testing::safetensors_file(R"({"a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})",
                                    floats({1, 2, 3, 4, 5, 6.5f})));
    write("model-2.safetensors", testing::safetensors_file(R"({"b":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}})",
                                                           std::string("\xc0\x3f", 2)));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  static std::string floats(const std::vector<float>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
  }
  std::string path() const { return folder_.string(); }

  std::filesystem::path folder_;
};

TEST_F(InspectCheckpoint, AFolderHasFilesConfigAndTensors) {
  const ProgramOutput all = run_program({"inspect", path()});
  ASSERT_EQ(all.status, 0) << all.err;
  EXPECT_EQ(all.out, "file          " + path() + "/model-1.safetensors\n" +  //
                         "file          " + path() + "/model-2.safetensors\n" +
                         "architecture  LlamaForCausalLM\n"
                         "parameters    7 (0.00 million)\n"
                         "size          26 bytes (26 B)\n"
                         "format        F32: 1 tensor, 24 B\n"
                         "format        BF16: 1 tensor, 2 B\n"
                         "\nconfig.json\n"
                         "architectures  array   [\"LlamaForCausalLM\"]\n"
                         "hidden_size    number  3\n"
                         "rope           object  {\"theta\":10000.0}\n"
                         "name           string  \"a\\u0007\"\n"
                         "\ntensors\n"
                         "a.weight  F32   [2, 3]  24  file 1\n"
                         "b         BF16  []       2  file 2\n");
  const std::string keys = run_program({"inspect", path(), "--keys"}).out;
  EXPECT_TRUE(keys.starts_with("architectures  array")) << keys;
  EXPECT_EQ(keys.find("a.weight"), std::string::npos);
  EXPECT_TRUE(run_program({"inspect", path(), "--tensors"}).out.starts_with("a.weight  F32"));
}

TEST_F(InspectCheckpoint, JsonIsWhatTheFilesHold) {
  const json report = json::parse(run_program({"inspect", path(), "--json"}).out);
  EXPECT_EQ(report["files"].size(), 2u);
  EXPECT_EQ(report["architecture"], "LlamaForCausalLM");
  EXPECT_EQ(report["n_parameters"], 7);
  EXPECT_EQ(report["n_bytes"], 26);
  EXPECT_EQ(report["formats"]["BF16"], json::parse(R"({"n_tensors":1,"n_bytes":2})"));
  EXPECT_EQ(report["config"]["rope"]["theta"], 1e4);
  EXPECT_EQ(report["tensors"][0]["shape"], json({2, 3}));
  EXPECT_EQ(report["tensors"][1]["file"], 1);
  const json file = json::parse(run_program({"inspect", path() + "/model-1.safetensors", "--json", "--tensors"}).out);
  EXPECT_EQ(file.size(), 1u);
  EXPECT_EQ(file["tensors"][0]["name"], "a.weight");
}

TEST_F(InspectCheckpoint, DumpPrintsEveryValue) {
  EXPECT_EQ(run_program({"inspect", path(), "--dump", "a.weight"}).out, "1 2 3\n4 5 6.5\n");
  EXPECT_EQ(run_program({"inspect", path(), "--dump", "b"}).out, "1.5\n");
  EXPECT_EQ(run_program({"inspect", path(), "--dump", "b", "--raw"}).out, floats({1.5f}));
  expect_refusal(run_program({"inspect", path(), "--dump", "c"}), 1, path() + ": no tensor 'c' (--tensors lists them)");
}

TEST_F(InspectCheckpoint, BadFoldersAreRefusedInOneLine) {
  write("model-2.safetensors", "garbage");
  expect_refusal(run_program({"inspect", path()}), 1,
                 path() + "/model-2.safetensors: neither safetensors nor a PyTorch, GGJT or llama2.c file");
  std::filesystem::remove(folder_ / "model-2.safetensors");
  write("config.json", "{");
  expect_refusal(run_program({"inspect", path()}), 1, path() + "/config.json: not JSON: byte 1: ");
  std::filesystem::remove(folder_ / "model-1.safetensors");
  expect_refusal(run_program({"inspect", path()}), 1,
                 path() + ": no tensors: neither model*.safetensors nor pytorch_model*.bin");
}

}  // namespace
}  // namespace tessera
