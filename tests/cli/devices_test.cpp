// tessera devices: the CPU is listed with its memory and supported types.
#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::expect_refusal;
using testing::run_program;

bool contains(const json& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

TEST(Devices, JsonTellsTheCpu) {
  const json devices = json::parse(run_program({"devices", "--json"}).out);
  const json& cpu = devices.back();
  EXPECT_EQ(cpu["name"], "cpu");
  EXPECT_EQ(cpu["kind"], "cpu");
  EXPECT_GT(cpu["memory_total_bytes"], 0);
  EXPECT_GE(cpu["memory_total_bytes"], cpu["memory_free_bytes"]);
  for (const char* type : {"f32", "f16", "bf16", "q8_0", "q4_0"}) {
    EXPECT_TRUE(contains(cpu["matrix_types"], type)) << type;
    EXPECT_TRUE(contains(cpu["row_types"], type)) << type;
  }
  for (const char* type : {"f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"})
    EXPECT_TRUE(contains(cpu["cache_types"], type)) << type;
  EXPECT_FALSE(contains(cpu["matrix_types"], "i32"));
  EXPECT_FALSE(contains(cpu["cache_types"], "q4_K"));
}

TEST(Devices, InstructionSetIsTheOneAskedFor) {
  const auto isa = [](const std::string& name) {
    return json::parse(run_program({"devices", "--json"}, "", {"TESSERA_ISA=" + name}).out).back()["properties"]["isa"];
  };
  EXPECT_EQ(isa("scalar"), "scalar");
  expect_refusal(run_program({"devices"}, "", {"TESSERA_ISA=abacus"}), 1, "TESSERA_ISA: ");
}

TEST(Devices, TellsTheKindsOfMemoryAndWhyOneIsNotThere) {
  const json devices = json::parse(run_program({"devices", "--json"}).out);
  std::vector<std::string> names;
  for (const json& type : devices.back()["buffer_types"]) {
    names.push_back(type["name"]);
    if (!type["available"]) {
      EXPECT_NE(type["note"], "") << names.back();
    }
  }
  EXPECT_EQ(names, (std::vector<std::string>{"cpu", "cpu-packed", "cpu-huge", "cpu-packed-huge", "cpu-numa",
                                             "cpu-packed-numa", "cpu-hbm", "cpu-packed-hbm"}));
}

// The BLAS library is a device if it is installed, and otherwise missing without a message.
TEST(Devices, BlasIsThereWhereItsLibraryIs) {
  const auto has_blas = [](const std::string& file) {
    const json devices = json::parse(run_program({"devices", "--json"}, "", {"TESSERA_BLAS=" + file}).out);
    return std::ranges::any_of(devices, [](const json& device) { return device["name"] == "blas"; });
  };
  EXPECT_FALSE(has_blas("libnosuch.so.7"));
  if (!has_blas("libopenblas.so.0")) GTEST_SKIP() << "libopenblas.so.0 is not installed";
}

TEST(Devices, TableSaysTheSame) {
  const std::string table = run_program({"devices"}).out;
  for (const char* row : {"device ", "memory ", "isa ", "buffers ", "matrices ", "kv cache "})
    EXPECT_NE(table.find(row), std::string::npos) << table;
}

}  // namespace
}  // namespace tessera
