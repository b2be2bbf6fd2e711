// tessera plan: numbers that add up, the bytes of a KV cache by formula, and settings that fit a given memory.
#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"
#include "tests/support/editable_model.h"
#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::expect_refusal;
using testing::ProgramOutput;
using testing::run_program;

json plan(const std::string& model, std::vector<std::string> flags) {
  std::vector<std::string> args = {"plan", "-m", model, "--json"};
  args.insert(args.end(), flags.begin(), flags.end());
  const ProgramOutput output = run_program(args);
  EXPECT_EQ(output.status, 0) << output.err;
  return json::parse(output.out);
}

TEST(Plan, PartsAddUpToTheTotal) {
  const std::string model = testing::story_model();
  const json p = plan(model, {});
  uint64_t total = 0;
  for (const json& buffer : p["buffers"]) total += buffer["bytes"].get<uint64_t>();
  EXPECT_EQ(p["total_bytes"], total);
  EXPECT_EQ(p["total_bytes"],
            p["weights_bytes"].get<uint64_t>() + p["kv_bytes"].get<uint64_t>() + p["compute_bytes"].get<uint64_t>());
  EXPECT_GE(p["weights_bytes"], 1171200);  // the tensors' bytes; packing may pad
  EXPECT_GT(p["compute_bytes"], 0);
  EXPECT_EQ(p["n_ctx"], 2048);
}

// 5 layers, 4 KV heads of 8 elements, K and V, in 64-token blocks. The table has an i32 and an i64 per block.
uint64_t kv_bytes(uint64_t n_ctx, uint64_t bytes_per_element) {
  const uint64_t n_blocks = (n_ctx + 63) / 64;
  return n_blocks * 64 * 5 * 4 * 8 * 2 * bytes_per_element + n_blocks * (4 + 8);
}

TEST(Plan, KvBytesAreTheFormulas) {
  const std::string model = testing::story_model();
  EXPECT_EQ(plan(model, {})["kv_bytes"], kv_bytes(2048, 2));
  EXPECT_EQ(plan(model, {"-c", "4096", "-ctk", "f32", "-ctv", "f32"})["kv_bytes"], kv_bytes(4096, 4));
}

TEST(Plan, TakesTheFlagsOfRun) {
  const std::string model = testing::story_model();
  plan(model,
       {"-p", "text", "-n", "5", "--temp", "0.5", "--top-k", "3", "-t", "1", "--no-repack", "--echo", "-s", "4"});
  EXPECT_LT(plan(model, {"-ub", "32"})["compute_bytes"], plan(model, {})["compute_bytes"]);
}

TEST(Plan, OfAServerHasTheSessionOfEmbeddings) {
  const std::string model = testing::story_model();
  const std::vector<std::string> flags = {"--serve", "-c", "512", "-np", "2", "--cache-ram", "0"};
  std::vector<std::string> more = flags;
  more.emplace_back("--embeddings");
  const json one = plan(model, flags), two = plan(model, more);
  EXPECT_GT(two["kv_bytes"], one["kv_bytes"]);
  EXPECT_GT(two["compute_bytes"], one["compute_bytes"]);
  EXPECT_EQ(two["weights_bytes"], one["weights_bytes"]);
  EXPECT_EQ(two["buffers"].size(), one["buffers"].size() + 3);
}

TEST(Plan, OfAServerHasTheBoundsOfItsOwnMemory) {
  const std::string model = testing::story_model();
  EXPECT_FALSE(plan(model, {}).contains("server"));
  const std::vector<std::string> flags = {"--serve", "-c", "512", "-np", "2", "--cache-ram", "0"};
  std::vector<std::string> more = flags;
  more.insert(more.end(), {"--http-memory", "10M"});
  const json one = plan(model, flags)["server"], two = plan(model, more)["server"];
  EXPECT_EQ(one["http_bytes"], 256 << 20);
  EXPECT_EQ(two["http_bytes"], 10 << 20);
  EXPECT_EQ(one["total_bytes"].get<int64_t>() - two["total_bytes"].get<int64_t>(), 246 << 20);
  std::vector<std::string> plain = flags;
  plain.insert(plain.begin(), {"plan", "-m", model});
  const std::string table = run_program(plain).out;
  EXPECT_NE(table.find(std::to_string(one["total_bytes"].get<uint64_t>())), std::string::npos) << table;
}

