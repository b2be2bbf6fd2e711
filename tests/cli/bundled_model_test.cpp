// The bundled model: the output for a user without another model.
#include <gtest/gtest.h>

#include "tests/cli/cli_support.h"

namespace tessera {
namespace {

using testing::ProgramOutput;
using testing::run_program;

TEST(BundledModel, RunsWhereNoModelIsGivenAndSaysSo) {
  const ProgramOutput output = run_program({"run", "-p", "Once upon a time", "-n", "60", "--temp", "0"});
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_NE(output.err.find("no model given: using the bundled one"), std::string::npos) << output.err;
  // At least a whole sentence.
  EXPECT_GT(output.out.size(), 100u);
  EXPECT_NE(output.out.find(". "), std::string::npos) << output.out;
}

TEST(BundledModel, ComesFromTheProgramAlone) {
  // An empty directory, and no environment.
  const ProgramOutput here = run_program({"run", "-p", "The", "-n", "8", "--temp", "0", "-q"});
  const ProgramOutput read = run_program({"run", "-p", "The", "-n", "8", "--temp", "0", "-q", "--no-mmap"});
  EXPECT_EQ(here.out, read.out);
  EXPECT_EQ(here.err, "");
  EXPECT_NE(run_program({"plan"}).out.find("weights"), std::string::npos);
}

TEST(BundledModel, OtherModelsAreStillNamed) {
  EXPECT_EQ(run_program({"run", "-m", "data/tales.gguf", "-p", "The", "-n", "8", "--temp", "0", "-q"}).out,
            run_program({"run", "-p", "The", "-n", "8", "--temp", "0", "-q"}).out);
}

}  // namespace
}  // namespace tessera
