// The operations in docs/models.md of architectures whose random models are compared with formulas. The tests of the
// formulas compare the graphs, and here a program that ran them all finds what they have left out.
#include "tests/support/documented_operations.h"

namespace tessera {
namespace {

using namespace testing;

const auto* const kComparesAllFormulas = ::testing::AddGlobalTestEnvironment(new EveryOperationWasSeen(
    [](const DocumentedModel& row) { return row.checks == "formulas" && row.section != "Draft models"; }));

}  // namespace
}  // namespace tessera
