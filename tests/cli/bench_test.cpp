// tessera bench: the tests of a command line, the contents of the rows, and the formats. Speeds are not tested.
#include <nlohmann/json.hpp>

#include <set>
#include <sstream>

#include "tests/cli/cli_support.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::expect_refusal;
using testing::ProgramOutput;
using testing::run_program;

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
  const std::string model = testing::story_model();
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
  const std::string model = testing::story_model();
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

// A rate is work over time, so rate times time is the work: 8 tokens, 2 micro-batches of 4, logits of the last token
// only.
TEST(Bench, CountsTheWorkOfEveryMicroBatch) {
  const std::string model = testing::story_model();
  const json row = json::parse(bench(model, {"-o", "jsonl", "-p", "8", "-n", "0", "-ub", "4", "-r", "1"}));
  const double seconds = row["avg_ns"].get<double>() * 1e-9;
  const double projections = 64 * 64 + 2 * 64 * 32, rest = 64 * 64 + 3 * 64 * 172, head = 64 * 512;
  const double pairs = 8 * 9 / 2;
  const double macs = 8 * (5 * projections + 4 * rest) + rest + head + pairs * 5 * 8 * (8 + 8);
  // The printed time is at least 10 us, rounded to 1 ns.
  EXPECT_NEAR(row["gmacs"].get<double>() * 1e9 * seconds, macs, 1e-3 * macs);
}

TEST(Bench, CsvHasAHeaderAndOneLinePerTest) {
  const std::string model = testing::story_model();
  const std::vector<std::string> lines = lines_of(bench(model, {"-o", "csv", "-p", "4", "-n", "2"}));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_NE(lines[0].find("\"n_prompt\",\"n_gen\",\"n_depth\""), std::string::npos) << lines[0];
  for (const std::string& line : lines) EXPECT_EQ(std::ranges::count(line, ','), std::ranges::count(lines[0], ','));
}

TEST(Bench, TableNamesMachineAndPeaks) {
  const std::string model = testing::story_model();
  const std::string table = bench(model, {"-p", "4", "-n", "2", "-d", "3"});
  for (const char* part : {"peaks with 1 thread: int8", "GMAC/s", "GB/s", " pp4 @ d3 |", " tg2 @ d3 |"})
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
}

TEST(Bench, ExplainShowsTheTimeOfEachPhaseByKindOfWork) {
  const std::string model = testing::story_model();
  const json row =
      json::parse(bench(model, {"--explain", "-o", "jsonl", "-p", "0", "-n", "0", "-pg", "8,3", "-d", "4"}));
  const json& phases = row["explain"];
  ASSERT_EQ(phases.size(), 2u);
  EXPECT_EQ(phases[0]["phase"], "prefill");
  EXPECT_EQ(phases[0]["n_tokens"], 8);
  EXPECT_EQ(phases[1]["phase"], "decode");
  EXPECT_EQ(phases[1]["n_tokens"], 3);
  for (const json& phase : phases) {
    double seconds = 0, bound_seconds = 0;
    for (const json& part : phase["parts"]) {
      seconds += part["seconds"].get<double>();
      bound_seconds += part["bound_seconds"].get<double>();
      const bool is_product = part["name"] == "products f32";
      EXPECT_EQ(is_product && part["bound"] == "", false);
    }
    EXPECT_NEAR(seconds, phase["seconds"].get<double>(), 1e-9 + 1e-6 * seconds);
    EXPECT_NEAR(bound_seconds, phase["bound_seconds"].get<double>(), 1e-9);
  }
  // The work of attention: pairs of 8 tokens after 4, then of 3 single tokens.
  const auto attention_macs = [](const json& phase) {
    for (const json& part : phase["parts"])
      if (part["name"] == "attention") return part["macs"].get<double>();
    return 0.0;
  };
  EXPECT_EQ(attention_macs(phases[0]), (5 + 6 + 7 + 8 + 9 + 10 + 11 + 12) * 5 * 8 * 16);
  EXPECT_EQ(attention_macs(phases[1]), (13 + 14 + 15) * 5 * 8 * 16);
  EXPECT_FALSE(json::parse(bench(model, {"-o", "jsonl", "-p", "4", "-n", "0"})).contains("explain"));
}

