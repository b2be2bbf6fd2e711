// Folders of checkpoints: which files are read, tensors in several files, indexes, and refusals.
#include "tessera/convert/source/checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/convert/checkpoint_files.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

using namespace testing;

using NamedFiles = std::vector<std::pair<std::string, std::string>>;

class CheckpointFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(write_temporary("checkpoint_marker", "")).parent_path() /
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const NamedFiles& files) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    for (const auto& [name, bytes] : files) std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_.string();
  }
  // The message of the refusal, without the folder.
  std::string refusal_of(const NamedFiles& files) {
    const auto read = Checkpoint::open(write(files));
    if (read) return "read";
    std::string message = read.error().message();
    if (const size_t at = message.find(folder_.string()); at != std::string::npos)
      message.erase(at, folder_.string().size());
    return message;
  }

  std::filesystem::path folder_;
};

// A file with one float for each name.
std::string floats_file(const std::vector<std::pair<std::string, float>>& values) {
  std::string header = "{", data;
  for (const auto& [name, value] : values) {
    if (header.size() > 1) header += ",";
    header += "\"" + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[)" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + 4) + "]}";
    data += number_bytes(value);
  }
  return safetensors_file(header + "}", data);
}

float value_of(const Checkpoint& checkpoint, std::string_view name) {
  const CheckpointTensor* tensor = checkpoint.find(name);
  if (tensor == nullptr) return -1;
  float value = 0;
  checkpoint.read(*tensor, 0, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

TEST_F(CheckpointFolder, PartsAreReadInTheOrderOfTheirNames) {
  const std::string path = write({{"model-00002-of-00002.safetensors", floats_file({{"b", 2}, {"c", 3}})},
                                  {"model-00001-of-00002.safetensors", floats_file({{"a", 1}})},
                                  {"adapter.safetensors", "not read"},
                                  {"pytorch_model.bin", "not read"}});
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(path));
  ASSERT_EQ(checkpoint.tensors().size(), 3u);
  EXPECT_EQ(checkpoint.tensors()[0].tensor.name, "a");
  EXPECT_EQ(checkpoint.tensors()[0].file, 0u);
  EXPECT_EQ(checkpoint.tensors()[2].file, 1u);
  EXPECT_EQ(value_of(checkpoint, "a"), 1);
  EXPECT_EQ(value_of(checkpoint, "c"), 3);
  EXPECT_EQ(checkpoint.find("d"), nullptr);
  EXPECT_EQ(checkpoint.paths(), (std::vector<std::string>{path + "/model-00001-of-00002.safetensors",
                                                          path + "/model-00002-of-00002.safetensors"}));
}

TEST_F(CheckpointFolder, AnIndexNamesTheParts) {
  const std::string path = write({{"model.safetensors.index.json", R"({"weight_map":{"a":"one.st","b":"two.st"}})"},
                                  {"one.st", floats_file({{"a", 1}})},
                                  {"two.st", floats_file({{"more", 7}, {"b", 2}})},
                                  {"model-00003.safetensors", "not read"}});
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(path));
  EXPECT_EQ(checkpoint.tensors().size(), 3u);
  EXPECT_EQ(value_of(checkpoint, "b"), 2);
}

TEST_F(CheckpointFolder, PyTorchFilesAreReadWhereThereIsNoSafetensors) {
  const std::string object = pickle::whole(
      pickle::dictionary({{"w", pickle::tensor({.key = "0", .n_stored = 1, .shape = {1}, .strides = {1}})}}));
  const std::string bytes =
      zip_archive({{.name = "m/data.pkl", .bytes = object}, {.name = "m/data/0", .bytes = number_bytes(5.0f)}});
  ASSERT_OK_AND_ASSIGN(const Checkpoint whole, Checkpoint::open(write({{"pytorch_model.bin", bytes}})));
  EXPECT_EQ(value_of(whole, "w"), 5);
  ASSERT_OK_AND_ASSIGN(const Checkpoint indexed,
                       Checkpoint::open(write({{"pytorch_model.bin.index.json", R"({"weight_map":{"w":"part.bin"}})"},
                                               {"part.bin", bytes}})));
  EXPECT_EQ(value_of(indexed, "w"), 5);
}

