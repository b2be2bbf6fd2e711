// An operation's family names its files (graph/ops.def): graph/ops, cpu/ops, cpu/kernels, gpu/ops,
// vulkan/shaders and cuda/kernels have <family>.* or <family>_<part>.* in each room, and nothing else. Its tests are in
// <family>_test.cpp or <family>_<part>_test.cpp of tests/graph, tests/cpu and tests/gpu.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "tests/support/testing.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

struct Row {
  std::string_view name, family, devices;
};
constexpr Row kRows[] = {
#define TESSERA_OP(name, family, parameters, devices) {#name, #family, #devices},
#include "tessera/graph/ops.def"
};

bool belongs_to(std::string_view file, std::string_view family) {
  return file == family || (file.starts_with(family) && file[family.size()] == '_');
}

// By file, its text.
std::map<std::string, std::string> files_of(const std::string& room, const std::string& extension,
                                            const std::string& root = "tessera") {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(testing::source_dir() + "/" + root + "/" + room))
    if (entry.path().extension() == extension) files[entry.path().stem()] = testing::read_all(entry.path());
  return files;
}

// Checks that exactly one file of a folder, named after the family, defines an operation.
void expect_home(const std::map<std::string, std::string>& files, const Row& row, const std::string& definition) {
  std::vector<std::string> homes;
  for (const auto& [file, text] : files)
    if (text.find(definition + "::" + std::string(row.name) + "{") != std::string::npos ||
        text.find(definition + "::" + std::string(row.name) + " =") != std::string::npos)
      homes.push_back(file);
  ASSERT_EQ(homes.size(), 1u) << row.name;
  EXPECT_TRUE(belongs_to(homes[0], row.family)) << row.name << " is defined in " << homes[0];
}

TEST(Mirror, AnOperationIsDefinedInTheFilesOfItsFamily) {
  const auto graph = files_of("graph/ops", ".cpp"), cpu = files_of("cpu/ops", ".cpp"),
             gpu = files_of("gpu/ops", ".cpp");
  for (const Row& row : kRows) {
    expect_home(graph, row, "op_defs");
    if (row.family == "elementwise") continue;  // elementwise.cpp generates these kernels from the rows
    if (row.devices != "none") expect_home(cpu, row, "op_kernels");
    if (row.devices == "all") expect_home(gpu, row, "op_kernels");
  }
}

TEST(Mirror, EveryFileOfARoomBelongsToAFamily) {
  std::set<std::string_view> families;
  for (const Row& row : kRows) families.insert(row.family);
  // These are not operations: "table" is generated from ops.def, "peak" files measure the machine,
  // "writes" sends inputs.
  const std::set<std::string> others = {"table", "peak", "peak_integers", "writes"};
  for (const auto& [room, extension] : {std::pair{"graph/ops", ".cpp"},
                                        {"graph/ops", ".h"},
                                        {"cpu/ops", ".cpp"},
                                        {"cpu/kernels", ".cpp"},
                                        {"gpu/ops", ".cpp"},
                                        {"cuda/kernels", ".cu"},
                                        {"vulkan/shaders", ".comp"}}) {
    const auto files = files_of(room, extension);
    EXPECT_GE(files.size(), 10u) << room;
    for (const auto& [file, text] : files) {
      const bool fits =
          std::ranges::any_of(families, [&](std::string_view family) { return belongs_to(file, family); });
      EXPECT_TRUE(fits || others.contains(file)) << room << "/" << file << extension << " is of no family";
    }
  }
}

// Whether a test builds the operation, expects it in a graph or calls its kernel.
bool names(const std::string& text, std::string_view op) {
  const auto has = [&](std::string_view before, std::string_view after) {
    return text.find(std::string(before).append(op).append(after)) != std::string::npos;
  };
  for (const std::string_view builder : {"b.", "g.", "norm->"})
    if (has(builder, "(")) return true;
  for (const std::string_view scope : {"Op::", "Elementwise::", "GraphBuilder::"})
    for (const std::string_view end : {",", ")", "}", ";"})
      if (has(scope, end)) return true;
  return false;
}

void expect_test(const std::map<std::string, std::string>& files, const Row& row, std::string_view folder) {
  const bool is_tested = std::ranges::any_of(files, [&](const auto& file) {
    return file.first.ends_with("_test") && belongs_to(file.first, row.family) && names(file.second, row.name);
  });
  EXPECT_TRUE(is_tested) << "no tests/" << folder << "/" << row.family << "*_test.cpp names " << row.name;
}

TEST(Mirror, AnOperationIsTestedInTheFilesOfItsFamily) {
  const auto graph = files_of("graph", ".cpp", "tests"), cpu = files_of("cpu", ".cpp", "tests"),
             gpu = files_of("gpu", ".cpp", "tests");
  for (const Row& row : kRows) {
    if (row.family == "leaf") continue;
    expect_test(graph, row, "graph");
    if (row.devices != "none") expect_test(cpu, row, "cpu");
    if (row.devices == "all") expect_test(gpu, row, "gpu");
  }
}

}  // namespace
}  // namespace tessera
