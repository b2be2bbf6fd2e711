#include "tessera/cli/reply_view.h"

#include <gtest/gtest.h>

#include "tests/cli/view_documents.h"
#include "tests/cli/view_support.h"

namespace tessera {
namespace {

using cli::Markup;
using cli::ReplyView;
using cli::ThinkingView;
using testing::ShownReply;
using testing::window;

// --- streaming ---

TEST(ReplyView, TextIsWrittenOnceAsItComes) {
  ReplyView view(window(80, 24));
  std::string written;
  for (const std::string_view piece : {"Hello", " wor", "ld", ", how are", " you?"}) written += view.content(piece, 0);
  EXPECT_EQ(written, "Hello");
  int64_t now = 0;
  ReplyView slow(window(80, 24));
  written.clear();
  for (const std::string_view piece : {"Hello", " wor", "ld", ", how are", " you?"})
    written += slow.content(piece, now += 16);
  EXPECT_EQ(written + slow.finish(), "Hello world, how are you?\r\n");
}

TEST(ReplyView, PiecesWithinSixteenMillisecondsGather) {
  ReplyView view(window(80, 24));
  EXPECT_EQ(view.content("a", 100), "a");
  EXPECT_EQ(view.content("b", 101), "");
  EXPECT_EQ(view.next_flush_ms(), 116);
  EXPECT_EQ(view.flush(115), "");
  EXPECT_EQ(view.flush(116), "b");
  EXPECT_EQ(view.content("c", 131), "");
  EXPECT_EQ(view.content("d", 132), "cd");
}

TEST(ReplyView, NothingIsDueWithoutText) {
  ReplyView view(window(80, 24));
  EXPECT_EQ(view.next_flush_ms(), std::nullopt);
  EXPECT_EQ(view.flush(1000), "");
  EXPECT_EQ(view.finish(), "");
}

TEST(ReplyView, AMarkThatMayBeginABlockIsHeldUntilAPause) {
  ShownReply reply(window(40, 12));
  reply.content("text\n-");
  EXPECT_EQ(reply.text(), "text");
  EXPECT_EQ(reply.view.next_flush_ms(), reply.now_ms + 200);
  reply.pause();
  EXPECT_EQ(reply.text(), "text\n-");
  EXPECT_EQ(reply.view.next_flush_ms(), std::nullopt);
  reply.content(" item");
  EXPECT_EQ(reply.text(), "text\n• item");
}

TEST(ReplyView, ARowOfAMessageIsNotRedrawnForEmphasisThatCloses) {
  ShownReply reply(window(80, 24));
  for (const std::string_view piece : {"some **", "bo", "ld", "** text"}) reply.content(piece);
  EXPECT_EQ(reply.look("bold"), "bold");
  EXPECT_EQ(reply.written.find("\x1b[J"), std::string::npos) << "nothing was erased";
}

TEST(ReplyView, AnOpenMarkThatStaysOpenIsShownInTheEnd) {
  ShownReply reply(window(80, 24));
  reply.content("some **bold");
  EXPECT_EQ(reply.text(), "some bold");
  reply.finish();
  EXPECT_EQ(reply.text(), "some **bold");
  EXPECT_EQ(reply.look("bold"), "");
}

TEST(ReplyView, AWordThatDoesNotFitMovesToTheNextRow) {
  ShownReply reply(window(10, 5));
  reply.content("one two th");
  EXPECT_EQ(reply.text(), "one two th");
  reply.content("ree");
  EXPECT_EQ(reply.text(), "one two\nthree");
}

TEST(ReplyView, CharactersMayComeInPieces) {
  ShownReply reply(window(40, 12));
  for (const std::string_view piece : {"a\xE6", "\xBC", "\xA2 e", "\xCC", "\x81", "!"}) reply.content(piece);
  reply.finish();
  EXPECT_EQ(reply.text(), "a漢 e\xCC\x81!");
}

TEST(ReplyView, BytesThatAreNoTextAreEscaped) {
  EXPECT_EQ(testing::show_bytewise("a\xFF\xE6", window(40, 12)).text(), "a\\xff\\xe6");
}

TEST(ReplyView, ControlSequencesOfTheModelAreEscaped) {
  const auto reply = testing::show(
      "\x1b]52;c;aGk=\x07 \x1b[2J \xC2\x9b"
      "31m \xE2\x80\xAE"
      "abc `\x1b[0m` | \x7f");
  EXPECT_EQ(reply.text(), "^[]52;c;aGk=^G ^[[2J <U+009B>31m <U+202E>abc `^[[0m` | ^?");
  const auto entity = testing::show("&#27;[2J &#x9b;2J &#x202e;");
  EXPECT_EQ(entity.text(), "^[[2J <U+009B>2J <U+202E>");
  const auto table = testing::show("|\x1b[2J|\n|-|\n|&#27;c|");
  EXPECT_EQ(table.text(), "┌───────┐\n│ ^[[2J │\n├───────┤\n│ ^[c   │\n└───────┘");
  const auto code = testing::show("```\x1b[1m\n\x1b[1m\n```");
  EXPECT_EQ(code.text(), "^[[1m\n^[[1m");
}

TEST(ReplyView, RowsThatLeftTheScreenStay) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "line " + std::to_string(i) + "\n";
  const auto reply = testing::show_bytewise(text, window(20, 5));
  EXPECT_EQ(reply.text() + "\n", text);
}

TEST(ReplyView, AReplyBeginsBelowTheTextOfTheScreen) {
  ShownReply reply(window(20, 9));
  reply.write("prompt\r\n");
  for (const std::string_view piece : {"**a", "** b\n", "| c |\n", "|---|\n", "| d |"}) reply.content(piece);
  reply.finish();
  EXPECT_EQ(reply.text(), "prompt\na b\n┌───┐\n│ c │\n├───┤\n│ d │\n└───┘");
  EXPECT_EQ(reply.screen.cursor_column(), 0);
}

// --- sections ---

TEST(ReplyView, ReasoningIsDimAndStandsAboveTheContent) {
  ShownReply reply(window(20, 12));
  reply.reasoning("\n\nLet me *think* about it\n");
  reply.reasoning("a while.\n\n");
  reply.write(reply.view.end_reasoning(1.0, 10));
  reply.content("\n\nYes.");
  reply.finish();
  EXPECT_EQ(reply.text(), "Let me *think* about\nit\na while.\n\nYes.");
  EXPECT_EQ(reply.look("Let"), "dim");
  EXPECT_EQ(reply.look("while"), "dim");
  EXPECT_EQ(reply.look("Yes"), "");
}

TEST(ReplyView, ReasoningEndsWithTheFirstContent) {
  ShownReply reply(window(20, 12));
  reply.reasoning("a");
  reply.content("b");
  reply.finish();
  EXPECT_EQ(reply.text(), "a\n\nb");
}

TEST(ReplyView, HiddenReasoningIsALine) {
  cli::ViewOptions options = window(40, 12);
  options.thinking = ThinkingView::hide;
  ShownReply reply(options);
  reply.reasoning("secret");
  EXPECT_EQ(reply.written, "");
  reply.write(reply.view.end_reasoning(4.24, 210));
  EXPECT_EQ(reply.text(), "thought for 4.2 s, 210 tokens");
  EXPECT_EQ(reply.look("thought"), "dim");
  reply.content("yes");
  reply.finish();
  EXPECT_EQ(reply.text(), "thought for 4.2 s, 210 tokens\n\nyes");
  EXPECT_NE(ReplyView(options).end_reasoning(0, 1).find("1 token\x1b"), std::string::npos);
}

TEST(ReplyView, CallsAreShownAsFunctions) {
  ShownReply reply(window(40, 12));
  reply.content("Let me look.");
  reply.write(reply.view.call("find", R"({"a": 1, "b": "x\n\u001b", "c": [1, {"d": null}]})"));
  reply.write(reply.view.call("other", "{}"));
  reply.write(reply.view.call("broken", "{\"a\": \x1b"));
  reply.content("Done.");
  reply.finish();
  EXPECT_EQ(reply.text(),
            "Let me look.\n\nfind(a=1, b=\"x\\n\\u001b\", c=[1, {\"d\":\n  null}])\n\nother()\n\nbroken({\"a\": "
            "^[)\n\nDone.");
  EXPECT_EQ(reply.look("find"), "bold");
  EXPECT_EQ(reply.look("(a="), "");
}

TEST(ReplyView, ArgumentsOfSeveralLinesBecomeOne) {
  ShownReply reply(window(40, 12));
  reply.write(reply.view.call("f", "{\"a\": [\n\t1,\r\n  2]}"));
  EXPECT_EQ(reply.text(), "f(a=[  1,    2])");
}

TEST(ReplyView, DeepArgumentsAreShownAsTheyAre) {
  const std::string deep = "{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}";
  ReplyView view(window(80, 24));
  EXPECT_NE(view.call("f", deep).find("[[[["), std::string::npos);
}

// --- other markups ---

TEST(ReplyView, PlainMarkupIsTheBytes) {
  for (const std::string_view document : testing::kViewDocuments) {
    ReplyView view({.markup = Markup::plain});
    std::string out;
    for (const char c : document) out += view.content(std::string_view(&c, 1), 0);
    ASSERT_EQ(out + view.finish(), document);
  }
  ReplyView view({.markup = Markup::plain});
  EXPECT_EQ(view.content("\xFF\x1b[m\r\n\n\xE6", 0), "\xFF\x1b[m\r\n\n");
  EXPECT_EQ(view.content("\xBC\xA2", 0), "漢");
  EXPECT_EQ(view.content("\xE6", 0), "");
  EXPECT_EQ(view.resize(10, 10), "");
  EXPECT_EQ(view.finish(), "\xE6");
}

TEST(ReplyView, TextMarkupWrapsAndEscapes) {
  cli::ViewOptions options = window(20, 12);
  options.markup = Markup::text;
  EXPECT_EQ(testing::show("# **one** two three four\n\n  - \x1b[m\r\nx\ry", options).text(),
            "# **one** two three\nfour\n\n  - ^[[m\nx^My");
  for (const std::string_view document : testing::kViewDocuments)
    EXPECT_EQ(looks_of(testing::show_bytewise(document, options)), looks_of(testing::show(document, options)));
}

TEST(ReplyView, WithoutColourThereIsNoStyle) {
  cli::ViewOptions options = window(20, 12, false);
  ShownReply reply(options);
  reply.reasoning("hm");
  reply.content("**a** `b` [c](d)");
  reply.write(reply.view.call("f", "{}"));
  reply.finish();
  EXPECT_EQ(reply.written, "hm\r\n\r\na `b` c (d)\r\n\r\nf()\r\n");
}

// --- resize ---

// The text without blanks, line breaks and the bars of quotes. The terminal itself breaks final rows anew, within
// words.
std::string letters_of(std::string text) {
  for (const std::string_view part : {"│", " ", "\n"})
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) text.erase(at, part.size());
  return text;
}