TEST_F(CheckpointFolder, AnAdapterIsReadWhereThereIsNoModel) {
  const std::string tensors = floats_file({{"a", 1}});
  const auto first_of = [&](const NamedFiles& files) {
    const auto checkpoint = Checkpoint::open(write(files));
    return checkpoint ? checkpoint->paths().at(0).substr(folder_.string().size()) : checkpoint.error().message();
  };
  EXPECT_EQ(first_of({{"adapter_model.bin", "x"}, {"adapter_model.safetensors", tensors}}),
            "/adapter_model.safetensors");
  EXPECT_EQ(first_of({{"adapter_model.bin", tensors}}), "/adapter_model.bin");
  EXPECT_EQ(first_of({{"adapter_model.safetensors", "x"}, {"model.safetensors", tensors}}), "/model.safetensors");
}

TEST_F(CheckpointFolder, OneFileIsACheckpointInItsFolder) {
  const std::string path = write({{"some.safetensors", floats_file({{"a", 1}})}, {"config.json", R"({"x":[1,2]})"}});
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(path + "/some.safetensors"));
  EXPECT_EQ(checkpoint.folder(), path);
  EXPECT_EQ(value_of(checkpoint, "a"), 1);
  ASSERT_OK_AND_ASSIGN(const auto config, checkpoint.read_json_file("config.json"));
  ASSERT_TRUE(config);
  EXPECT_EQ((*config)["x"][1], 2);
  ASSERT_OK_AND_ASSIGN(const auto none, checkpoint.read_json_file("none.json"));
  EXPECT_FALSE(none);
  const auto too_long = checkpoint.read_text("config.json", 3);
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().code(), ErrorCode::limit);
}

TEST_F(CheckpointFolder, ContradictionsAreRefused) {
  const std::string one = floats_file({{"a", 1}});
  const auto index = [](const std::string& map) { return R"({"weight_map":)" + map + "}"; };
  const auto with_index = [&](const std::string& text) {
    return refusal_of({{"model.safetensors.index.json", text}, {"one.st", one}});
  };
  const std::string name = "/model.safetensors.index.json: ";
  EXPECT_EQ(refusal_of({{"readme", "x"}}),
            ": no tensors: neither model*.safetensors nor pytorch_model*.bin nor consolidated.*.pth nor "
            "adapter_model.safetensors");
  EXPECT_EQ(refusal_of({{"model-1.safetensors", one}, {"model-2.safetensors", one}}).substr(0, 53),
            R"(/model-2.safetensors: tensor "a" is also in )" + folder_.string().substr(0, 9));
  EXPECT_EQ(refusal_of({{"model.safetensors", "garbage"}}),
            "/model.safetensors: neither safetensors nor a PyTorch, GGJT or llama2.c file");
  EXPECT_EQ(refusal_of({{"model.safetensors", ""}}),
            "/model.safetensors: neither safetensors nor a PyTorch, GGJT or llama2.c file");
  EXPECT_EQ(with_index("[]"), name + "no object weight_map");
  EXPECT_EQ(with_index("{}"), name + "no object weight_map");
  EXPECT_EQ(with_index(index("3")), name + "no object weight_map");
  EXPECT_EQ(with_index(index(R"({"a":3})")), name + R"("a" is in "number", want the name of a file)");
  for (const char* part : {"", ".", "..", "../one.st", "/etc/passwd", "a/b"})
    EXPECT_NE(with_index(index(R"({"a":")" + std::string(part) + R"("})")).find("want the name of a file"),
              std::string::npos)
        << part;
  EXPECT_EQ(with_index(index(R"({"a":"one.st","b":"one.st"})")), name + R"(tensor "b" is not in "one.st")");
  EXPECT_NE(with_index(index(R"({"a":"none.st"})")).find("/none.st: "), std::string::npos);
  EXPECT_NE(with_index("{\"weight_map\":").find(name + "not JSON: byte "), std::string::npos);
  EXPECT_NE(with_index(std::string(100, '[')).find("nested too deeply"), std::string::npos);
}

TEST_F(CheckpointFolder, AMissingFolderIsAMissingFile) {
  const auto read = Checkpoint::open("/nonexistent/model");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), ErrorCode::not_found);
}

}  // namespace
}  // namespace tessera::convert
