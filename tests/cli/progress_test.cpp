// Lines of progress: rates, times, bars, and the width of a terminal.
#include "tessera/cli/progress.h"

#include "tessera/cli/hub_args.h"
#include "tests/cli/pty.h"
#include "tests/support/testing.h"

namespace tessera::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Progress, TheTimeLeftFollowsTheRateOfThisRun) {
  EXPECT_EQ(time_left({.n_done = 100, .n_left = 300}, seconds(10)), seconds(30));
  EXPECT_EQ(time_left({.n_done = 100, .n_left = 0}, seconds(10)), seconds(0));
  EXPECT_EQ(time_left({.n_done = 1, .n_left = 999'999'999}, seconds(1)), seconds(999'999'999));
  EXPECT_EQ(time_left({.n_done = 1, .n_left = 1'000'000'000}, seconds(1)), std::nullopt);
  EXPECT_EQ(time_left({.n_done = 0, .n_left = 300}, seconds(10)), std::nullopt);
  EXPECT_EQ(time_left({.n_done = 100, .n_left = 300}, seconds(0)), std::nullopt);
  EXPECT_EQ(rate_text({.n_done = 100'000'000, .n_left = 3'000'000'000}, seconds(2)), ", 50.00 MB/s, 00:01:00 left");
  EXPECT_EQ(rate_text({.n_done = 500, .n_left = 5000}, milliseconds(500)), ", 1.00 kB/s, 00:00:05 left");
  EXPECT_EQ(rate_text({}, seconds(2)), "");
}

// A bar with 40 columns.
std::string bar_text(std::string_view label, int percent) { return bar_line(label, percent, "", 200); }

TEST(Progress, BarsHaveFortyColumns) {
  EXPECT_EQ(bar_text("copying", 0), "copying [" + std::string(40, ' ') + "]   0%");
  EXPECT_EQ(bar_text("copying", 50), "copying [" + std::string(20, '#') + std::string(20, ' ') + "]  50%");
  EXPECT_EQ(bar_text("copying", 99), "copying [" + std::string(39, '#') + " ]  99%");
  EXPECT_EQ(bar_text("copying", 100), "copying [" + std::string(40, '#') + "] 100%");
}

TEST(Progress, BarsShrinkSoThatTheRestFits) {
  EXPECT_EQ(bar_line("copy", 50, ", 1 s", 57), "copy [" + std::string(20, '#') + std::string(20, ' ') + "]  50%, 1 s");
  EXPECT_EQ(bar_line("copy", 50, ", 1 s", 57).size(), 57u);
  EXPECT_EQ(bar_line("copy", 50, ", 1 s", 37).size(), 37u);
  EXPECT_EQ(bar_line("copy", 50, ", 1 s", 20), "copy [#####     ]  50%, 1 s");
}

TEST(Progress, LongTextsKeepTheirEnd) {
  EXPECT_EQ(end_within("abcdefgh", 8), "abcdefgh");
  EXPECT_EQ(end_within("abcdefgh", 7), "...efgh");
  EXPECT_EQ(end_within("abcdefgh", 3), "...");
  EXPECT_EQ(end_within("abcdefgh", -5), "...");
  EXPECT_EQ(end_within("\u4f60\u597d\u5417", 6), "\u4f60\u597d\u5417");
  EXPECT_EQ(end_within("\u4f60\u597d\u5417", 5), "...\u5417");
}

TEST(Progress, DownloadsShowPartsSizesAndTime) {
  hub::DownloadProgress state{.name = "m.gguf", .n_bytes = 1'000'000'000, .size = 4'000'000'000};
  state.n_all_bytes = 1'000'000'000;
  state.all_size = 4'000'000'000;
  EXPECT_EQ(progress_line(state, seconds(10)), "m.gguf: 1.00 GB of 4.00 GB");
  state.n_received = 500'000'000;
  EXPECT_EQ(progress_line(state, seconds(10)), "m.gguf: 1.00 GB of 4.00 GB, 50.00 MB/s, 00:01:00 left");
  state.number = 2, state.count = 3;
  EXPECT_EQ(progress_line(state, seconds(10)), "m.gguf (part 2 of 3): 1.00 GB of 4.00 GB, 50.00 MB/s, 00:01:00 left");
  state.is_checking = true;
  const std::string checking = "m.gguf (part 2 of 3): 1.00 GB of 4.00 GB, checking the part of an earlier run";
  EXPECT_EQ(progress_line(state, seconds(10)), checking);
  EXPECT_EQ(progress_line(state, seconds(10), static_cast<int64_t>(checking.size())), checking);
  EXPECT_EQ(progress_line(state, seconds(10), static_cast<int64_t>(checking.size()) - 1), "...uf" + checking.substr(6));
}

// A terminal's stderr for the duration of a test.
class TerminalAsStderr {
 public:
  explicit TerminalAsStderr(int n_columns) : pty_(24, n_columns), before_(::dup(STDERR_FILENO)) {
    ::dup2(pty_.inner(), STDERR_FILENO);
  }
  ~TerminalAsStderr() { restore(); }
  // All that was written.
  std::string restore() {
    if (before_ < 0) return "";
    constexpr std::string_view kEnd = "<end>";
    std::fputs(kEnd.data(), stderr);
    ::dup2(before_, STDERR_FILENO);
    ::close(std::exchange(before_, -1));
    std::string all;
    std::array<char, 1024> bytes{};
    while (!all.ends_with(kEnd)) {
      const ssize_t n = ::read(pty_.outer(), bytes.data(), bytes.size());
      if (n <= 0) break;
      all.append(bytes.data(), static_cast<size_t>(n));
    }
    return all.substr(0, all.size() - kEnd.size());
  }

 private:
  testing::PtyPair pty_;
  int before_;
};

TEST(Progress, LinesAreCutToTheTerminal) {
  TerminalAsStderr terminal(10);
  {
    StatusLine line;
    EXPECT_EQ(StatusLine::max_columns(), 9);
    line.draw("123456789");
    line.draw("1234567890");
    line.draw("1234567\u4f60\u597d");
    line.draw("12345678\u4f60");
    line.erase();
    line.erase();
    line.draw("x");
  }
  EXPECT_EQ(terminal.restore(),
            "\r\x1b[K123456789\r\x1b[K123456789\r\x1b[K1234567\u4f60\r\x1b[K12345678\r\x1b[K\r\x1b[Kx\r\x1b[K");
}

TEST(Progress, BarsShowTheRateWhereBytesAreKnown) {
  TerminalAsStderr terminal(120);
  {
    ProgressBar plain("a", false), hidden("b", true);
    hidden.update(0.5f);
    plain.update(0.25f);
    plain.update(0.251f);  // the same percent
  }
  {
    // A quarter is of an earlier run, so the rate begins with what follows.
    ProgressBar bar("c", false, 1'000'000'000);
    bar.update(0.25f);
    std::this_thread::sleep_for(milliseconds(2));
    bar.update(0.5f);
  }
  const std::string shown = terminal.restore();
  EXPECT_TRUE(shown.starts_with("\r\x1b[K" + bar_text("a", 25) + "\r\x1b[K\r\x1b[K" + bar_text("c", 25) + "\r"))
      << shown;
  EXPECT_NE(shown.find("\r\x1b[K" + bar_text("c", 50) + ", "), std::string::npos) << shown;
  EXPECT_TRUE(shown.ends_with(" left\r\x1b[K")) << shown;
  EXPECT_EQ(shown.find("b ["), std::string::npos);
}

TEST(Progress, OtherOutputsHaveTheUsualWidth) {
  TerminalAsStderr terminal(1);
  EXPECT_EQ(StatusLine::max_columns(), 79);
}

}  // namespace
}  // namespace tessera::cli