TEST(Bench, ExplanationsFollowTheTable) {
  const std::string text = bench(testing::story_model(), {"--explain", "-p", "4", "-n", "2"});
  const size_t last_row = text.find(" tg2 |"), prefill = text.find("pp4: prefill of 4 tokens in "),
               decode = text.find("tg2: decode of 2 tokens in ");
  ASSERT_NE(decode, std::string::npos) << text;
  EXPECT_LT(last_row, prefill);
  EXPECT_LT(prefill, decode);
  EXPECT_NE(text.find("kind of work", prefill), std::string::npos);
  EXPECT_NE(text.find("products f32", decode), std::string::npos);
}

TEST(Bench, RefusesWhatItCannotMeasureBeforeLoading) {
  expect_refusal(run_program({"bench", "-m", "no-such-file", "-p", "0", "-n", "0"}), 2, "nothing to measure");
  expect_refusal(run_program({"bench", "-m", "no-such-file", "-p", "1,x"}), 2, "'x' is not a whole number");
  expect_refusal(run_program({"bench", "-m", "no-such-file", "-ctk", "f16,f17"}), 2, "'f17' is not a type");
  expect_refusal(run_program({"bench", "-m", "no-such-file", "-pg", "5"}), 2, "want two numbers P,G");
  expect_refusal(run_program({"bench", "-m", "no-such-file", "-o", "xml"}), 2, "'xml' is not a format");
  expect_refusal(run_program({"bench", "-m", "no-such-file", "-d", "16777216"}), 2, "limit 16777216");
}

std::vector<json> bench_ops(std::vector<std::string> flags) {
  std::vector<std::string> args = {"bench", "--ops-size", "small", "-r", "2", "-t", "1", "-o", "jsonl"};
  args.insert(args.end(), flags.begin(), flags.end());
  const ProgramOutput output = run_program(args);
  EXPECT_EQ(output.status, 0) << output.err;
  std::vector<json> rows;
  for (const std::string& line : lines_of(output.out)) rows.push_back(json::parse(line));
  return rows;
}

TEST(BenchOps, RowTellsTheWorkAndItsBound) {
  const std::vector<json> rows = bench_ops({"--ops", "^mul_mat q4_k .* t16$|^add .* t1$", "--ops-types", "Q4_K,q8_0"});
  ASSERT_EQ(rows.size(), 2u);
  const json &product = rows[0], &sum = rows[1];
  EXPECT_EQ(product["op"], "mul_mat");
  EXPECT_EQ(product["type"], "q4_K");
  EXPECT_EQ(product["shape"], "256x32");
  EXPECT_EQ(product["n_tokens"], 16);
  EXPECT_EQ(product["n_threads"], 1);
  ASSERT_EQ(product["samples_us"].size(), 2u);
  const double seconds = product["median_us"].get<double>() * 1e-6;
  // The factors are multiplied in another order, so the result may differ by rounding.
  EXPECT_NEAR(product["gmacs"].get<double>() * 1e9 * seconds, 256 * 32 * 16, 1e-3);
  const double bytes = 32 * 144 + 256 * 16 * 4 + 32 * 16 * 4;
  EXPECT_NEAR(product["gbps"].get<double>() * 1e9 * seconds, bytes, 1e-3);
  EXPECT_NEAR(product["streamed_mb"].get<double>(), 2 * 32 * 144 * 1e-6, 1e-12);  // two copies, at the small size
  const double compute = 256 * 32 * 16 / product["peak_int8_gmacs"].get<double>() * 1e-9;
  const double read = bytes / product["peak_read_gbps"].get<double>() * 1e-9;
  EXPECT_NEAR(product["peak_share"].get<double>(), std::max(compute, read) / seconds, 1e-9);
  EXPECT_EQ(product["bound"], compute > read ? "int8" : "read");
  EXPECT_EQ(sum["op"], "add");
  EXPECT_EQ(sum["bound"], "read");
  EXPECT_EQ(sum["streamed_mb"], 0);
  EXPECT_TRUE(sum.contains("peak_int16_gmacs"));
}

TEST(BenchOps, EveryOperationRunsWithEveryNumberOfThreads) {
  std::set<std::string> ops;
  std::multiset<int> threads;
  for (const json& row : bench_ops({"--ops", ".", "--ops-types", "f16", "-t", "2,1"})) {
    ops.insert(row["op"]);
    threads.insert(row["n_threads"].get<int>());
    EXPECT_GT(row["median_us"].get<double>(), 0) << row;
  }
  EXPECT_EQ(ops, (std::set<std::string>{"mul_mat", "get_rows", "paged_attention", "rms_norm", "swiglu", "soft_max",
                                        "add", "rope"}));
  EXPECT_EQ(threads.count(1), threads.count(2));
}

