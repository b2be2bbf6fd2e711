// Writes the initial corpus of grammar_fuzz and matcher_fuzz: the grammars of the tests with their texts, regular
// expressions, and schemas of the official suite and of people if a folder with them is given.
//
//     write_grammar_seeds CORPUS_DIR GRAMMARS.jsonl [JSON_SCHEMA_DIR]
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fuzz/grammar_input.h"

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using tessera::fuzz::GrammarInput;
using Notation = GrammarInput::Notation;

constexpr size_t kMaxSourceBytes = 2000, kMaxTextBytes = 128;

/// Operations that read a text in pieces and check the mask after each.
std::string reading(std::string_view text) {
  constexpr char kMask = 2, kForced = 3 + 8 * 8, kBack = 4 + 8;
  std::string operations;
  for (text = text.substr(0, kMaxTextBytes); !text.empty();) {
    const std::string_view piece = text.substr(0, 5);
    const auto accept = static_cast<char>(1 + 8 * (piece.size() - 1));
    operations.append(1, accept).append(piece).append(1, kMask).append(1, kForced);
    text.remove_prefix(piece.size());
  }
  return operations.append(1, kBack);
}

class Writer {
 public:
  explicit Writer(fs::path folder) : folder_(std::move(folder)) {}

  void write(Notation notation, std::string_view source, std::string_view text) {
    if (source.size() > kMaxSourceBytes) return;
    const std::string operations = reading(text);
    const GrammarInput input = {
        .notation = notation, .flags = static_cast<uint8_t>(n_), .source = source, .operations = operations};
    std::ofstream(folder_ / ("seed" + std::to_string(n_++)), std::ios::binary) << input.bytes();
  }

  void write_schema(const Json& schema, const Json& tests) {
    write(Notation::schema, schema.dump(), tests.empty() ? "" : tests[0]["data"].dump());
    write_patterns(schema);
  }

 private:
  void write_patterns(const Json& schema) {
    std::vector<const Json*> open = {&schema};
    while (!open.empty()) {
      const Json& top = *open.back();
      open.pop_back();
      if (top.is_structured())
        for (const Json& part : top) open.push_back(&part);
      if (!top.is_object()) continue;
      const auto pattern = top.find("pattern");
      if (pattern != top.end() && pattern->is_string()) write(Notation::regex, pattern->get<std::string>(), "");
    }
  }

  fs::path folder_;
  size_t n_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: write_grammar_seeds CORPUS_DIR GRAMMARS.jsonl [JSON_SCHEMA_DIR]\n");
    return 2;
  }
  Writer writer(argv[1]);
  std::ifstream grammars(argv[2]);
  for (std::string line; std::getline(grammars, line);) {
    const Json row = Json::parse(line);
    const bool has_text = row.contains("accept") && !row["accept"].empty();
    writer.write(Notation::gbnf, row["grammar"].get<std::string>(),
                 has_text ? row["accept"][0].get<std::string>() : "");
  }
  for (const char* pattern : {"a|bc", "(?=.*\\d)[a-z\\d]+", "(?!foo)\\w+", "\\bfo\\Bo\\b", "^x|y$", "\\p{Lu}{2,3}?",
                              "[\\w-.]+", "\\u{1F600}|\\x41", "(?:(?=a)b)*", "a{,2}{"})
    writer.write(Notation::regex, pattern, "foo");
  if (argc < 4) return 0;
  std::ifstream real(fs::path(argv[3]) / "real.jsonl");
  size_t n_lines = 0;
  for (std::string line; std::getline(real, line);) {
    if (n_lines++ % 8 != 0) continue;
    const Json row = Json::parse(line);
    writer.write_schema(row["schema"], row["tests"]);
  }
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(argv[3]) / "suite" / "draft2020-12")) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream file(entry.path());
    for (const Json& group : Json::parse(file)) writer.write_schema(group["schema"], group["tests"]);
  }
  return 0;
}
