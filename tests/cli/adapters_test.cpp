// Adapters on the command line: the flags of every command with a model, export-lora, and all refusals.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"
#include "tests/support/lora_support.h"

namespace tessera {
namespace {

using testing::AdapterFile;
using testing::expect_refusal;
using testing::ProgramOutput;
using testing::run_program;
using testing::write_lora;

class Adapters : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = testing::story_model();
    lora_ = write_lora(model_, "lora.gguf", 4, 8, 1);
    AdapterFile vector = AdapterFile::control_vector();
    for (const int layer : {1, 2, 3, 4}) vector.add_random("direction." + std::to_string(layer), {64}, 3.0f);
    vector_ = vector.write("vector.gguf");
  }

  // Returns the text that the model generates with these flags.
  std::string generate(std::vector<std::string> flags, const std::string& model = "") const {
    flags.insert(flags.begin(), {"run", "-m", model.empty() ? model_ : model, "-p", "Once upon a time", "-n", "24",
                                 "--temp", "0", "--ignore-eos", "-c", "64", "-q"});
    const ProgramOutput output = run_program(flags);
    EXPECT_EQ(output.status, 0) << output.err;
    EXPECT_EQ(output.err, "");
    return output.out;
  }
  void expect_refused(std::vector<std::string> flags, int status, const std::string& part) const {
    flags.insert(flags.begin(), {"run", "-m", model_, "-p", "a", "-n", "1", "-c", "64"});
    expect_refusal(run_program(flags), status, part);
  }

  std::string model_, lora_, vector_;
};

TEST_F(Adapters, FlagsAddThemWithTheirScales) {
  const std::string plain = generate({}), adapted = generate({"--lora", lora_});
  EXPECT_NE(adapted, plain);
  EXPECT_EQ(generate({"--lora-scaled", lora_ + ":1"}), adapted);
  EXPECT_EQ(generate({"--lora-scaled", lora_ + ":0"}), plain);
  EXPECT_EQ(generate({"--lora", lora_, "--lora-scaled", lora_ + ":-0.5", "--lora-scaled", lora_ + ":-0.5"}), plain);
  const std::string steered = generate({"--control-vector-scaled", vector_ + ":3"});
  EXPECT_NE(steered, plain);
  EXPECT_EQ(generate({"--control-vector-scaled", vector_ + ":3", "--control-vector-layer-range", "1", "4"}), steered);
  EXPECT_NE(generate({"--control-vector-scaled", vector_ + ":3", "--control-vector-layer-range", "4", "4"}), steered);
  EXPECT_EQ(generate({"--control-vector", vector_, "--control-vector-scaled", vector_ + ":2"}), steered);
}

TEST_F(Adapters, ThePlanCountsThem) {
  const auto plan = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"plan", "--json", "-m", model_, "-c", "64"});
    const ProgramOutput output = run_program(flags);
    EXPECT_EQ(output.status, 0) << output.err;
    return nlohmann::json::parse(output.out);
  };
  const auto plain = plan({}), adapted = plan({"--lora", lora_});
  EXPECT_GT(adapted["weights_bytes"], plain["weights_bytes"]);
  EXPECT_GT(adapted["compute_bytes"], plain["compute_bytes"]);
}

TEST_F(Adapters, BadOnesAreRefusedInOneLine) {
  expect_refused({"--lora", testing::temporary_path("none.gguf")}, 1, "none.gguf");
  expect_refused({"--lora", model_}, 1, "key 'general.type'");
  expect_refused({"--lora", vector_}, 1, "general.type");
  expect_refused({"--control-vector", lora_}, 1, "architecture 'llama', a control vector's is");
  expect_refused({"--lora", ""}, 2, "want a file");
  expect_refused({"--lora-scaled", "lora.gguf"}, 2, "'lora.gguf': want FILE:SCALE, e.g. style.gguf:0.5");
  expect_refused({"--lora-scaled", ":1"}, 2, "want FILE:SCALE");
  expect_refused({"--lora-scaled", lora_ + ":"}, 2, "--lora-scaled");
  expect_refused({"--lora-scaled", lora_ + ":nan"}, 2, "--lora-scaled");
  expect_refused({"--lora-scaled", lora_ + ":1e30"}, 2, "--lora-scaled");
  expect_refused({"--control-vector", vector_, "--control-vector-layer-range", "5", "9"}, 1,
                 "no direction for layers 5");
  expect_refused({"--control-vector-layer-range", "3", "2"}, 2, "--control-vector-layer-range");
  expect_refused({"--control-vector-layer-range", "3"}, 2, "--control-vector-layer-range wants a value: START END");
  expect_refused({"--control-vector-layer-range=3"}, 2, "want two numbers");
  const std::string whole = testing::read_all(lora_);
  expect_refused({"--lora", testing::write_temporary("cut.gguf", whole.substr(0, whole.size() / 2))}, 1, "cut.gguf");
  AdapterFile other = AdapterFile::lora("qwen2", 1);
  other.add_random("blk.0.attn_q.weight.lora_a", {64, 1}, 1);
  other.add_random("blk.0.attn_q.weight.lora_b", {1, 64}, 1);
  expect_refused({"--lora", other.write("qwen.gguf")}, 1, "an adapter for architecture 'qwen2'");
}

TEST_F(Adapters, ExportLoraMergesThem) {
  const std::string out = testing::temporary_path("merged.gguf");
  const ProgramOutput output =
      run_program({"export-lora", "-m", model_, "--lora-scaled", lora_ + ":0.5", "--lora", lora_, "-o", out});
  ASSERT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(output.out, "");
  EXPECT_NE(output.err.find("merged into 37 of 48 tensors"), std::string::npos) << output.err;
  EXPECT_EQ(generate({}, out), generate({"--lora-scaled", lora_ + ":1.5"}));
  const ProgramOutput typed = run_program({"export-lora", "-m", model_, "--lora", lora_, "-o", out, "--type", "F16"});
  ASSERT_EQ(typed.status, 0) << typed.err;
  const auto file = GgufFile::open(out);
  ASSERT_OK(file);
  EXPECT_EQ((*file)->find_tensor("blk.0.attn_q.weight")->dtype, DType::f16);
}

TEST_F(Adapters, ExportLoraRefuses) {
  const std::string out = testing::temporary_path("refused.gguf");
  const auto refused = [&](std::vector<std::string> flags, int status, const std::string& part) {
    flags.insert(flags.begin(), "export-lora");
    expect_refusal(run_program(flags), status, part);
    EXPECT_FALSE(std::filesystem::exists(out));
  };
  refused({"-m", model_, "-o", out}, 2, "no adapter");
  refused({"-m", model_, "--lora", lora_}, 2, "no output");
  refused({"--lora", lora_, "-o", out}, 2, "no model");
  refused({"-m", model_, "--lora", lora_, "-o", out, "--type", "q9"}, 2, "'q9' is not a type of weights");
  refused({"-m", model_, "--lora", lora_, "-o", out, "--type", "q4_K"}, 1, "no whole blocks of q4_K");
  refused({"-m", model_, "--lora", vector_, "-o", out}, 1, "general.type");
  refused({"-m", model_, "--lora", lora_, "-o", model_}, 1, "is the input");
  refused({"-m", model_, "--lora", lora_, "-o", lora_}, 1, "is an adapter of the input");
  refused({"-m", model_, "--lora", lora_, "-o", "/nowhere/x.gguf"}, 1, "/nowhere/x.gguf");
}

}  // namespace
}  // namespace tessera
