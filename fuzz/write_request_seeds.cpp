// Writes the initial corpus of request_fuzz into a directory: bodies with each generation field, and prompts of each
// form.
#include <fmt/core.h>

#include <fstream>

#include "tessera/server/json/generation_fields.h"

namespace {

constexpr const char* kValues[] = {"1",
                                   "0.5",
                                   "true",
                                   "\"a\"",
                                   "[\"a\",\"top_k\"]",
                                   "{}",
                                   "[[1,0.5],[\"a\",false]]",
                                   "{\"15\":-1}",
                                   "[{\"id\":0,\"scale\":0.5}]",
                                   "{\"include_usage\":true}"};
constexpr const char* kPrompts[] = {"\"a\\u00e9\\ud83d\\ude00\"", "[1,2,3]",          "[\"a\",1]", "[\"a\",\"b\"]",
                                    "{\"prompt_string\":\"a\"}",  "[[1,2],[\"a\",3]]"};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: {} DIRECTORY\n", argv[0]);
    return 2;
  }
  size_t n_seeds = 0;
  const auto write = [&](std::string_view name, const char* value) {
    std::ofstream(fmt::format("{}/seed-{}", argv[1], n_seeds++)) << fmt::format("{{\"{}\":{}}}", name, value);
  };
  for (const auto& doc : tessera::server::generation_field_docs()) {
    for (const char* value : kValues) write(doc.name, value);
  }
  for (const char* prompt : kPrompts) write("prompt", prompt);
  return 0;
}
