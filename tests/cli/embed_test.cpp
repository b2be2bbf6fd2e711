// tessera embed: vectors as JSON and as lines, poolings and norms, scores of pairs, and refusals.
#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"
#include "tests/support/tiny_encoder.h"

namespace tessera {
namespace {

using testing::expect_refusal;
using testing::ProgramOutput;
using testing::run_program;
using testing::TinyEncoder;
using Json = nlohmann::json;

std::string bert(uint32_t pooling_type = 2) {
  TinyEncoder tiny("bert");
  tiny.key("pooling_type", pooling_type);
  tiny.linear("cls.output", TinyEncoder::kWidth, 1, true);
  return tiny.write("bert.gguf");
}

Json embed(const std::string& model, const std::vector<std::string>& more, const std::string& input = "") {
  std::vector<std::string> args = {"embed", "-m", model, "-q"};
  args.insert(args.end(), more.begin(), more.end());
  const ProgramOutput output = run_program(args, input);
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(output.err, "");
  Json parsed = Json::parse(output.out, nullptr, false);
  EXPECT_FALSE(parsed.is_discarded()) << output.out;
  return parsed;
}

std::vector<double> vector_of(const Json& list, size_t i) {
  return list.at("data").at(i).at("embedding").get<std::vector<double>>();
}

double norm_of(const std::vector<double>& x, double p) {
  double sum = 0;
  for (const double v : x) sum += std::pow(std::abs(v), p);
  return std::pow(sum, 1 / p);
}

TEST(Embed, PrintsAVectorOfLengthOnePerLine) {
  const std::string model = bert();
  const Json list = embed(model, {}, "a b c\n\nz\n");
  EXPECT_EQ(list.at("object"), "list");
  ASSERT_EQ(list.at("data").size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(list["data"][i].at("object"), "embedding");
    EXPECT_EQ(list["data"][i].at("index"), i);
    ASSERT_EQ(vector_of(list, i).size(), static_cast<size_t>(TinyEncoder::kWidth));
    EXPECT_NEAR(norm_of(vector_of(list, i), 2), 1, 1e-6);
  }
  EXPECT_NE(list["data"][0], list["data"][2]);
  // The same texts by -f, and each by -p.
  EXPECT_EQ(embed(model, {"-f", testing::write_temporary("texts", "a b c\n\nz")}), list);
  EXPECT_EQ(vector_of(embed(model, {"-p", "z"}), 0), vector_of(list, 2));
  EXPECT_EQ(vector_of(embed(model, {"-p", ""}), 0), vector_of(list, 1));
}

TEST(Embed, VectorsAreTheModels) {
  TinyEncoder tiny("bert");
  const Json list = embed(tiny.write("bert.gguf"),
                          {"-p", "a z", "--pooling", "none", "--embd-normalize", "-1", "-ctk", "f32", "-ctv", "f32"});
  const auto rows = list["data"][0]["embedding"].get<std::vector<std::vector<double>>>();
  const auto expected = tiny.forward({2, TinyEncoder::letter('a'), TinyEncoder::letter('z'), 3});
  ASSERT_EQ(rows.size(), expected.size());
  for (size_t t = 0; t < rows.size(); ++t)
    for (size_t i = 0; i < rows[t].size(); ++i) EXPECT_NEAR(rows[t][i], expected[t][i], 2e-4);  // f32 against double
}

TEST(Embed, PoolingIsTheModelsOrTheFlags) {
  const std::string model = bert(1);
  const auto vector = [&](const std::string& pooling) {
    return vector_of(embed(model, {"-p", "a b", "--pooling", pooling}), 0);
  };
  const auto plain = vector_of(embed(model, {"-p", "a b"}), 0);
  EXPECT_EQ(plain, vector("mean"));
  EXPECT_NE(plain, vector("cls"));
  EXPECT_NE(plain, vector("last"));
  EXPECT_NE(vector("cls"), vector("last"));
}

TEST(Embed, NormsAreThoseThatUsersKnow) {
  const std::string model = bert();
  const auto vector = [&](const std::string& norm) {
    return vector_of(embed(model, {"-p", "a b", "--embd-normalize", norm}), 0);
  };
  EXPECT_NEAR(norm_of(vector("1"), 1), 1, 1e-6);
  EXPECT_NEAR(norm_of(vector("2"), 2), 1, 1e-6);
  EXPECT_NEAR(norm_of(vector("3"), 3), 1, 1e-6);
  double peak = 0;
  for (const double v : vector("0")) peak = std::max(peak, std::abs(v));
  EXPECT_EQ(peak, 32760);
  EXPECT_GT(std::abs(norm_of(vector("-1"), 2) - 1), 0.01);
}

TEST(Embed, PrintsArraysAndLines) {
  const std::string model = bert();
  const Json list = embed(model, {}, "a\nb\n");
  const Json arrays = embed(model, {"--embd-output-format", "array"}, "a\nb\n");
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays[1], list["data"][1]["embedding"]);
  const ProgramOutput raw = run_program({"embed", "-m", model, "-q", "--embd-output-format", "raw"}, "a\nb\n");
  std::istringstream lines(raw.out);
  std::string line;
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(std::getline(lines, line));
    std::istringstream numbers(line);
    std::vector<double> vector;
    for (double v = 0; numbers >> v;) vector.push_back(v);
    EXPECT_EQ(vector, vector_of(list, i));
  }
  EXPECT_FALSE(std::getline(lines, line));
  const ProgramOutput tokens =
      run_program({"embed", "-m", model, "-q", "-p", "a", "--pooling", "none", "--embd-output-format", "raw"});
  EXPECT_EQ(std::ranges::count(tokens.out, '\n'), 3);  // [CLS] a [SEP]
}

