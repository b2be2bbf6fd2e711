// The table of keys: actions, and the same rows in docs/keys.md.
#include "tessera/cli/edit_keys.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/support/testing.h"

namespace tessera::cli {
namespace {

std::optional<EditAction> action_of(std::string_view bytes) {
  KeyDecoder decoder;
  decoder.feed(bytes);
  decoder.flush();
  return find_edit_action(decoder.next().value());
}

// "`Left`, `Ctrl-B`", as the page writes it.
std::string as_code(std::string_view keys) {
  std::string text = "`";
  for (; !keys.empty(); keys.remove_prefix(1)) {
    const bool is_separator = keys.starts_with(", ");
    text += is_separator ? "`, `" : std::string(1, keys[0]);
    if (is_separator) keys.remove_prefix(1);
  }
  return text + "`";
}

TEST(EditKeys, FindsTheActionOfEachForm) {
  EXPECT_EQ(action_of("\r"), EditAction::submit);
  EXPECT_EQ(action_of("\x1b\r"), EditAction::new_line);
  EXPECT_EQ(action_of("\n"), EditAction::new_line);
  EXPECT_EQ(action_of("\x1b"
                      "B"),
            EditAction::word_left);
  EXPECT_EQ(action_of("\x1b[1;5D"), EditAction::word_left);
  EXPECT_EQ(action_of("\x1b<"), EditAction::text_start);
  EXPECT_EQ(action_of("\x1f"), EditAction::undo);
  EXPECT_EQ(action_of("\x1b[47;5u"), EditAction::undo);
  EXPECT_EQ(action_of("\x7f"), EditAction::erase_left);
}

TEST(EditKeys, GiveCharactersNoAction) {
  EXPECT_EQ(action_of("a"), std::nullopt);
  EXPECT_EQ(action_of("U"), std::nullopt);
  EXPECT_EQ(find_edit_action({.text = "Up"}), std::nullopt);  // as one character of some script might be
  EXPECT_EQ(action_of("\x1b[200~Tab\x1b[201~"), std::nullopt);
  EXPECT_EQ(action_of("\x1b[24~"), std::nullopt);
}

TEST(EditKeys, NameEachKeyOnce) {
  std::set<std::string> names;
  for (const EditKeyRow& row : edit_key_rows()) {
    std::string_view keys = row.keys;
    while (!keys.empty()) {
      const size_t end = std::min(keys.find(", "), keys.size());
      EXPECT_TRUE(names.insert(std::string(keys.substr(0, end))).second) << keys;
      keys.remove_prefix(std::min(end + 2, keys.size()));
    }
    EXPECT_FALSE(row.description.empty());
  }
  EXPECT_GT(names.size(), 40u);
}

TEST(EditKeys, AreThoseOfThePage) {
  const std::string page = testing::read_all(testing::source_dir() + "/docs/keys.md");
  size_t n_rows = 0;
  for (const EditKeyRow& row : edit_key_rows()) {
    const std::string line = "| " + as_code(row.keys) + " | " + std::string(row.description) + " |\n";
    EXPECT_NE(page.find(line), std::string::npos) << line;
    ++n_rows;
  }
  size_t n_listed = 0;
  const size_t begin = page.find("<!-- keys:begin -->"), end = page.find("<!-- keys:end -->");
  ASSERT_LT(begin, end);
  for (size_t at = page.find("\n| `", begin); at < end; at = page.find("\n| `", at + 1)) ++n_listed;
  EXPECT_EQ(n_listed, n_rows);
}

}  // namespace
}  // namespace tessera::cli
