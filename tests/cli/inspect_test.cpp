// tessera inspect: its output, values of tensors, split models, and texts with control characters.
#include <cstring>

#include <nlohmann/json.hpp>

#include "tessera/gguf/split.h"
#include "tests/cli/cli_support.h"
#include "tests/support/editable_model.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::EditableModel;
using testing::expect_refusal;
using testing::ProgramOutput;
using testing::run_program;

TEST(Inspect, JsonIsWhatTheFileHolds) {
  const std::string model = testing::story_model();
  const ProgramOutput output = run_program({"inspect", model, "--json"});
  ASSERT_EQ(output.status, 0) << output.err;
  const json file = json::parse(output.out);
  EXPECT_EQ(file["version"], 3);
  EXPECT_EQ(file["architecture"], "llama");
  EXPECT_EQ(file["n_parameters"], 292800);
  EXPECT_EQ(file["n_bytes"], std::filesystem::file_size(model));
  EXPECT_EQ(file["formats"], json::parse(R"({"f32": {"n_tensors": 48, "n_bytes": 1171200}})"));
  EXPECT_EQ(file["keys"]["llama.block_count"], json::parse(R"({"type": "u32", "value": 5})"));
  EXPECT_EQ(file["keys"]["tokenizer.ggml.tokens"]["value"].size(), 512u);
  EXPECT_EQ(file["keys"]["tokenizer.ggml.tokens"]["value"][1], "<s>");
  EXPECT_EQ(file["keys"]["tokenizer.ggml.token_type"]["value"][1], 3);
  ASSERT_EQ(file["tensors"].size(), 48u);
  EXPECT_EQ(file["tensors"][0]["name"], "token_embd.weight");
  EXPECT_EQ(file["tensors"][0]["type"], "f32");
  EXPECT_EQ(file["tensors"][0]["shape"], json({64, 512}));
  EXPECT_EQ(file["tensors"][0]["n_bytes"], 64 * 512 * 4);
}

TEST(Inspect, KeysAndTensorsRestrictWhatIsPrinted) {
  const std::string model = testing::story_model();
  const std::string all = run_program({"inspect", "-m", model}).out,
                    keys = run_program({"inspect", model, "--keys"}).out,
                    tensors = run_program({"inspect", model, "--tensors"}).out;
  EXPECT_TRUE(all.starts_with("file ")) << all;
  EXPECT_NE(all.find("parameters    292800"), std::string::npos) << all;
  EXPECT_NE(all.find(keys), std::string::npos);
  EXPECT_NE(all.find(tensors), std::string::npos);
  EXPECT_NE(keys.find("llama.block_count"), std::string::npos);
  EXPECT_EQ(keys.find("blk.0"), std::string::npos);
  EXPECT_EQ(tensors.find("llama."), std::string::npos);
  EXPECT_EQ(json::parse(run_program({"inspect", model, "--keys", "--json"}).out).size(), 1u);
  EXPECT_EQ(json::parse(run_program({"inspect", model, "--keys", "--tensors", "--json"}).out).size(), 2u);
}

TEST(Inspect, DumpPrintsEveryValue) {
  const std::string model = testing::story_model();
  const auto file = GgufFile::open(model);
  ASSERT_OK(file);
  const GgufTensor& tensor = *(*file)->find_tensor("token_embd.weight");
  const auto bytes = (*file)->data(tensor);
  const std::string raw = run_program({"inspect", model, "--dump", "token_embd.weight", "--raw"}).out;
  ASSERT_EQ(raw.size(), bytes.size());
  EXPECT_EQ(std::memcmp(raw.data(), bytes.data(), raw.size()), 0);
  const std::string text = run_program({"inspect", model, "--dump", "token_embd.weight"}).out;
  EXPECT_EQ(std::ranges::count(text, '\n'), 512);
  std::istringstream numbers(text);
  for (size_t i = 0; i < bytes.size() / 4; ++i) {
    float want = 0, got = 0;
    std::memcpy(&want, bytes.data() + 4 * i, 4);
    numbers >> got;
    ASSERT_EQ(got, want) << i;  // the shortest text that reads back as the same float
  }
}

