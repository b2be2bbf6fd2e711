// libFuzzer target for the parser of replies. The first bytes choose the family, the options and the split, the rest is
// the reply. The parser accepts any bytes, the split changes nothing, and the pieces are the reply.
// fuzz/CMakeLists.txt explains how to run it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/text/reply_support.h"

namespace {

using namespace tessera;
using testing::ReplyCase;

// The tools of tests/data/replies.jsonl in short: all types that schemas distinguish.
std::vector<text::ReplyTool> fuzz_tools() {
  return {{"ping", "{}"},
          {"add_note",
           R"({"properties": {"text": {"type": "string"}, "tags": {"type": "array"}, "meta": {"type": "object"}}})"},
          {"measure", R"({"properties": {"value": {"type": "number"}, "unit": {"type": ["string", "null"]}}})"}};
}

ReplyCase case_of(const uint8_t* data) {
  const auto families = text::reply_families();
  const auto& row = families[data[0] % families.size()];
  ReplyCase given{.family = text::find_reply_family(row.name).value(), .tools = fuzz_tools()};
  const uint8_t flags = data[1];
  given.options.reasoning = static_cast<text::ReasoningFormat>(flags % 3);
  given.options.parallel_calls = (flags & 4) == 0;
  if ((flags & 8) != 0) given.tools.clear();
  if ((flags & 16) != 0) given.prompt_tail = given.family.reasoning_begin;
  if ((flags & 32) != 0) given.prompt_tail = given.family.call_begin;
  if ((flags & 64) != 0) given.end = text::ReplyEnd::length;
  return given;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  constexpr size_t kHeaderBytes = 3;
  if (n < kHeaderBytes) return 0;
  const std::string_view raw(reinterpret_cast<const char*>(data) + kHeaderBytes, n - kHeaderBytes);
  // libFuzzer reports the input of a violation.
  if (!tessera::testing::violated_property(case_of(data), raw, data[2]).empty()) std::abort();
  return 0;
}
