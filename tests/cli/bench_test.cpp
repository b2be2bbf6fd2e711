// tessera bench: which tests a command line means, what the rows say, and the formats. Speeds themselves are not
// tested.
#include <nlohmann/json.hpp>

#include <sstream>

#include "tests/cli/cli_support.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::expect_refusal;
using testing::ProgramOutput;
using testing::run_program;

const std::string kModel = "models/stories260K.gguf";

std::string bench(const std::string& model, std::vector<std::string> flags) {
  std::vector<std::string> args = {"bench", "-m", model, "-r", "2", "-t", "1"};
  args.insert(args.end(), flags.begin(), flags.end());
  const ProgramOutput output = run_program(args);
  EXPECT_EQ(output.status, 0) << output.err;
  return output.out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Bench, ListsMakeACrossProduct) {
  TESSERA_SHARED_OR_SKIP(model, kModel);
  const json rows =
      json::parse(bench(model, {"-o", "json", "-p", "8,0,4", "-n", "3", "-pg", "5,2", "-d", "0,6", "-ctk", "f16,f32"}));
  std::vector<std::vector<int>> tests;
  std::vector<std::string> types;
  for (const json& row : rows) {
    tests.push_back({row["n_depth"], row["n_prompt"], row["n_gen"]});
    types.push_back(row["type_k"]);
  }
  const std::vector<std::vector<int>> of_one_type = {{0, 8, 0}, {0, 4, 0}, {0, 0, 3}, {0, 5, 2},
                                                     {6, 8, 0}, {6, 4, 0}, {6, 0, 3}, {6, 5, 2}};
  std::vector<std::vector<int>> expected = of_one_type;
  expected.insert(expected.end(), of_one_type.begin(), of_one_type.end());
  EXPECT_EQ(tests, expected);
  EXPECT_EQ(std::ranges::count(types, "f16"), 8);
  EXPECT_EQ(std::ranges::count(types, "f32"), 8);
}

TEST(Bench, RowTellsModelMachineAndSamples) {
  TESSERA_SHARED_OR_SKIP(model, kModel);
  const std::vector<std::string> rows =
      lines_of(bench(model, {"-o", "jsonl", "-p", "8", "-n", "0", "-ub", "4", "-ctv", "bf16"}));
  ASSERT_EQ(rows.size(), 1u);
  const json row = json::parse(rows[0]);
  EXPECT_EQ(row["model_filename"], model);
  EXPECT_EQ(row["model_type"], "llama 0.293 M f32");
  EXPECT_EQ(row["model_size"], 1171200);
  EXPECT_EQ(row["model_n_params"], 292800);
  EXPECT_EQ(row["n_threads"], 1);
  EXPECT_EQ(row["n_ubatch"], 4);
  EXPECT_EQ(row["type_v"], "bf16");
  ASSERT_EQ(row["samples_ts"].size(), 2u);
  const double first = row["samples_ts"][0], second = row["samples_ts"][1];
  EXPECT_DOUBLE_EQ(row["avg_ts"], (first + second) / 2);
  EXPECT_GT(row["peak_read_gbps"], 0);
  for (const char* key : {"isa", "stddev_ts", "avg_ns", "gmacs", "gbps", "peak_share"})
    EXPECT_TRUE(row.contains(key)) << key;
}

// Rates are work over time, so work can be read back: 8 tokens, 2 micro-batches of 4, logits of the last token only.
TEST(Bench, CountsTheWorkOfEveryMicroBatch) {
  TESSERA_SHARED_OR_SKIP(model, kModel);
  const json row = json::parse(bench(model, {"-o", "jsonl", "-p", "8", "-n", "0", "-ub", "4", "-r", "1"}));
  const double seconds = row["avg_ns"].get<double>() * 1e-9;
  const double projections = 64 * 64 + 2 * 64 * 32, rest = 64 * 64 + 3 * 64 * 172, head = 64 * 512;
  const double pairs = 8 * 9 / 2;
  const double macs = 8 * (5 * projections + 4 * rest) + rest + head + pairs * 5 * 8 * (8 + 8);
  // The printed time is rounded to 1 ns of at least 10 us.
  EXPECT_NEAR(row["gmacs"].get<double>() * 1e9 * seconds, macs, 1e-3 * macs);
}

TEST(Bench, CsvHasAHeaderAndOneLinePerTest) {
  TESSERA_SHARED_OR_SKIP(model, kModel);
  const std::vector<std::string> lines = lines_of(bench(model, {"-o", "csv", "-p", "4", "-n", "2"}));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_NE(lines[0].find("\"n_prompt\",\"n_gen\",\"n_depth\""), std::string::npos) << lines[0];
  for (const std::string& line : lines) EXPECT_EQ(std::ranges::count(line, ','), std::ranges::count(lines[0], ','));
}

TEST(Bench, TableNamesMachineAndPeaks) {
  TESSERA_SHARED_OR_SKIP(model, kModel);
  const std::string table = bench(model, {"-p", "4", "-n", "2", "-d", "3"});
  for (const char* part : {"peaks with 1 thread: int8", "GMAC/s", "GB/s", " pp4 @ d3 |", " tg2 @ d3 |"})
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
}

TEST(Bench, RefusesWhatItCannotMeasureBeforeLoading) {
  expect_refusal(run_program({"bench", "-m", "no-such-file", "-p", "0", "-n", "0"}), 2, "nothing to measure");
  expect_refusal(run_program({"bench", "-m", "no-such-file", "-p", "1,x"}), 2, "'x' is not a whole number");
  expect_refusal(run_program({"bench", "-m", "no-such-file", "-ctk", "f16,f17"}), 2, "'f17' is not a type");
  expect_refusal(run_program({"bench", "-m", "no-such-file", "-pg", "5"}), 2, "want two numbers P,G");
  expect_refusal(run_program({"bench", "-m", "no-such-file", "-o", "xml"}), 2, "'xml' is not a format");
  expect_refusal(run_program({"bench", "-m", "no-such-file", "-d", "16777216"}), 2, "limit 16777216");
}

}  // namespace
}  // namespace tessera