TEST(Embed, RanksPairsOfQueryAndDocument) {
  TinyEncoder tiny("bert");
  tiny.linear("cls.output", TinyEncoder::kWidth, 1, true);
  const Json list =
      embed(tiny.write("rank.gguf"), {"--pooling", "rank", "-ctk", "f32", "-ctv", "f32"}, "a b\tz\na b\n");
  ASSERT_EQ(list.at("data").size(), 2u);
  EXPECT_EQ(list["data"][0].at("object"), "rank");
  const auto score = [&](const std::vector<int32_t>& tokens) {
    return tiny.mul("cls.output", tiny.forward(tokens)[0])[0];
  };
  const int32_t a = TinyEncoder::letter('a'), b = TinyEncoder::letter('b'), z = TinyEncoder::letter('z');
  EXPECT_NEAR(list["data"][0].at("scores").at(0).get<double>(), score({2, a, b, 3, z, 3}), 5e-4);  // f32 against double
  EXPECT_NEAR(list["data"][1].at("scores").at(0).get<double>(), score({2, a, b, 3}), 5e-4);
}

TEST(Embed, TakesAnyBytes) {
  const std::string model = bert();
  const Json list = embed(model, {}, std::string("a\0b\n\xff\xfe\n", 7));
  ASSERT_EQ(list.at("data").size(), 2u);
  EXPECT_NEAR(norm_of(vector_of(list, 0), 2), 1, 1e-6);
}

TEST(Embed, DecoderModelsGiveVectorsToo) {
  const std::string model = testing::story_model();
  const Json last = embed(model, {"--pooling", "last"}, "Once upon a time\nThe dog\n");
  const Json mean = embed(model, {}, "Once upon a time\nThe dog\n");
  EXPECT_NEAR(norm_of(vector_of(last, 0), 2), 1, 1e-6);
  EXPECT_NE(vector_of(last, 0), vector_of(mean, 0));
  EXPECT_EQ(vector_of(embed(model, {"-p", "The dog", "--pooling", "last"}), 0), vector_of(last, 1));
}

TEST(Embed, RefusalsNameWhatIsWrong) {
  const std::string model = bert();
  expect_refusal(run_program({"embed", "-m", model, "-p", "a", "--pooling", "max"}), 2,
                 "'max' is not one of none, mean");
  expect_refusal(run_program({"embed", "-m", model, "-p", "a", "--embd-output-format", "xml"}), 2,
                 "'xml' is not one of json");
  expect_refusal(run_program({"embed", "-m", model, "-p", "a", "--embd-normalize", "-2"}), 2, "-2");
  expect_refusal(run_program({"embed", "-m", model}), 1, "no texts");
  expect_refusal(run_program({"embed", "-m", model, "-p", "a b c", "-c", "4"}), 1,
                 "text 0 has 5 tokens, the context holds 4");
  std::string text = "b";
  for (int i = 0; i < 95; ++i) text += " a";
  expect_refusal(run_program({"embed", "-m", model}, "a\n" + text), 1, "text 1 has 98 tokens, the context holds 96");
  expect_refusal(run_program({"run", "-m", model, "-p", "a"}), 1,
                 "an encoder (bert), which gives embeddings but no logits");
  TinyEncoder plain("bert");
  expect_refusal(run_program({"embed", "-m", plain.write("plain.gguf"), "-p", "a", "--pooling", "rank"}), 1,
                 "no rank head");
}

TEST(Embed, PlanKnowsEncoders) {
  const ProgramOutput output = run_program({"plan", "-m", bert(), "--json"});
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_GT(Json::parse(output.out).at("total_bytes").get<int64_t>(), 0);
}

}  // namespace
}  // namespace tessera