TEST(ReplyView, ResizeInTheMiddleLosesAndRepeatsNothing) {
  constexpr std::string_view kTexts[] = {
      "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen",
      "- one two three four five six seven\n  - eight nine ten eleven twelve thirteen\n- fourteen fifteen sixteen",
      "> one two three *four five six* seven eight nine ten\n\neleven **twelve thirteen** fourteen `fifteen`",
      "```\none\n  two\nthree\n```\nfour five six",
      "a *b c d e f g h i j k l m n o p q r s t u v w x y z* aa bb cc dd ee ff gg hh ii jj kk ll mm nn oo pp"};
  for (const std::string_view text : kTexts) {
    const std::string letters = letters_of(testing::show(text, window(200, 24)).text());
    for (const int n_columns : {16, 24, 40, 60}) {
      for (size_t n = 0; n <= text.size(); ++n) {
        ShownReply reply(window(30, 24));
        reply.content(text.substr(0, n));
        reply.resize(n_columns, 20);
        reply.content(text.substr(n));
        reply.finish();
        ASSERT_EQ(letters_of(reply.text()), letters) << n << " then " << n_columns << '\n' << reply.text();
      }
    }
  }
}

TEST(ReplyView, RowsFitAfterAResize) {
  for (const std::string_view text : {"> > > > > > aaa bbb", "- - - - - ```\nabcdefghijklmnop", "aaa bbb ccc ddd"}) {
    ReplyView view(window(40, 24));
    view.content(text, 0);
    const std::string bytes = view.resize(12, 24);
    testing::Screen narrow(24, 12), wide(24, 40);
    narrow.feed(bytes);
    wide.feed(bytes);
    EXPECT_EQ(narrow.text(), wide.text()) << text;
  }
}

