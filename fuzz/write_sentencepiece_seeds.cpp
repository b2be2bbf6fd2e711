// Writes the initial corpus of sentencepiece_fuzz into a directory: small models of both kinds.
#include <fmt/core.h>

#include <fstream>

#include "tests/convert/vocabulary_files.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} DIRECTORY\n", argv[0]);
    return 2;
  }
  using namespace tessera::testing::protobuf;
  for (const int type : {1, 2}) {
    const std::string pieces = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("<0x41>", 0, 6) + piece("a", -1.5f) +
                               piece("b", -2, 4) + piece("c", -3, 5);
    const std::string normalizer = bytes(3, bytes(2, "map") + integer(3, 1) + integer(4, 0));
    std::ofstream(fmt::format("{}/seed-{}", argv[1], type), std::ios::binary)
        << pieces << trainer(type, 0, 1, 2, -1) << normalizer;
  }
  return 0;
}
