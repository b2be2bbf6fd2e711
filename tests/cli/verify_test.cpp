// tessera verify: good models pass, and for others the message names the first fault.
#include <cstring>
#include <filesystem>
#include <limits>

#include <nlohmann/json.hpp>

#include "tessera/gguf/split.h"
#include "tests/cli/cli_support.h"
#include "tests/support/editable_model.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::EditableModel;
using testing::expect_refusal;
using testing::ProgramOutput;
using testing::run_program;

void put_float(std::vector<std::byte>& data, size_t i, float value) {
  std::memcpy(data.data() + i * sizeof(float), &value, sizeof(float));
}

// Returns a file with the logits of a few tokens, written by `tessera logits`.
std::string logits_file(const std::string& model) {
  const std::string path = (testing::temporary_dir() / "reference.logits").string();
  const ProgramOutput output = run_program({"logits", "-m", model, "--tokens", "1,5,9,200,31", "-o", path, "-q"});
  EXPECT_EQ(output.status, 0) << output.err;
  return path;
}

TEST(Verify, GoodModelsPass) {
  const std::string model = testing::story_model();
  const ProgramOutput plain = run_program({"verify", model});
  EXPECT_EQ(plain.status, 0) << plain.err;
  EXPECT_TRUE(plain.out.starts_with("values: 48 tensors, 1171200 bytes (1.17 MB), 292800 blocks, all finite\n"))
      << plain.out;
  const ProgramOutput output = run_program({"verify", "-m", model, "--json", "--reference", logits_file(model)});
  ASSERT_EQ(output.status, 0) << output.err;
  const json found = json::parse(output.out);
  EXPECT_EQ(found["n_tensors"], 48);
  EXPECT_EQ(found["n_bytes"], 1171200);
  EXPECT_EQ(found["n_blocks"], 292800);
  EXPECT_EQ(found["tokenizer"]["model"], "llama");
  EXPECT_EQ(found["tokenizer"]["n_tokens"], 512);
  EXPECT_GT(found["tokenizer"]["n_round_trips"], 200);
  EXPECT_EQ(found["reference"]["n_tokens"], 5);
  EXPECT_EQ(found["reference"]["nmse"], 0.0);
  ASSERT_EQ(found["reference"]["positions"].size(), 5u);
  EXPECT_EQ(found["reference"]["positions"][4],
            json::parse(R"({"nmse": 0.0, "max_difference": 0.0, "same_top": true})"));
}

TEST(Verify, GoldenLogitsAreThoseOfTheModel) {
  const std::string model = testing::arch_model("llama-dense");
  const std::string golden = testing::data_path("arch_specs/llama-dense.logits");
  const ProgramOutput output = run_program({"verify", model, "--reference", golden});
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_NE(output.out.find("tokenizer: no_vocab, 256 tokens\nlogits: "), std::string::npos) << output.out;
}

TEST(Verify, FirstFaultNamesTensorAndPlace) {
  const std::string model = testing::story_model();
  EditableModel edited(model);
  put_float(edited.tensor("blk.3.ffn_up.weight"), 64 * 7 + 3, std::numeric_limits<float>::quiet_NaN());
  const std::string path = edited.write("nan.gguf");
  for (const char* threads : {"1", "2"})
    expect_refusal(run_program({"verify", path, "-t", threads}), 1,
                   path + ": tensor blk.3.ffn_up.weight: element 451 (row 7): value is not finite");
}

TEST(Verify, QuantizedBlocksAreChecked) {
  GgufBuilder builder;
  builder.set("general.architecture", "none");
  ASSERT_OK(builder.add_tensor("t", DType::q8_0, {64, 2}));
  std::vector<std::byte> data(4 * 34, std::byte{0});
  const auto verify = [&] {
    const std::vector<std::span<const std::byte>> spans = {data};
    const auto bytes = gguf_to_bytes(builder, spans);
    EXPECT_OK(bytes);
    const std::string text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    return run_program({"verify", testing::write_temporary("q8.gguf", text)});
  };
  const ProgramOutput good = verify();
  EXPECT_EQ(good.status, 0) << good.err;
  EXPECT_EQ(good.out, "values: 1 tensors, 136 bytes (136 B), 4 blocks, all finite\n");  // no vocabulary
  data[3 * 34 + 1] = std::byte{0x7c};
  expect_refusal(verify(), 1, "tensor t: block 3 (row 1): scale is not finite");
}