TEST(ReplyView, ATableIsLaidOutAnewAfterAResize) {
  ShownReply reply(window(40, 24));
  reply.content("| a | b |\n|---|---|\n| one | two three four five |\n");
  reply.resize(20, 24);
  EXPECT_EQ(reply.text(),
            "┌─────┬────────────┐\n│ a   │ b          │\n├─────┼────────────┤\n│ one │ two three  │\n│     │ four "
            "five  │");
  reply.resize(60, 24);
  reply.finish();
  EXPECT_EQ(reply.text(),
            "┌─────┬─────────────────────┐\n│ a   │ b                   │\n├─────┼─────────────────────┤\n"
            "│ one │ two three four five │\n└─────┴─────────────────────┘");
}

TEST(ReplyView, WindowsOfAnySizeAreSafe) {
  for (const auto& [n_columns, n_rows] : {std::pair{1, 1}, {0, 0}, {-5, 3}, {100000, 100000}, {3, 200}}) {
    for (const std::string_view document : testing::kViewDocuments) {
      ReplyView view(window(n_columns, n_rows));
      EXPECT_FALSE((view.content(document, 0) + view.resize(n_rows, n_columns) + view.finish()).empty());
    }
  }
}

// --- messages ---

TEST(ReplyView, MessagesAreWrappedEscapedAndColoured) {
  testing::Screen screen(6, 20);
  screen.feed(cli::warning_line("the file \x1b[31m is too long", window(20, 6)));
  screen.feed(cli::note_line("a note", window(20, 6)));
  EXPECT_EQ(screen.text(), "the file ^[[31m is\ntoo long\na note");
  EXPECT_EQ(screen.style_of("long").colour, "33");
  EXPECT_TRUE(screen.style_of("note").dim);
  EXPECT_EQ(cli::note_line("x", window(20, 6, false)), "x\r\n");
  EXPECT_EQ(cli::note_line("x", {.markup = Markup::plain}), "x\n");
}

}  // namespace
}  // namespace tessera
