// Plugins on the command line: devices lists the plugins in TESSERA_BACKENDS and reports broken ones.
#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::ProgramOutput;
using testing::run_program;

ProgramOutput run_with(const std::vector<std::string>& args, const std::string& backends) {
  return run_program(args, "", {"TESSERA_BACKENDS=" + backends});
}

const std::string kBroken = testing::test_plugins_dir() + "/libtessera-backend-other_major.so";

TEST(Plugins, DevicesListsTheExample) {
  const ProgramOutput output = run_with({"devices", "--json"}, testing::example_plugins_dir());
  EXPECT_EQ(output.status, 0) << output.err;
  const json devices = json::parse(output.out);
  const auto example =
      std::find_if(devices.begin(), devices.end(), [](const json& d) { return d["name"] == "example:1"; });
  ASSERT_NE(example, devices.end()) << output.out;
  EXPECT_EQ((*example)["kind"], "accelerator");
  EXPECT_EQ((*example)["description"], "example with memory of its own");
  EXPECT_EQ((*example)["matrix_types"], (json{"f32", "q8_0"}));
  EXPECT_EQ((*example)["row_types"], (json{"f32", "f16", "q8_0"}));
  EXPECT_EQ((*example)["cache_types"], (json{"f32"}));
  EXPECT_EQ((*example)["properties"]["version"], "1.0");
  EXPECT_EQ(devices.back()["name"], "cpu");  // the CPU stays the default
}

TEST(Plugins, ThoseBesideTheProgramAreFound) {
  namespace fs = std::filesystem;
  const fs::path root = testing::temporary_dir() / "installed", backends = root / "lib/tessera/backends";
  fs::create_directories(root / "bin");
  fs::create_directories(backends);
  const std::string program = testing::program_path();
  fs::copy_file(program, root / "bin/tessera");
  fs::copy_file(testing::test_plugins_dir() + "/libtessera-backend-fine.so", backends / "libtessera-backend-fine.so");
  ::setenv("TESSERA_PROGRAM", (root / "bin/tessera").c_str(), 1);
  const ProgramOutput output = run_program({"devices"});
  ::setenv("TESSERA_PROGRAM", program.c_str(), 1);
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_NE(output.out.find("fine:0"), std::string::npos) << output.out;
  EXPECT_EQ(run_program({"devices"}).out.find("fine:0"), std::string::npos);
}

TEST(Plugins, ABrokenOneCostsALineOnStderr) {
  const ProgramOutput output = run_with({"devices"}, kBroken + "::/nowhere/at/all.so");
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_NE(output.out.find("cpu"), std::string::npos);
  EXPECT_NE(output.err.find("plugin " + kBroken + ": built for version 2.0 of the interface"), std::string::npos);
  EXPECT_NE(output.err.find("plugin /nowhere/at/all.so: "), std::string::npos);
  EXPECT_EQ(std::ranges::count(output.err, '\n'), 2) << output.err;
  EXPECT_EQ(run_with({"devices", "-q"}, kBroken).err, "");
}

TEST(Plugins, WhoAsksForADeviceThatIsNotThereHearsOfThem) {
  const ProgramOutput output = run_with({"run", "--device", "other_major:0", "-p", "x"}, kBroken);
  testing::expect_refusal(output, 1, "no device named other_major:0 (there are: ");
  EXPECT_NE(output.err.find("plugins that are not used: 1"), std::string::npos) << output.err;
}

TEST(Plugins, RunWritesTheCpusTextAndTellsOfBrokenOnesOnRequest) {
  const auto run = [](const std::string& device, const std::vector<std::string>& more) {
    // The devices round differently, so the text ends before the model hesitates between two words.
    std::vector<std::string> args = {"run", "--device", device, "-p",   "Once", "-n",   "4",  "--temp",
                                     "0",   "-c",       "128",  "-ctk", "f32",  "-ctv", "f32"};
    args.insert(args.end(), more.begin(), more.end());
    return run_with(args, testing::example_plugins_dir() + ":" + kBroken);
  };
  const ProgramOutput expected = run("cpu", {"-q"}), output = run("example:1", {"-v"});
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(output.out, expected.out);
  EXPECT_NE(output.err.find("plugin " + kBroken), std::string::npos) << output.err;
  EXPECT_EQ(run("example:1", {}).err.find("plugin " + kBroken), std::string::npos);
}

}  // namespace
}  // namespace tessera
