// JSON Schema against the verdicts of others: the official test suite, and schemas that people wrote.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tessera/text/grammar/matcher.h"
#include "tests/support/testing.h"

namespace tessera::text::grammar {
namespace {

using Json = nlohmann::ordered_json;

/// Numbers without a fraction as integers, since the verdict is about the value.
Json with_integers(Json value) {
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (number == std::floor(number) && std::abs(number) < 1e15) return static_cast<int64_t>(number);
  }
  if (value.is_structured())
    for (Json& part : value) part = with_integers(std::move(part));
  return value;
}

bool accepts(Matcher& matcher, const std::string& text) {
  matcher.restart();
  return matcher.accept(text) == text.size() && matcher.is_complete();
}

constexpr JsonOutput kAnyOutput = {.order = JsonOrder::any, .space = JsonSpace::any, .writing = JsonWriting::any};

struct Counts {
  size_t n_tests = 0, n_refused = 0;
  std::vector<std::string> wrong{};
};

/// Files of keywords that have no effect, of numbers beyond a double, and of encoded names, which a format does not
/// look into.
bool is_left_out(const std::string& file) {
  for (const char* name : {"optional/content", "optional/float-overflow", "hostname"})
    if (file.find(name) != std::string::npos) return true;
  return false;
}

void run_group(const std::string& file, const Json& group, std::string_view uri, Counts& counts) {
  Json schema = group["schema"];
  if (schema.is_object() && !schema.contains("$schema")) schema["$schema"] = uri;
  const bool has_formats = file.find("optional/format") != std::string::npos;
  const GrammarResult grammar = Grammar::from_json_schema(schema.dump(), kAnyOutput, has_formats);
  const bool is_never = !grammar && grammar.error().message == "no value satisfies it";
  if (!grammar && !is_never) {
    ++counts.n_refused;
    return;
  }
  std::optional<Matcher> matcher;
  if (grammar) matcher.emplace(*grammar);
  // A name of a group in a regular expression must be unique, which the language of the format cannot say.
  if (group["description"] == "ECMA 262 named groups and backreferences are valid") return;
  for (const Json& test : group["tests"]) {
    ++counts.n_tests;
    const Json value = with_integers(test["data"]);
    for (const int indent : {-1, 2}) {
      const bool is_accepted = matcher && accepts(*matcher, value.dump(indent));
      if (is_accepted != test["valid"].get<bool>())
        counts.wrong.push_back(file + ": " + group["description"].get<std::string>() + ": " +
                               test["description"].get<std::string>());
    }
  }
}

Counts run_suite(const std::string& folder, std::string_view uri) {
  Counts counts;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string file = std::filesystem::relative(entry.path(), folder).string();
    if (entry.path().extension() != ".json" || is_left_out(file)) continue;
    std::ifstream in(entry.path());
    for (const Json& group : Json::parse(in)) run_group(file, group, uri, counts);
  }
  return counts;
}

TEST(SchemaSuite, DraftsHaveNoWrongVerdict) {
  struct Draft {
    const char *folder, *uri;
    size_t min_tests, max_refused;
  };
  const Draft drafts[] = {{"draft2020-12", "https://json-schema.org/draft/2020-12/schema", 1801, 44},
                          {"draft7", "http://json-schema.org/draft-07/schema#", 1401, 19}};
  TESSERA_SHARED_OR_SKIP(folder, "golden/json-schema/suite");
  for (const Draft& draft : drafts) {
    const Counts counts = run_suite(folder + "/" + draft.folder, draft.uri);
    EXPECT_EQ(counts.wrong, std::vector<std::string>()) << draft.folder;
    EXPECT_GE(counts.n_tests, draft.min_tests) << draft.folder;
    EXPECT_LE(counts.n_refused, draft.max_refused) << draft.folder;
  }
}

TEST(SchemaSuite, RealSchemasHaveNoWrongVerdict) {
  TESSERA_SHARED_OR_SKIP(path, "golden/json-schema/real.jsonl");
  std::ifstream file(path);
  size_t n_schemas = 0, n_refused = 0, n_tests = 0;
  std::vector<std::string> wrong;
  const size_t step = testing::all_or_few(1, 10);
  for (std::string line; std::getline(file, line);) {
    if (n_schemas++ % step != 0) continue;
    const Json row = Json::parse(line);
    const GrammarResult grammar = Grammar::from_json_schema(row["schema"].dump(), {.order = JsonOrder::any});
    if (!grammar) {
      ++n_refused;
      continue;
    }
    Matcher matcher(*grammar);
    for (const Json& test : row["tests"]) {
      ++n_tests;
      if (accepts(matcher, test["data"].dump()) != test["valid"].get<bool>()) wrong.push_back(row["name"]);
    }
  }
  EXPECT_EQ(wrong, std::vector<std::string>());
  EXPECT_LE(n_refused * step, n_schemas / 20 + step * 2);
  EXPECT_GT(n_tests * step, 6000u);
}

}  // namespace
}  // namespace tessera::text::grammar
