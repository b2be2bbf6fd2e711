// Writes the initial corpus of reply_fuzz into a directory: per reply family, calls as its models write them, with
// reasoning and content before them.
#include <fmt/core.h>

#include <fstream>

#include "tessera/text/chat/call_writer.h"

int main(int argc, char** argv) {
  using namespace tessera::text;
  if (argc != 2) {
    fmt::print(stderr, "usage: {} DIRECTORY\n", argv[0]);
    return 2;
  }
  const ToolCall calls[] = {{"add_note", R"({"text": "a\n", "tags": ["x", 1.5, null], "meta": {"k": {}}})", "id1"},
                            {"ping", "{}", "id2"}};
  for (size_t i = 0; i < reply_families().size(); ++i) {
    const auto family = find_reply_family(reply_families()[i].name);
    const auto written = write_calls(*family, calls);
    const std::string text = written ? written->text : "";
    const std::string header = {static_cast<char>(i), 0, 7};
    std::ofstream(fmt::format("{}/seed-{}", argv[1], i))
        << header << family->reasoning_begin << "a" << family->reasoning_end << "\nb " << text;
    std::ofstream(fmt::format("{}/call-{}", argv[1], i)) << header << text;
  }
  return 0;
}