TEST(Inspect, DumpDecodesQuantizedBlocks) {
  GgufBuilder builder;
  builder.set("general.architecture", "none");
  ASSERT_OK(builder.add_tensor("t", DType::q8_0, {32, 2}));
  std::vector<std::byte> data(68, std::byte{0});
  data[1] = std::byte{0x3c};  // scale 1.0 as f16
  for (size_t i = 0; i < 32; ++i) data[2 + i] = static_cast<std::byte>(i);
  const std::vector<std::span<const std::byte>> spans = {data};
  const auto bytes = gguf_to_bytes(builder, spans);
  ASSERT_OK(bytes);
  const std::string path =
      testing::write_temporary("q8.gguf", {reinterpret_cast<const char*>(bytes->data()), bytes->size()});
  const std::string text = run_program({"inspect", path, "--dump", "t"}).out;
  EXPECT_TRUE(text.starts_with("0 1 2 3 ")) << text;
  EXPECT_NE(text.find(" 31\n0 0 "), std::string::npos) << text;
}

TEST(Inspect, DumpRefusesWhatItCannotDecodeOrFind) {
  const std::string model = testing::story_model();
  EditableModel edited(model);
  ASSERT_OK(edited.builder.add_tensor("integers", DType::i8, {32}));
  edited.data.emplace_back(32);
  expect_refusal(run_program({"inspect", edited.write("i8.gguf"), "--dump", "integers"}), 1, "type i8 has no decoder");
  expect_refusal(run_program({"inspect", model, "--dump", "nothing"}), 1, "no tensor 'nothing'");
  expect_refusal(run_program({"inspect", model, "--raw"}), 2, "give a tensor with --dump");
  expect_refusal(run_program({"inspect", model, "--dump", "x", "--json"}), 2, "--dump prints only values");
  expect_refusal(run_program({"inspect", model, model}), 2, "one file at a time");
}

TEST(Inspect, ControlCharactersNeverReachTheTerminal) {
  const std::string model = testing::story_model();
  EditableModel edited(model);
  edited.builder.set("general.name",
                     "\x1b[2J\x07\r\n\xc2\x9b"
                     "evil\xff");
  edited.builder.set_array("general.tags", std::vector<std::string>{"\x1b]0;title\x07"});
  const std::string path = edited.write("evil.gguf");
  for (const char* flag : {"--keys", "--tensors", "-q"}) {
    const ProgramOutput output = run_program({"inspect", path, flag});
    EXPECT_EQ(output.status, 0) << output.err;
    EXPECT_TRUE(
        std::ranges::none_of(output.out, [](char c) { return (c >= 0 && c < 0x20 && c != '\n') || c == 0x7f; }));
    EXPECT_EQ(output.out.find("\xc2\x9b"), std::string::npos);
  }
  const std::string name = json::parse(run_program({"inspect", path, "--json"}).out)["name"];
  EXPECT_EQ(name,
            "\x1b[2J\x07\r\n\xc2\x9b"
            "evil\xEF\xBF\xBD");
}

TEST(Inspect, SplitModelShowsAllParts) {
  const std::string prefix = (testing::temporary_dir() / "split").string();
  for (uint32_t i = 0; i < 2; ++i) {
    GgufBuilder builder;
    builder.set("general.architecture", "llama");
    builder.set("split.no", static_cast<uint16_t>(i));
    builder.set("split.count", uint16_t{2});
    builder.set("split.tensors.count", int32_t{2});
    ASSERT_OK(builder.add_tensor("t" + std::to_string(i), DType::f32, {8}));
    const std::vector<std::byte> data(32);
    const std::vector<std::span<const std::byte>> spans = {data};
    const auto bytes = gguf_to_bytes(builder, spans);
    ASSERT_OK(bytes);
    testing::write_temporary(std::filesystem::path(split_path(prefix, i, 2)).filename().string(),
                             {reinterpret_cast<const char*>(bytes->data()), bytes->size()});
  }
  const json file = json::parse(run_program({"inspect", split_path(prefix, 0, 2), "--json"}).out);
  EXPECT_EQ(file["files"].size(), 2u);
  EXPECT_EQ(file["n_parameters"], 16);
  EXPECT_EQ(file["tensors"][1]["name"], "t1");
  EXPECT_EQ(file["tensors"][1]["part"], 1);
  EXPECT_NE(run_program({"inspect", split_path(prefix, 0, 2)}).out.find("part 2"), std::string::npos);
}

}  // namespace
}  // namespace tessera
