// Writes the initial corpus of template_fuzz: the built-in templates, the snippets of the tests, and templates of real
// models if a folder with them is given.
//
//     write_template_seeds CORPUS_DIR SNIPPETS.jsonl [TEMPLATE_DIR]
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tessera/text/chat/builtin_templates.h"
#include "tessera/text/chat/value_tools.h"
#include "tessera/text/template/json_reader.h"

namespace {

namespace fs = std::filesystem;
using namespace tessera::text;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: write_template_seeds CORPUS_DIR SNIPPETS.jsonl [TEMPLATE_DIR]\n");
    return 2;
  }
  const fs::path corpus = argv[1];
  for (const std::string_view name : builtin_template_names()) write(corpus / name, *find_builtin_template(name));
  std::ifstream snippets(argv[2]);
  size_t i = 0;
  for (std::string line; std::getline(snippets, line); ++i) {
    jinja::Heap heap;
    const auto row = jinja::parse_json(heap, line, Origin::trusted);
    if (row) write(corpus / ("snippet" + std::to_string(i)), text_member(row->value, "template"));
  }
  if (argc < 4) return 0;
  for (const auto& entry : fs::directory_iterator(argv[3]))
    if (entry.path().extension() == ".jinja") write(corpus / entry.path().filename(), read(entry.path()));
  return 0;
}
