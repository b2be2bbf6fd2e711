// Writes the initial corpus of gguf_fuzz into a directory: small valid files that together contain every construct of
// the format.
#include <fmt/core.h>

#include <fstream>

#include "tests/gguf/raw_gguf.h"

int main(int argc, char** argv) {
  using tessera::testing::RawGguf;
  if (argc != 2) {
    fmt::print(stderr, "usage: {} DIRECTORY\n", argv[0]);
    return 2;
  }
  const std::string seeds[] = {
      tessera::testing::small_gguf(),
      RawGguf(0, 0).bytes(),
      RawGguf(0, 1, 2).key("general.architecture", 8).text("llama").bytes(),
      RawGguf(1, 1).key("general.alignment", 4, 64u).tensor("t", {4, 1, 1, 2}, 0, 0).data(32, 64).bytes(),
      RawGguf(2, 0).tensor("q", {256}, 14, 0).tensor("s", {}, 1, 224).data(226).bytes(),
  };
  int i = 0;
  for (const std::string& seed : seeds) std::ofstream(fmt::format("{}/seed-{}.gguf", argv[1], i++)) << seed;
  return 0;
}
