// Checks that the objects of one instruction set define no symbol that the linker could share with other code. The
// linker keeps one copy of an inline function. If that is the AVX-512 copy, older CPUs crash in unrelated code.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>

#include "tests/support/testing.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string symbols_of(const fs::path& object) {
  const std::string out = testing::temporary_dir() / "symbols";
  if (std::system(("nm -C '" + object.string() + "' > '" + out + "' 2>&1").c_str()) != 0)
    ADD_FAILURE() << "nm " << object;
  return testing::read_all(out);
}

class IsaObjects : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};
INSTANTIATE_TEST_SUITE_P(Isa, IsaObjects,
                         ::testing::Values(std::pair{"cpu", "avx2"}, std::pair{"quant", "avx2"},
                                           std::pair{"cpu", "avxvnni"}, std::pair{"cpu", "avx512"},
                                           std::pair{"cpu", "amx"}, std::pair{"quant", "avx512"}));

TEST_P(IsaObjects, DefineNothingOutsideTheirNamespace) {
#ifdef TESSERA_SANITIZED
  GTEST_SKIP() << "sanitizers add symbols of their own";
#endif
  const std::string library = GetParam().first, isa = GetParam().second;
  const fs::path dir = fs::path(TESSERA_BUILD_DIR) / "CMakeFiles" / ("tessera_" + library + "_" + isa + ".dir");
  if (!fs::exists(dir)) GTEST_SKIP() << "this build has no code for " << isa;
  int n_symbols = 0;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    if (entry.path().extension() != ".o") continue;
    std::istringstream lines(symbols_of(entry.path()));
    for (std::string line; std::getline(lines, line);) {
      // "0000000000000000 T name" or "                 U name"
      if (line.size() < 20) continue;
      const char kind = line[17];
      const std::string name = line.substr(19);
      ++n_symbols;
      if (std::string("WwVvu").find(kind) == std::string::npos && kind != 'T' && kind != 'D' && kind != 'R' &&
          kind != 'B')
        continue;  // local to the object, or defined elsewhere
      const auto is_in = [&](const std::string& folder) {
        return name.find("tessera::" + folder + "::" + isa + "::") != std::string::npos;
      };
      const bool is_inside = is_in(library) || is_in("isa");
      EXPECT_TRUE(is_inside) << entry.path().filename() << ": " << kind << " " << name;
    }
  }
  EXPECT_GT(n_symbols, 20);
}

}  // namespace
}  // namespace tessera