TEST(BenchOps, AllTypesOfWeightsAreTheDefault) {
  std::set<std::string> types;
  for (const json& row : bench_ops({"--ops", "mul_mat .* t1$", "-r", "1"})) types.insert(row["type"]);
  EXPECT_EQ(types.size(), 28u);
  for (const char* type : {"f32", "f16", "bf16", "q4_0", "q6_K", "iq1_m", "nvfp4"})
    EXPECT_TRUE(types.contains(type)) << type;
}

TEST(BenchOps, TableNamesOperationsAndPeaks) {
  const ProgramOutput output =
      run_program({"bench", "--ops", "paged_attention .* @70 t1$", "--ops-size", "small", "-t", "1"});
  for (const char* part :
       {"peaks with 1 thread: int8", "| streamed MB |", "| paged_attention | f16 ", "| paged_attention | q8_0 "})
    EXPECT_NE(output.out.find(part), std::string::npos) << part << "\n" << output.out;
}

TEST(BenchOps, RefusesWhatItCannotMeasure) {
  expect_refusal(run_program({"bench", "--ops", "mul_mat("}), 2, "is not a regular expression");
  expect_refusal(run_program({"bench", "--ops", ".", "--ops-types", "q4_0,q4_7"}), 2,
                 "'q4_7' is not a type of weights");
  expect_refusal(run_program({"bench", "--ops", ".", "--ops-size", "huge"}), 2, "'huge' is not one of model, small");
  const ProgramOutput unknown = run_program({"bench", "--ops", "fft", "-o", "jsonl", "-t", "1"});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_NE(unknown.err.find("no operation matches"), std::string::npos) << unknown.err;
  const ProgramOutput no_kernel =
      run_program({"bench", "--ops", "mul_mat", "--ops-types", "i32", "--ops-size", "small", "-o", "jsonl", "-t", "1"});
  EXPECT_EQ(no_kernel.status, 1);
  EXPECT_EQ(no_kernel.out, "");
}

TEST(BenchMasks, VerdictsRefusalsAndFormats) {
  const std::string model = testing::story_model();
  const std::string cases = testing::write_temporary(
      "masks.jsonl",
      R"({"schema": {"type": "array", "items": {"type": "integer"}}, "tests": [{"data": [1, 2], "valid": true}, {"data": ["x"], "valid": false}]})"
      "\n"
      R"({"schema": {"type": "array"}, "tests": [{"data": [1], "valid": false}]})"
      "\n"
      R"({"schema": {"$ref": "http://x/y"}})"
      "\n");
  const ProgramOutput output = run_program({"bench", "--masks", cases, "-m", model, "-o", "json"});
  EXPECT_EQ(output.status, 0) << output.err;
  const json row = json::parse(output.out);
  EXPECT_EQ(row["n_schemas"], 3);
  EXPECT_EQ(row["n_passing"], 1);
  EXPECT_EQ(row["n_refused"], 1);
  EXPECT_EQ(row["refused"], (json{{"$ref", 1}}));
  EXPECT_EQ(row["n_wrong_accepts"], 1);
  EXPECT_EQ(row["n_wrong_rejects"], 0);
  EXPECT_GT(row["mask_us"]["n"], 5);
  EXPECT_NE(output.err.find("line 2: test 0: wrong"), std::string::npos) << output.err;
  EXPECT_NE(output.err.find("line 3: json_schema#/$ref"), std::string::npos) << output.err;
  const ProgramOutput table = run_program({"bench", "--masks", cases, "-m", model, "-q"});
  EXPECT_NE(table.out.find("3 schemas: 1 pass, 1 refused; 3 tests: 1 wrongly accepted, 0 wrongly rejected"),
            std::string::npos)
      << table.out;
  const std::string bad = testing::write_temporary("bad_masks.jsonl", "{\"schema\": {}}\n{}\n");
  expect_refusal(run_program({"bench", "--masks", bad, "-m", model}), 1, bad + ": line 2: schema: missing");
}

}  // namespace
}  // namespace tessera
