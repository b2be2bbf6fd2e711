// The operations of architectures in docs/models.md, against the graphs of the models of tests/data/arch_specs. Those
// of twins and draft models are compared where their tests make the files.
#include "tests/support/documented_operations.h"

#include "tests/support/arch_files.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

const auto* const kComparesAllTwins = ::testing::AddGlobalTestEnvironment(new EveryOperationWasSeen(
    [](const DocumentedModel& row) { return row.checks.starts_with("twin") || row.section == "Draft models"; }));

TEST(DocumentedOperations, TablesHaveEveryArchitectureOnce) {
  OpNames known, documented;
#define TESSERA_MODEL(function, name) known.insert(name);
#define TESSERA_TRAITS(name, ...) known.insert(name);
#include "tessera/models/models.def"
#undef TESSERA_TRAITS
#undef TESSERA_MODEL
  for (const auto& [name, row] : documented_operations().models) {
    documented.insert(name);
    EXPECT_TRUE(OpNames({"logits", "twin", "formulas", "twin, formulas"}).contains(row.checks)) << name << row.checks;
  }
  EXPECT_EQ(documented, known);
}

TEST(DocumentedOperations, OfLlamaAndMixtralAreThoseOfTheText) {
  const DocumentedOperations& page = documented_operations();
  ASSERT_OK_AND_ASSIGN(const ModelOperations llama, operations_of_file(arch_model("llama-dense")));
  ASSERT_OK_AND_ASSIGN(const ModelOperations mixtral, operations_of_file(arch_model("llama-moe")));
  EXPECT_EQ(llama.names, page.llama);
  EXPECT_EQ(without(mixtral.names, llama.names), page.mixtral);
}

TEST(DocumentedOperations, ARowHasThoseOfItsReferenceModels) {
  std::map<std::string, OpNames> further;
  for (const char* name : kArchFiles) {
    ASSERT_OK_AND_ASSIGN(const ModelOperations operations, operations_of_file(arch_model(name)));
    further[operations.architecture].merge(operations.further());
  }
  for (const auto& [name, row] : documented_operations().models) {
    if (row.checks != "logits") continue;
    expect_in_row(name, further[name]);
    expect_row_in(name, further[name]);
  }
}

}  // namespace
}  // namespace tessera
