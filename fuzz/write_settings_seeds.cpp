// Writes the initial corpus of settings_fuzz into a directory: presets, files of keys, and targets of requests.
#include <fmt/core.h>

#include <fstream>
#include <string>
#include <string_view>

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} DIRECTORY\n", argv[0]);
    return 2;
  }
  using namespace std::string_view_literals;
  constexpr std::string_view kSeeds[] = {
      "\0version = 1\n; comment\n[*]\nctx-size = 8192\n[coder]\nmodel = a.gguf\nalias = b, c\ntemp=0.2\n"sv,
      "\0[a]\nLLAMA_ARG_CTX_SIZE = 1\n# x\n[b]\nc =\n"sv,
      "\1sk-0123456789 name=alice best=-5\n# comment\nsk-abc # x\n"sv,
      "\1key\tbest=10\r\n"sv,
      "\2/v1/stream?conv_id=a%20b&from=0"sv,
      "\2/a%2Fb?x=1&y=%26+&z"sv,
  };
  int i = 0;
  for (const std::string_view seed : kSeeds) std::ofstream(fmt::format("{}/seed-{}", argv[1], i++)) << seed;
  return 0;
}
