// A terminal for tests in one thread: a script types keys and looks at the screen between them.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "tessera/cli/terminal.h"
#include "tests/cli/screen.h"

namespace tessera::testing {

class FakeTerminal final : public cli::Terminal {
 public:
  explicit FakeTerminal(int n_rows = 24, int n_columns = 80) : screen(n_rows, n_columns) {}

  Screen screen;
  cli::TerminalMode mode = cli::TerminalMode::plain;
  bool is_dumb_terminal = false;
  int n_suspends = 0;

  /// Adds keys to the script. An ESC at the end is a key of its own.
  FakeTerminal& type(std::string_view bytes) {
    cli::KeyDecoder decoder;
    decoder.feed(bytes);
    decoder.flush();
    while (auto key = decoder.next()) events_.push_back([key = *key] { return key_event(key); });
    return *this;
  }
  /// Adds a look at the screen.
  FakeTerminal& look(std::function<void(const Screen&)> check) {
    events_.push_back([this, check = std::move(check)]() -> std::optional<cli::TerminalEvent> {
      check(screen);
      return std::nullopt;
    });
    return *this;
  }
  FakeTerminal& see(const std::string& text, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return look([=](const Screen& now) {
      const ::testing::ScopedTrace trace(file, line, "here");
      EXPECT_EQ(now.text(), text);
    });
  }
  FakeTerminal& see_cursor(int row, int column, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return look([=](const Screen& now) {
      const ::testing::ScopedTrace trace(file, line, "here");
      EXPECT_EQ(std::make_pair(now.cursor_row(), now.cursor_column()), std::make_pair(row, column)) << now.text();
    });
  }
  FakeTerminal& resize(int n_rows, int n_columns) {
    events_.push_back([=, this] {
      screen.resize(n_rows, n_columns);
      return cli::TerminalEvent{cli::TerminalEventKind::resize};
    });
    return *this;
  }
  FakeTerminal& happen(cli::TerminalEventKind kind) {
    events_.push_back([=] { return cli::TerminalEvent{kind}; });
    return *this;
  }
  FakeTerminal& lines(std::string text) {
    plain_input_ += text;
    return *this;
  }

  /// The number of steps of the script that were not reached.
  size_t n_left() const { return events_.size(); }

  Result<> set_mode(cli::TerminalMode wanted) override {
    mode = wanted;
    return {};
  }
  cli::ScreenSize size() const override { return {screen.n_rows(), screen.n_columns()}; }
  Result<> write(std::string_view bytes) override {
    screen.feed(bytes);
    EXPECT_TRUE(screen.unknown().empty()) << cli::visible(screen.unknown().back());
    return {};
  }
  Result<cli::TerminalEvent> wait(int timeout_ms) override {
    if (timeout_ms == 0) return cli::TerminalEvent{};  // so that the editor draws after each key
    while (!events_.empty()) {
      const auto event = std::move(events_.front());
      events_.pop_front();
      if (auto made = event()) return std::move(*made);
    }
    return cli::TerminalEvent{cli::TerminalEventKind::end};
  }
  bool take_escape() override { return false; }
  bool take_size_change() override { return false; }
  Result<> suspend() override {
    ++n_suspends;
    return write("[stopped]\r\n");
  }
  Result<> run_outside(FunctionRef<Result<>()> work) override { return work(); }
  bool is_dumb() const override { return is_dumb_terminal; }
  Result<std::string> read_plain_line() override {
    const size_t end = std::min(plain_input_.find('\n'), plain_input_.size());
    std::string line = plain_input_.substr(0, end + 1);
    plain_input_.erase(0, line.size());
    return line;
  }
  int input_descriptor() const override { return 0; }
  int output_descriptor() const override { return 1; }

 private:
  static std::optional<cli::TerminalEvent> key_event(const cli::Key& key) {
    return cli::TerminalEvent{cli::TerminalEventKind::key, key};
  }

  std::deque<std::function<std::optional<cli::TerminalEvent>()>> events_;
  std::string plain_input_;
};

}  // namespace tessera::testing
