// Replies in Markdown for the tests of the view: each construct, also half of it and inside others.
#pragma once

#include <string_view>

namespace tessera::testing {

// clang-format off
inline constexpr std::string_view kViewDocuments[] = {
    "Plain text of a few words.",
    "Some **bold** and *italic* and ***both*** and __strong__ and _em_ words, snake_case stays, 2 * 3 * 4 "
    "too.",
    "An unclosed **bold mark that never ends in this paragraph, though it is rather long and wraps.\n"
    "\n"
    "The next one is plain.",
    "Nested *italic **bold** italic* and **bold *italic* bold** and ~~struck *out*~~ done.",
    "Code `a*b*c` and ``x ` y`` and an unclosed `tick here.",
    "A [link](https://example.org/a_b_c \"title\") and [same](same) and [not a link] and [half](open",
    "![image](https://example.org/i.png) <https://auto.link> <b>html *em*</b> <not closed",
    "Escapes \\*not em\\* \\`no code\\` \\\\ back\\slash and hard\\\n"
    "break and two blanks  \n"
    "end.",
    "Entities &amp; &lt;b&gt; &#65; &#x42; &nope; &copy; &#0; & alone.",
    "# Heading 1\n"
    "## Heading *two* ##\n"
    "###### Six\n"
    "####### Seven is text\n"
    "#No heading",
    "Setext one\n"
    "==========\n"
    "\n"
    "Setext two\n"
    "---\n"
    "text",
    "- one\n"
    "- two\n"
    "  - nested\n"
    "    - deeper\n"
    "- three\n"
    "* other list\n"
    "+ third list",
    "1. first\n"
    "2. second\n"
    "   continued here with a long line that wraps around the edge of the window\n"
    "\n"
    "   second paragraph\n"
    "10. jumps",
    "1. a\n"
    "   ```python\n"
    "   def f():\n"
    "     return 1\n"
    "   ```\n"
    "2. b",
    "- [ ] open\n"
    "- [x] done\n"
    "-\n"
    "- after empty",
    "> quote with a line that is long enough to be wrapped in a narrow window\n"
    "lazy continuation\n"
    "> > nested\n"
    ">\n"
    "> back\n"
    "\n"
    "after",
    "> - list in quote\n"
    ">   ```\n"
    ">   code\n"
    ">   ```\n"
    "> 1. numbered",
    "```cpp\n"
    "int main() { return 0; }  // a comment that is too long for a narrow window, so it is cut at the edge\n"
    "\n"
    "\ttabbed\n"
    "```\n"
    "after",
    "~~~\n"
    "tilde fence\n"
    "```\n"
    "not the end\n"
    "~~~",
    "```\n"
    "never closed\n"
    "  two",
    "text\n"
    "\n"
    "    indented code\n"
    "\n"
    "    more of it\n"
    "text again",
    "| a | b |\n"
    "|---|---|\n"
    "| 1 | 2 |\n"
    "| 3 | 4 |\n"
    "\n"
    "after",
    "Intro line:\n"
    "| Left | Right | Centre |\n"
    "|:-----|------:|:------:|\n"
    "| x | 1 | **b** |\n"
    "| longer text here | 22 | `c` |\n"
    "no bar ends it",
    "| a | b | c |\n"
    "|---|---|\n"
    "| not | a | table |",
    "| Name | Description | Notes |\n"
    "|---|---|---|\n"
    "| alpha | A description that is longer than the window is wide, so that the cells have to wrap "
    "somewhere | short |\n"
    "| beta | tiny | Another long remark with several words in it<br>and a break |",
    "a | b\n"
    "--|--\n"
    "1 | 2 \\| 3",
    "- item with table:\n"
    "\n"
    "  | x | y |\n"
    "  |---|---|\n"
    "  | 1 | 2 |\n"
    "- next",
    "above\n"
    "\n"
    "---\n"
    "\n"
    "***\n"
    "below",
    "日本語のテキストは、単語の間に空白がありません。だから、どこでも改行できますが、句読点は行頭に置けません。",
    "**重要：**请注意「**引用**」和混排 English words 以及 emoji 👩\342\200\215👩\342\200\215👧\342\200\215👦 🇩🇪 👍🏽 "
    "end.",
    "Combining: e\314\201 n\314\203 a\314\200 and Devanagari नमस्ते and Thai สวัสดี.",
    "Formula $a_1 * b_1$ and \\(x_i * y_i\\) cost $5 and $10, \\[ z*1*2 \\] too.\n"
    "\n"
    "\\[\n"
    "\\sum_{i=1}^n x_i * y_i\n"
    "\\]\n"
    "\n"
    "$$\n"
    "a*b*c\n"
    "$$\n"
    "done",
    "https://example.org/a/very/long/address/that/does/not/fit/into/a/narrow/window/at/all?query=1&other=2#fragment",
    "word wordword wordwordword wordwordwordword wordwordwordwordword wordwordwordwordwordwordword word",
    "Escape: \033[31mred\033[0m \033]52;c;aGk=\007 bell and \302\23331m and \342\200\256override\342\201\246 "
    "x.\177",
    "CRLF lines\r\n"
    "- a\r\n"
    "- b\r\n"
    "\r\n"
    "end",
    "Tabs\tin\ttext\n"
    "-\ttabbed item\n"
    "\n"
    "\tcode by tab",
    "* a\n"
    "\n"
    "* b\n"
    "\n"
    "\n"
    "* c\n"
    "  text\n"
    "\n"
    "  > q",
    "1) one\n"
    "2) two\n"
    "- x\n"
    "3) three",
    "**Bold line**\n"
    "Next line of the same paragraph\n"
    "Third *line* with `code`\n"
    "\n"
    "**Term**: explanation",
    "#\n"
    "##  \n"
    "- \n"
    "> ",
    "***\n"
    "**\n"
    "*\n"
    "_\n"
    "`\n"
    "~~\n"
    "[",
    "A very long paragraph whose **emphasis begins early and goes on** while the text fills row after row. "
    "It has *another one that stays open for the whole rest of the paragraph, which is longer than the part "
    "of the text that waits. Then come more and more words, and [brackets that never close, and `ticks, and "
    "so on and so on until the window has been filled several times over, because the meaning has to be "
    "fixed before the rows leave the screen. At last **this is bold** and this* may close or not.",
};
// clang-format on

}  // namespace tessera::testing