TEST(Verify, DamagedStructureIsNamed) {
  const std::string model = testing::story_model();
  const std::string bytes = testing::read_all(model);
  expect_refusal(run_program({"verify", testing::write_temporary("cut.gguf", bytes.substr(0, bytes.size() / 2))}), 1,
                 "truncated at byte");
  expect_refusal(run_program({"verify", testing::write_temporary("text.gguf", "hello")}), 1, "text.gguf: ");
}

TEST(Verify, VocabulariesAreChecked) {
  const std::string model = testing::story_model();
  EditableModel edited(model);
  edited.builder.set_array("tokenizer.ggml.scores", std::vector<float>{1, 2});
  expect_refusal(run_program({"verify", edited.write("scores.gguf")}), 1, "tokenizer.ggml.scores");
}

TEST(Verify, TokenizersThatAreNotBuiltAreAWarning) {
  const std::string model = testing::story_model();
  EditableModel edited(model);
  edited.builder.set("tokenizer.ggml.model", "another");
  const ProgramOutput output = run_program({"verify", edited.write("another.gguf"), "--json"});
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_FALSE(json::parse(output.out).contains("tokenizer"));
  EXPECT_NE(output.err.find("the tokenizer is not checked"), std::string::npos) << output.err;
}

TEST(Verify, SplitModelsAreCheckedWhole) {
  const std::string model = testing::story_model();
  EditableModel edited(model);
  put_float(edited.tensor("blk.4.ffn_up.weight"), 0, std::numeric_limits<float>::infinity());
  const std::string prefix = (testing::temporary_dir() / "bad").string();
  ASSERT_EQ(run_program({"split", edited.write("inf.gguf"), prefix, "--split-max-tensors", "16", "-q"}).status, 0);
  expect_refusal(run_program({"verify", split_path(prefix, 0, 3)}), 1, "tensor blk.4.ffn_up.weight: element 0 (row 0)");
}

TEST(Verify, OtherLogitsAreRefused) {
  const std::string model = testing::story_model();
  std::string logits = testing::read_all(logits_file(model));
  EditableModel edited(model);
  for (size_t i = 0; i < 64; ++i) put_float(edited.tensor("output_norm.weight"), i, 1.0f);
  const std::string other = edited.write("other.gguf"),
                    reference = (testing::temporary_dir() / "reference.logits").string();
  expect_refusal(run_program({"verify", other, "--reference", reference}), 1,
                 "reference.logits: the model's logits differ: normalised mean squared error ");
  EXPECT_NE(run_program({"verify", other, "--reference", reference}).err.find(" at position "), std::string::npos);
  EXPECT_EQ(run_program({"verify", other, "--reference", reference, "--max-nmse", "1e6"}).status, 0);
  expect_refusal(
      run_program({"verify", model, "--reference", testing::write_temporary("cut.logits", logits.substr(4))}), 1,
      "cut.logits: ");
  expect_refusal(run_program({"verify", model, "--reference", reference, "-c", "4"}), 1,
                 "5 tokens, the context holds 4");
  expect_refusal(run_program({"verify", model, "--reference", "/absent"}), 1, "/absent: cannot open");
}

TEST(Verify, AMicroBatchAtATimeGivesTheSameError) {
  const std::string model = testing::story_model();
  const std::string reference = logits_file(model);
  const json found = json::parse(run_program({"verify", model, "--reference", reference, "-ub", "2", "--json"}).out);
  EXPECT_EQ(found["reference"]["nmse"], 0.0);  // logits do not depend on the micro-batch
}

TEST(Verify, WrongArgumentsAreRefused) {
  expect_refusal(run_program({"verify"}), 2, "no model");
  expect_refusal(run_program({"verify", "a", "b"}), 2, "one model at a time");
  expect_refusal(run_program({"verify", "a", "--max-nmse", "-1"}), 2, "--max-nmse");
}

}  // namespace
}  // namespace tessera
