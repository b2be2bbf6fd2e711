// libFuzzer target for chat templates. Any bytes are either a template or give an error with a place inside the source.
// A template renders a conversation, or gives such an error, within its limits. fuzz/CMakeLists.txt explains how to run
// it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tessera/text/chat/chat_template.h"
#include "tessera/text/template/json_reader.h"
#include "tessera/text/utf8.h"

namespace {

using namespace tessera;
using namespace tessera::text;

// Aborts on a violation. libFuzzer then reports the input.
void require(bool holds) {
  if (!holds) std::abort();
}

constexpr std::string_view kMessages =
    R"([{"role": "system", "content": "S"}, {"role": "user", "content": "Ü <|im_end|>"},
        {"role": "assistant", "content": null, "reasoning_content": "R",
         "tool_calls": [{"id": "call00001", "type": "function", "function": {"name": "f", "arguments": {"a": [1, 2.5]}}}]},
        {"role": "tool", "tool_call_id": "call00001", "name": "f", "content": "T"}, {"role": "user", "content": "U"}])";
constexpr std::string_view kTools =
    R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {}}}}}])";

void require_place(const jinja::TemplateError& error, size_t n_bytes) {
  require(error.line >= 1 && error.line <= n_bytes + 1 && error.column >= 1 && error.column <= n_bytes + 1);
  require(!error.message.empty() || error.kind == jinja::TemplateErrorKind::raised);
}

void require_marks(const MarkedText& prompt) {
  require(is_valid_utf8(prompt.text) && prompt.text.size() <= MarkedTextBuilder::kMaxBytes);
  size_t end = 0;
  for (const ByteRange& range : prompt.given) {
    require(range.begin < range.end && (range.begin > end || range.begin == 0) && range.end <= prompt.text.size());
    require(is_valid_utf8(std::string_view(prompt.text).substr(range.begin, range.end - range.begin)));
    end = range.end;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  const std::string source(reinterpret_cast<const char*>(data), n);
  const auto chat_template = ChatTemplate::create(source, {.bos = "<s>", .eos = "</s>"});
  if (!chat_template) {
    require_place(chat_template.error(), n);
    require(!quote_source(source, chat_template.error()).empty());
    return 0;
  }
  for (const bool adapts : {false, true}) {
    jinja::Heap heap;
    ChatRequest request{.messages = jinja::parse_json(heap, kMessages, Origin::given)->value,
                        .tools = jinja::parse_json(heap, kTools, Origin::given)->value};
    request.adapts = adapts;
    const auto prompt = chat_template->render(heap, request);
    if (prompt) require_marks(prompt->prompt);
    if (!prompt && prompt.error().in_template) require_place(*prompt.error().in_template, n);
  }
  return 0;
}
