// Masks of grammars: the tokens that fit, against those that brute force finds.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tessera/base/rng.h"
#include "tessera/text/grammar/matcher.h"
#include "tests/support/testing.h"

namespace tessera::text::grammar {
namespace {

using nlohmann::json;

constexpr int32_t kEnd = 0, kControl = 1;

/// An end, a control token, all bytes, and the given texts.
std::shared_ptr<const MaskVocab> vocab_of(const std::set<std::string>& texts) {
  std::vector<MaskVocab::Token> tokens = {{.text = "</s>", .ends_text = true}, {}};
  for (int byte = 0; byte < 256; ++byte) tokens.push_back({std::string(1, static_cast<char>(byte))});
  for (const std::string& text : texts) tokens.push_back({text});
  return std::make_shared<const MaskVocab>(std::move(tokens));
}

/// All parts of the texts with 2 to 12 bytes, and a few long ones.
void add_parts(const std::string& text, std::set<std::string>& parts) {
  for (size_t i = 0; i < std::min<size_t>(text.size(), 200); ++i)
    for (const size_t n : {2, 3, 4, 5, 8, 12}) parts.insert(text.substr(i, n));
  parts.insert(text.substr(0, 60));
}

std::vector<int32_t> fitting_by_force(const Matcher& matcher, const MaskVocab& vocab) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < static_cast<int32_t>(vocab.n_tokens()); ++id)
    if (matcher.fork().accept_token(id)) ids.push_back(id);
  return ids;
}

std::vector<int32_t> ids_of(const TokenRow& row) {
  std::vector<uint64_t> words(row.n_words());
  row.write(words);
  std::vector<int32_t> ids;
  for (size_t i = 0; i < words.size() * 64; ++i)
    if (((words[i / 64] >> (i % 64)) & 1) != 0) ids.push_back(static_cast<int32_t>(i));
  return ids;
}

/// Goes through a text by tokens that are drawn from those that fit, and compares each mask. Returns their number.
size_t walk(Matcher matcher, const MaskVocab& vocab, std::string_view text, Rng& rng,
            bool may_end_early = false) {
  for (size_t n_masks = 1;; ++n_masks) {
    const TokenRow row = matcher.mask();
    const std::vector<int32_t> ids = ids_of(row);
    EXPECT_EQ(ids, fitting_by_force(matcher, vocab)) << "before \"" << text << "\"";
    std::vector<int32_t> next;
    for (const int32_t id : ids) {
      EXPECT_TRUE(row.contains(id));
      const MaskVocab::Token& token = vocab.token(id);
      if (!token.ends_text && !token.text.empty() && text.starts_with(token.text)) next.push_back(id);
    }
    if (next.empty() || ::testing::Test::HasFailure()) {
      EXPECT_TRUE(text.empty() || may_end_early) << text;
      return n_masks;
    }
    const int32_t id = next[rng.next_u32() % next.size()];
    EXPECT_TRUE(matcher.accept_token(id));
    text.remove_prefix(vocab.token(id).text.size());
  }
}

TEST(TokenMask, EqualsBruteForceOnGoldenGrammars) {
  std::ifstream file(testing::data_path("grammars.jsonl"));
  Rng rng(7);
  size_t n_masks = 0;
  for (std::string line; std::getline(file, line);) {
    const json row = json::parse(line);
    if (row.contains("error")) continue;
    SCOPED_TRACE(row["id"]);
    const GrammarResult grammar = Grammar::from_gbnf(row["grammar"].get<std::string>());
    ASSERT_TRUE(grammar);
    std::set<std::string> parts = {"ab", "}\n", "\"}", "  ", "\xc3\xa9"};
    for (const char* kind : {"accept", "reject", "prefix"})
      for (const std::string text : row[kind]) add_parts(text, parts);
    const auto vocab = vocab_of(parts);
    for (const std::string text : row["accept"])
      if (text.size() < 100) n_masks += walk(Matcher(*grammar, vocab), *vocab, text, rng);
    if (HasFailure()) return;
  }
  EXPECT_GT(n_masks, 400u);
}

TEST(TokenMask, EqualsBruteForceOnRealSchemas) {
  TESSERA_SHARED_OR_SKIP(path, "golden/json-schema/real.jsonl");
  std::ifstream file(path);
  Rng rng(7);
  size_t n_schemas = 0, n_masks = 0, n_lines = 0;
  for (std::string line; n_schemas < 200 && std::getline(file, line); ++n_lines) {
    if (n_lines % 8 != 0) continue;
    const json row = json::parse(line);
    SCOPED_TRACE(row["name"]);
    const GrammarResult grammar = Grammar::from_json_schema(row["schema"].dump());
    if (!grammar) continue;
    std::vector<std::string> texts;
    std::set<std::string> parts = {"\",", "\":", "\"}", "\"},", "\": \"", "\", \"", "  ", "\n  ", "]}", "}}", "ab\":", "é"};
    for (const json& test : row["tests"])
      if (texts.push_back(test["data"].dump()); texts.size() < 3) add_parts(texts.back(), parts);
    const auto vocab = vocab_of(parts);
    ++n_schemas;
    for (const std::string& text : texts)
      if (text.size() < 300) n_masks += walk(Matcher(*grammar, vocab), *vocab, text, rng, true);
    if (HasFailure()) return;
  }
  EXPECT_GT(n_masks, 5'000u);
}

}  // namespace
}  // namespace tessera::text::grammar