// By default the prefix cache gets half of what the model, its context and the server itself leave of --memory.
TEST(Plan, TheCacheOfAServerLeavesRoomForTheServer) {
  const std::string model = testing::story_model();
  const std::vector<std::string> flags = {"--serve", "-c", "512", "-np", "2", "--memory", "600M"};
  std::vector<std::string> without_cache = flags, little = flags;
  without_cache.insert(without_cache.end(), {"--cache-ram", "0"});
  little.back() = "5M";
  const json with = plan(model, flags), without = plan(model, without_cache);
  const auto bytes = [](const json& of, const char* name) { return of[name].get<double>(); };
  const double left = (600 << 20) - bytes(without, "total_bytes") - bytes(without["server"], "total_bytes");
  EXPECT_NEAR(bytes(with, "kv_bytes") - bytes(without, "kv_bytes"), left / 2, left / 100);
  const json small = plan(model, little);  // no cache, and a smaller context if need be
  EXPECT_LE(bytes(small, "total_bytes"), 5 << 20);
}

TEST(Plan, TableNamesTheTotal) {
  const std::string model = testing::story_model();
  const std::string table = run_program({"plan", "-m", model}).out;
  EXPECT_NE(table.find("kv       " + std::to_string(kv_bytes(2048, 2))), std::string::npos) << table;
  EXPECT_NE(table.find(std::to_string(plan(model, {})["total_bytes"].get<uint64_t>())), std::string::npos) << table;
}

TEST(Plan, MemoryThatSufficesChangesNothing) {
  const std::string model = testing::story_model();
  EXPECT_EQ(plan(model, {"--memory", "1G"}), plan(model, {}));
}

TEST(Plan, SaysThePrecisionOfAttention) {
  const std::string model = testing::story_model();
  ASSERT_OK_AND_ASSIGN(const std::string quantized, testing::requantize(model, DType::q8_0, "plan-q8_0.gguf"));
  EXPECT_EQ(plan(model, {})["attention_scores"], "f32");
  EXPECT_EQ(plan(quantized, {})["attention_scores"], "int16");
  EXPECT_EQ(plan(model, {"--attention-scores", "int16"})["attention_scores"], "int16");
}

TEST(Plan, SmallMemoryShrinksTheContextFirst) {
  const std::string model = testing::story_model();
  // The smallest useful context of 4096 tokens fits, the 100k of the model file would not. No other setting changes.
  testing::EditableModel edited(model);
  edited.builder.set("llama.context_length", uint32_t{100000});
  const std::string path = edited.write("long.gguf");
  const json p = plan(path, {"--memory", "16M"});
  EXPECT_LE(p["total_bytes"], 16 << 20);
  EXPECT_GE(p["n_ctx"], 4096);
  EXPECT_EQ(p["n_ubatch"], 512);
  EXPECT_EQ(p["cache_type_k"], "f16");
  const std::string next = std::to_string(p["n_ctx"].get<int64_t>() + 256);
  EXPECT_GT(plan(path, {"-c", next})["total_bytes"], 16 << 20);  // the result is the largest, in steps of 256
}

TEST(Plan, SmallerMemoryShrinksTheMicroBatchThenTheCacheTypes) {
  const std::string model = testing::arch_model("llama-dense");
  const json asked = plan(model, {"-c", "4096"});
  const uint64_t weights = asked["weights_bytes"], kv = asked["kv_bytes"], compute = asked["compute_bytes"];
  const json by_ubatch = plan(model, {"-c", "4096", "--memory", std::to_string(weights + kv + compute / 2)});
  EXPECT_EQ(by_ubatch["n_ctx"], 4096);
  EXPECT_LT(by_ubatch["n_ubatch"], 512);
  EXPECT_EQ(by_ubatch["cache_type_k"], "f16");
  const json by_type = plan(model, {"-c", "4096", "--memory", std::to_string(weights + kv)});
  EXPECT_EQ(by_type["n_ctx"], 4096);
  EXPECT_EQ(by_type["cache_type_k"], "q8_0");
  EXPECT_LE(by_type["total_bytes"], weights + kv);
}

TEST(Plan, NothingThatFitsIsSaid) {
  const std::string model = testing::story_model();
  expect_refusal(run_program({"plan", "-m", model, "--memory", "1M"}), 1, "nothing fits in 1048576 bytes: the least");
  expect_refusal(run_program({"plan", "-m", model, "-c", "100000", "--memory", "4M"}), 1,
                 "nothing fits in 4194304 bytes");
}

TEST(Plan, BadSizesAreRefused) {
  for (const char* size : {"12X", "", "-1G", "G", "1e40"})
    expect_refusal(run_program({"plan", "-m", "x", "--memory", size}), 2, "--memory: ");
}

}  // namespace
}  // namespace tessera
