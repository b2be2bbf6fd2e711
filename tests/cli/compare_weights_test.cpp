// tessera compare-weights: equal and different files, limits, JSON and refusals.
#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"
#include "tests/convert/hub_folder.h"

namespace tessera {
namespace {

using testing::expect_refusal;
using testing::hub_llama;
using testing::ProgramOutput;
using testing::run_program;
using testing::temporary_path;

TEST(CompareWeightsCommand, ShowsTheTensorsThatDiffer) {
  const std::string folder = hub_llama().write("hub");
  const std::string same = temporary_path("compared.gguf"), small = temporary_path("compared_small.gguf");
  ASSERT_EQ(run_program({"convert", folder, "-o", same}).status, 0);
  ASSERT_EQ(run_program({"quantize", same, small, "q4_0"}).status, 0);
  const ProgramOutput equal = run_program({"compare-weights", folder, same, "--max-nmse", "0"});
  EXPECT_EQ(equal.status, 0) << equal.err;
  EXPECT_EQ(equal.out, "21 tensors: 21 equal, 0 different, 0 without a counterpart of the same shape\n");
  EXPECT_NE(run_program({"compare-weights", folder, same, "--all"}).out.find("equal\n"), std::string::npos);
  const ProgramOutput other = run_program({"compare-weights", same, small});
  EXPECT_EQ(other.status, 0) << other.err;
  EXPECT_NE(other.out.find("blk.0.ffn_up.weight"), std::string::npos) << other.out;
  EXPECT_EQ(other.out.find("attn_norm"), std::string::npos) << other.out;
  const ProgramOutput strict = run_program({"compare-weights", same, small, "--max-nmse", "1e-9"});
  EXPECT_EQ(strict.status, 1);
  EXPECT_EQ(strict.out, other.out);
  EXPECT_NE(strict.err.find("limit 1e-09"), std::string::npos) << strict.err;
  const ProgramOutput output = run_program({"compare-weights", same, small, "--json"});
  const auto report = nlohmann::json::parse(output.out);
  EXPECT_EQ(report["tensors"].size(), 21u);
  EXPECT_EQ(report["n_unpaired"], 0);
  EXPECT_GT(report["n_different"], 0);
}

TEST(CompareWeightsCommand, NamesOfCheckpoints) {
  const std::string folder = hub_llama().write("hub");
  testing::HubFolder less = hub_llama();
  less.remove("model.layers.1.mlp.up_proj.weight");
  const std::string cut = less.write("cut");
  const ProgramOutput stored = run_program({"compare-weights", folder, cut});
  EXPECT_NE(stored.out.find("model.layers.1.mlp.up_proj.weight"), std::string::npos) << stored.out;
  EXPECT_NE(stored.out.find("only in the first"), std::string::npos) << stored.out;
  const ProgramOutput unpaired = run_program({"compare-weights", folder, cut, "--max-nmse", "1"});
  EXPECT_EQ(unpaired.status, 1);
  EXPECT_NE(unpaired.err.find("tensors without a counterpart of the same shape: 1"), std::string::npos) << unpaired.err;
  EXPECT_NE(run_program({"compare-weights", folder, folder, "--converted", "--all"}).out.find("blk.1.ffn_up.weight"),
            std::string::npos);
  expect_refusal(run_program({"compare-weights", folder}), 2, "want two models or checkpoints");
  expect_refusal(run_program({"compare-weights", folder, cut, cut}), 2, "two at a time");
  expect_refusal(run_program({"compare-weights", folder, cut + "/none"}), 1, "none");
}

}  // namespace
}  // namespace tessera
