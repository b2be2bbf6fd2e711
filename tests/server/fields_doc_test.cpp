// docs/serving_fields.md is the table of fields.def. TESSERA_UPDATE_DOCS=1 writes it anew.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tessera/server/json/generation_fields.h"
#include "tests/support/testing.h"

namespace tessera::server {
namespace {

using namespace testing;

// A text in a cell of a table.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string code(std::string_view text) { return text.empty() ? "" : fmt::format("`{}`", cell(text)); }

std::string codes(std::string_view names) {
  std::string text;
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    text += (text.empty() ? "" : ", ") + code(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return text;
}

std::string apis(std::string_view letters) {
  std::string text;
  for (const auto& [letter, name] :
       {std::pair{'n', "llama-server"}, {'o', "OpenAI"}, {'a', "Anthropic"}, {'l', "Ollama"}})
    if (letters.contains(letter)) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

std::string table_of_fields() {
  std::string text =
      "# Fields of generation\n"
      "\n"
      "Every request that generates text may have these fields, in any API of `tessera serve`\n"
      "([serving.md](serving.md)). In the Ollama API they are members of `options`. The table is that of\n"
      "`tessera/server/json/fields.def`, from which the parser is made as well.\n"
      "\n"
      "- A field that is absent or null has its default. Flags of the server set other defaults, which `GET /props`\n"
      "  shows.\n"
      "- A wrong type and a value out of range are a 400 that names field, value and range.\n"
      "- The last column but one lists the APIs that define the field. The others accept it as well.\n"
      "- Of a field and its other names in one request, the field counts.\n"
      "\n"
      "| field | other names | value | default | APIs | meaning |\n"
      "|---|---|---|---|---|---|\n";
  for (const FieldDoc& doc : generation_field_docs())
    text += fmt::format("| {} | {} | {} | {} | {} | {} |\n", code(doc.name), codes(doc.aliases), cell(doc.wants),
                        code(doc.initial), apis(doc.dialects), cell(doc.help));
  return text;
}

TEST(FieldDocs, TheTableOfTheDocsIsThatOfTheParser) {
  const std::string path = source_dir() + "/docs/serving_fields.md", wanted = table_of_fields();
  const char* update = std::getenv("TESSERA_UPDATE_DOCS");
  if (update != nullptr && std::string_view(update) == "1") std::ofstream(path, std::ios::trunc) << wanted;
  EXPECT_EQ(read_all(path), wanted) << "TESSERA_UPDATE_DOCS=1 writes the table";
}

TEST(FieldDocs, EachFieldHasAMeaningAndAnApi) {
  for (const FieldDoc& doc : generation_field_docs()) {
    EXPECT_FALSE(doc.help.empty() || doc.wants.empty() || apis(doc.dialects).empty()) << doc.name;
    EXPECT_EQ(doc.help.find('\n'), std::string_view::npos) << doc.name;
  }
}

}  // namespace
}  // namespace tessera::server
