#include "tessera/cli/markdown_inline.h"

#include <gtest/gtest.h>

namespace tessera::cli {
namespace {

// The runs with tags: b bold, i italic, s strike, u underline, d dim.
std::string tagged(std::string_view text, const InlineOptions& options = {}, std::string_view before = "") {
  std::string out;
  for (const InlineRun& run : parse_inline(text, before, options)) {
    std::string tags;
    if (run.style.bold) tags += 'b';
    if (run.style.italic) tags += 'i';
    if (run.style.strike) tags += 's';
    if (run.style.underline) tags += 'u';
    if (run.style.dim) tags += 'd';
    out += tags.empty() ? run.text : '<' + tags + ':' + run.text + '>';
  }
  return out;
}

struct InlineCase {
  std::string_view source, shown;
};

void expect_inline(std::initializer_list<InlineCase> cases) {
  for (const InlineCase& c : cases) EXPECT_EQ(tagged(c.source), c.shown) << c.source;
}

TEST(MarkdownInline, EmphasisFollowsTheRulesOfFlanking) {
  expect_inline({{"*a b*", "<i:a b>"},
                 {"a * b * c", "a * b * c"},
                 {"a*b*c", "a<i:b>c"},
                 {"_a b_", "<i:a b>"},
                 {"snake_case_name", "snake_case_name"},
                 {"_a_b_", "<i:a_b>"},
                 {"a*\"b\"*", "a*\"b\"*"},
                 {"foo-_(bar)_", "foo-<i:(bar)>"},
                 {"** a **", "** a **"},
                 {"**a b**", "<b:a b>"},
                 {"__a__b", "__a__b"},
                 {"*a\xC2\xA0*", "*a\xC2\xA0*"}});
}

TEST(MarkdownInline, EmphasisNests) {
  expect_inline({{"***a***", "<bi:a>"},
                 {"***a** b*", "<bi:a><i: b>"},
                 {"*a **b** c*", "<i:a ><bi:b><i: c>"},
                 {"**a *b* c**", "<b:a ><bi:b><b: c>"},
                 {"*foo**bar*", "<i:foo**bar>"},
                 {"*foo**bar**baz*", "<i:foo><bi:bar><i:baz>"},
                 {"**a*", "*<i:a>"},
                 {"*a**", "<i:a>*"},
                 {"*a _b* c_", "<i:a _b> c_"},
                 {"****a****", "<b:a>"}});
}

TEST(MarkdownInline, MarksWithoutAnEndAreText) {
  expect_inline({{"*a", "*a"}, {"a**", "a**"}, {"**a b", "**a b"}, {"[a", "[a"}, {"`a", "`a"}, {"~~a", "~~a"}});
}

TEST(MarkdownInline, WideTextNeedsNoBlanksAroundEmphasis) {
  expect_inline(
      {{"**重要：**请", "<b:重要：>请"}, {"は**「引用」**の", "は<b:「引用」>の"}, {"a**(b)**c", "a**(b)**c"}});
}

TEST(MarkdownInline, StrikethroughHasTwoMarks) {
  expect_inline({{"~~a~~", "<s:a>"}, {"~5 to ~10", "~5 to ~10"}, {"~~~a~~~", "~~~a~~~"}, {"~~*a*~~", "<is:a>"}});
  EXPECT_EQ(tagged("~~a~~", {.has_colour = false}), "~~a~~");
}

TEST(MarkdownInline, CodeKeepsItsTextAndDimMarks) {
  expect_inline({{"`a*b*`", "<d:`>a*b*<d:`>"},
                 {"`` a`b ``", "<d:``>a`b<d:``>"},
                 {"`a``b`", "<d:`>a``b<d:`>"},
                 {"*a `*` b*", "<i:a ><id:`><i:*><id:`><i: b>"},
                 {"`a\nb`", "<d:`>a b<d:`>"},
                 {"`\\`a", "<d:`>\\<d:`>a"}});
}

TEST(MarkdownInline, LinksShowTheirAddressIfItDiffers) {
  expect_inline({{"[a b](x.org)", "<u:a b><d: (x.org)>"},
                 {"[x.org](x.org)", "<u:x.org>"},
                 {"[*a*](b)", "<iu:a><d: (b)>"},
                 {"[a](<b c> 'title')", "<u:a><d: (b c)>"},
                 {"[a](b(c)d)", "<u:a><d: (b(c)d)>"},
                 {"[a](b\\)c)", "<u:a><d: (b)c)>"},
                 {"[a]", "[a]"},
                 {"[a](b c)", "[a](b c)"},
                 {"[a] (b)", "[a] (b)"},
                 {"[a [b](c) d](e)", "[a <u:b><d: (c)> d](e)"},
                 {"![a](b)", "<u:a><d: (b)>"},
                 {"*a [b*](c)", "*a <u:b*><d: (c)>"},
                 {"!a!", "!a!"}});
}

TEST(MarkdownInline, AngleBracketsHoldAddressesOrHtml) {
  expect_inline({{"<https://a_b_c.org>", "<u:https://a_b_c.org>"},
                 {"<a@b.org>", "<u:a@b.org>"},
                 {"<a href=\"*x*\">*y*</a>", "<a href=\"*x*\"><i:y></a>"},
                 {"<!-- *x* -->", "<!-- *x* -->"},
                 {"a < *b* > c", "a < <i:b> > c"},
                 {"1<2", "1<2"}});
}

TEST(MarkdownInline, EscapesAndEntities) {
  expect_inline({{"\\*a\\*", "*a*"},
                 {"a\\b", "a\\b"},
                 {"\\\\*a*", "\\<i:a>"},
                 {"a\\\nb", "a\nb"},
                 {"&amp;&lt;&#65;&#x42;&copy;", "&<AB©"},
                 {"&nope; & &#; &#xZ; &#10; &#1114112;", "&nope; & &#; &#xZ; &#10; &#1114112;"},
                 {"&#0;&#xD800;", "\xEF\xBF\xBD\xEF\xBF\xBD"},
                 {"&#42;a&#42;", "*a*"}});
}

TEST(MarkdownInline, FormulasStayAsTheyAre) {
  expect_inline({{"\\(a_1 * b*c* \\)", "\\(a_1 * b*c* \\)"},
                 {"\\[ *a* \\]", "\\[ *a* \\]"},
                 {"$a*b*c$", "$a*b*c$"},
                 {"$$*a* + 1$$", "$$*a* + 1$$"},
                 {"$5 *and* $6", "$5 <i:and> $6"},
                 {"$a *b* $", "$a <i:b> $"},
                 {"\\(*a*", "(<i:a>"}});
}

TEST(MarkdownInline, OpenEmphasisIsShownWhileTextFollows) {
  const InlineOptions partial{.is_partial = true};
  EXPECT_EQ(tagged("a **b", partial), "a <b:b>");
  EXPECT_EQ(tagged("a *b", partial), "a <i:b>");
  EXPECT_EQ(tagged("a ***b", partial), "a <bi:b>");
  EXPECT_EQ(tagged("a ~~b", partial), "a <s:b>");
  EXPECT_EQ(tagged("a _b", partial), "a _b");
  EXPECT_EQ(tagged("**a*", partial), "<b:a>") << "a mark at the end may grow";
  EXPECT_EQ(tagged("a\\", partial), "a");
}

TEST(MarkdownInline, TextBeforeCountsForFlanking) {
  EXPECT_EQ(tagged("_b_", {}, "a"), "_b_");
  EXPECT_EQ(tagged("_b_", {}, "a "), "<i:b>");
}

TEST(MarkdownInline, StableTextEndsBeforeWhatIsOpen) {
  EXPECT_EQ(stable_inline_bytes("ab cd ef", "", false), 5u);
  EXPECT_EQ(stable_inline_bytes("ab *cd ef", "", false), 2u);
  EXPECT_EQ(stable_inline_bytes("ab *cd ef* gh ij", "", false), 13u);
  EXPECT_EQ(stable_inline_bytes("ab `cd ef gh", "", false), 2u);
  EXPECT_EQ(stable_inline_bytes("ab [cd ef gh", "", false), 2u);
  EXPECT_EQ(stable_inline_bytes("ab [cd](ef gh", "", false), 2u);
  EXPECT_EQ(stable_inline_bytes("ab \\(cd ef gh", "", false), 2u);
  EXPECT_EQ(stable_inline_bytes("ab $cd ef gh", "", false), 2u);
  EXPECT_EQ(stable_inline_bytes("ab <cd ef gh", "", false), 2u);
  EXPECT_EQ(stable_inline_bytes("*ab cd", "", false), 0u);
  EXPECT_EQ(stable_inline_bytes("*ab cd", "", true), 3u);
  EXPECT_EQ(stable_inline_bytes("*ab cd* `e f`", "", true), 7u);
}

// Both parts apart give the whole, whatever follows.
TEST(MarkdownInline, StableTextCanBeParsedApart) {
  constexpr std::string_view kText =
      "a *b c* d **e `f g` h** i [j k](l m) [n](o) p ~~q r~~ s $t u$ v \\(w x\\) y <z a> b & c _d e_ f *g h";
  for (size_t n = 1; n <= kText.size(); ++n) {
    const std::string_view text = kText.substr(0, n);
    const size_t stable = stable_inline_bytes(text, "", false);
    if (stable == 0) continue;
    std::string apart = tagged(text.substr(0, stable)) + tagged(kText.substr(stable), {}, text.substr(0, stable));
    EXPECT_EQ(apart, tagged(kText)) << text.substr(0, stable);
  }
}

}  // namespace
}  // namespace tessera::cli
