// libFuzzer target for bodies of requests: JSON, generation fields and prompts. Properties: what is read is written
// back and reads as the same; accepted fields are valid for a chain and shown as JSON; every refusal is JSON in each
// dialect. fuzz/CMakeLists.txt explains how to run it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "tessera/json/reader.h"
#include "tessera/sample/params.h"
#include "tessera/server/json/error_body.h"
#include "tessera/server/json/generation_fields.h"
#include "tessera/server/json/generation_settings.h"
#include "tessera/server/json/json_field.h"
#include "tessera/server/json/prompt.h"
#include "tessera/server/json/writer.h"

namespace {

using namespace tessera;
using namespace tessera::server;

// libFuzzer reports the input of a violation.
void require(bool holds) {
  if (!holds) std::abort();
}

bool is_json(const std::string& text) { return nlohmann::json::accept(text); }

void check_refusal(const FieldError& error) {
  require(error.status >= 400 && !error.message.empty());
  for (const Dialect dialect : {Dialect::native, Dialect::anthropic, Dialect::ollama})
    require(is_json(error_body(error, dialect, "id")));
}

void check_fields(const Json& body) {
  const GenerationLimits limits{.n_slots = 4, .n_vocab = 1000, .n_lora = 2};
  const auto read = read_generation_fields(body, {}, limits);
  if (!read) return check_refusal(read.error());
  require(tessera::sample::validate(read->fields.sampling).has_value());
  require(read->ignored.size() <= 512);
  require(std::ranges::all_of(read->ignored, [](char c) { return c >= 0x20 && c < 0x7F; }));
  for (const SettingsPlace place : {SettingsPlace::answer, SettingsPlace::slot}) {
    std::string settings;
    JsonWriter writer(settings);
    write_generation_settings(writer, read->fields, {.grammar = read->fields.grammar}, place);
    require(is_json(settings));
  }
}

void check_prompts(const Json& body) {
  if (!body.is_object() || !body.contains("prompt")) return;
  const auto prompts = read_prompts(body["prompt"], "prompt", {.n_vocab = 1000});
  if (!prompts) return check_refusal(prompts.error());
  require(!prompts->empty());
  for (const PromptParts& prompt : *prompts) require(!prompt.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t n) {
  const std::string text(reinterpret_cast<const char*>(data), n);
  const auto body = read_json_field(text);
  if (!body) {
    check_refusal(body.error());
    return 0;
  }
  require(is_json(text));
  const std::string written = json_text(*body);
  const auto again = read_json(written, {.max_depth = 128, .tree_bytes = size_t{1} << 30});
  require(again.has_value() && *again == *body && json_text(*again) == written);
  check_fields(*body);
  check_prompts(*body);
  return 0;
}
