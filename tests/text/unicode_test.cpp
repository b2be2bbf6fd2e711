#include "tessera/text/unicode.h"

#include <gtest/gtest.h>

#include "tessera/text/code_point_set.h"

namespace tessera::text {
namespace {

std::vector<uint32_t> plain(uint32_t code_point) {
  std::vector<uint32_t> out;
  append_without_accents(code_point, out);
  return out;
}

TEST(Unicode, CategoriesOfKnownCodePoints) {
  EXPECT_EQ(category_of('a'), Category::ll);
  EXPECT_EQ(category_of('A'), Category::lu);
  EXPECT_EQ(category_of('7'), Category::nd);
  EXPECT_EQ(category_of(0), Category::cc);
  EXPECT_EQ(category_of(0x301), Category::mn);
  EXPECT_EQ(category_of(0x4E2D), Category::lo);
  EXPECT_EQ(category_of(0x1F600), Category::so);
  EXPECT_EQ(category_of(0xD800), Category::cs);
  EXPECT_EQ(category_of(kMaxCodePoint), Category::cn);
}

TEST(Unicode, RunsCoverEveryCodePointOnce) {
  uint32_t next = 0;
  for (const CategoryRun& run : category_runs()) {
    EXPECT_EQ(run.first, next);
    EXPECT_EQ(category_of(run.first), run.category);
    EXPECT_EQ(category_of(run.last), run.category);
    next = run.last + 1;
  }
  EXPECT_EQ(next, kMaxCodePoint + 1);
}

TEST(Unicode, AMaskOfOneLetterIsAllOfItsCategories) {
  EXPECT_EQ(category_mask("Nd"), bit_of(Category::nd));
  EXPECT_EQ(category_mask("N"), bit_of(Category::nd) | bit_of(Category::nl) | bit_of(Category::no));
  EXPECT_EQ(category_mask("Q"), 0u);
  EXPECT_EQ(category_mask(""), 0u);
}

TEST(Unicode, LowerCase) {
  EXPECT_EQ(to_lower('A'), uint32_t{'a'});
  EXPECT_EQ(to_lower('a'), uint32_t{'a'});
  EXPECT_EQ(to_lower('['), uint32_t{'['});
  EXPECT_EQ(to_lower(0x100), 0x101u);  // a run of every second code point
  EXPECT_EQ(to_lower(0x101), 0x101u);
  EXPECT_EQ(to_lower(0x416), 0x436u);
  EXPECT_EQ(to_lower(0x1E9E), 0xDFu);
  EXPECT_EQ(to_lower(0x10400), 0x10428u);
}

TEST(Unicode, AccentsGoAndLettersStay) {
  EXPECT_EQ(plain(0xE9), std::vector<uint32_t>{'e'});
  EXPECT_EQ(plain(0x1EA4), std::vector<uint32_t>{'A'});  // two marks, decomposed twice
  EXPECT_EQ(plain(0x301), std::vector<uint32_t>{});
  EXPECT_EQ(plain(0x93F), std::vector<uint32_t>{0x93F}) << "a spacing mark is a part of the word";
  EXPECT_EQ(plain(0x9CB), (std::vector<uint32_t>{0x9C7, 0x9BE}));
  EXPECT_EQ(plain('x'), std::vector<uint32_t>{'x'});
}

TEST(Unicode, HangulSyllablesDecomposeByArithmetic) {
  EXPECT_EQ(plain(0xAC00), (std::vector<uint32_t>{0x1100, 0x1161}));
  EXPECT_EQ(plain(0xD55C), (std::vector<uint32_t>{0x1112, 0x1161, 0x11AB}));
  EXPECT_EQ(plain(0xD7A3), (std::vector<uint32_t>{0x1112, 0x1175, 0x11C2}));
  EXPECT_EQ(plain(0xD7A4), std::vector<uint32_t>{0xD7A4});
}

TEST(Unicode, Utf8BothWays) {
  for (const uint32_t code_point : {0u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xFFFFu, 0x10000u, 0x10FFFFu}) {
    std::string text;
    append_utf8(code_point, text);
    const CodePointStep step = next_code_point(text + "z");
    EXPECT_EQ(step.code_point, code_point);
    EXPECT_EQ(step.n_bytes, text.size());
  }
  EXPECT_EQ(next_code_point("\xFFz").code_point, kReplacementCodePoint);
  EXPECT_EQ(next_code_point("\xE2\x82").n_bytes, 2u);
}

TEST(CodePointSet, ComplementAndIntersection) {
  const CodePointSet letters = CodePointSet::of_categories(category_mask("L"));
  EXPECT_EQ(letters.complement().complement(), letters);
  EXPECT_TRUE(letters.intersection(letters.complement()).ranges().empty());
  EXPECT_EQ(CodePointSet().complement().ranges().size(), 1u);
}

}  // namespace
}  // namespace tessera::text
