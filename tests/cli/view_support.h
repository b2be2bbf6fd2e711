// Shared by the tests of the view of replies: a view with a terminal in memory behind it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tessera/cli/reply_view.h"
#include "tests/cli/screen.h"

namespace tessera::testing {

/// A reply as it is shown on a terminal. Time goes on by 20 ms with each piece, so each piece is drawn.
class ShownReply {
 public:
  explicit ShownReply(const cli::ViewOptions& options)
      : view(options), screen(static_cast<int>(options.n_rows), static_cast<int>(options.n_columns)) {}

  void write(std::string bytes) {
    screen.feed(bytes);
    written += bytes;
  }
  void content(std::string_view piece) { write(view.content(piece, now_ms += 20)); }
  void reasoning(std::string_view piece) { write(view.reasoning(piece, now_ms += 20)); }
  /// Lets time pass until the view has nothing more to show.
  void pause() {
    for (auto due = view.next_flush_ms(); due; due = view.next_flush_ms()) write(view.flush(now_ms = *due));
  }
  void finish() { write(view.finish()); }
  void resize(int n_columns, int n_rows) {
    screen.resize(n_rows, n_columns);
    write(view.resize(n_columns, n_rows));
  }
  std::string text() const { return screen.text_with_history(); }
  /// The style of the first place of the text on the screen: "bold dim", "" if it is plain.
  std::string look(std::string_view part) const {
    const ScreenStyle style = screen.style_of(part);
    std::string out = style.colour;
    for (const auto& [is_on, name] : {std::pair{style.bold, " bold"},
                                      {style.dim, " dim"},
                                      {style.italic, " italic"},
                                      {style.underline, " underline"},
                                      {style.strike, " strike"}})
      if (is_on) out += name;
    return out.starts_with(' ') ? out.substr(1) : out;
  }

  cli::ReplyView view;
  Screen screen;
  std::string written;
  int64_t now_ms = 1000;
};

inline cli::ViewOptions window(int64_t n_columns, int64_t n_rows, bool has_colour = true) {
  return {.has_colour = has_colour, .n_columns = n_columns, .n_rows = n_rows};
}

/// Shows the pieces as one reply.
inline ShownReply show_pieces(const std::vector<std::string_view>& pieces, const cli::ViewOptions& options) {
  ShownReply reply(options);
  for (const std::string_view piece : pieces) reply.content(piece);
  reply.finish();
  EXPECT_TRUE(reply.screen.unknown().empty()) << reply.screen.unknown().front();
  return reply;
}

inline ShownReply show(std::string_view text, const cli::ViewOptions& options = window(80, 24)) {
  return show_pieces({text}, options);
}

inline ShownReply show_bytewise(std::string_view text, const cli::ViewOptions& options = window(80, 24)) {
  std::vector<std::string_view> pieces;
  for (size_t i = 0; i < text.size(); ++i) pieces.push_back(text.substr(i, 1));
  return show_pieces(pieces, options);
}

/// The rows and, for each, the styles of its cells: all that a user sees.
inline std::string looks_of(const ShownReply& reply) {
  std::string out = reply.text() + "\n";
  for (int row = 0; row < reply.screen.n_rows(); ++row) {
    for (int column = 0; column < reply.screen.n_columns(); ++column) {
      const ScreenCell& cell = reply.screen.cell(row, column);
      const ScreenStyle& s = cell.style;
      if (cell.text.empty() || cell.text == " ") continue;
      const int bits = s.bold + 2 * s.dim + 4 * s.italic + 8 * s.underline + 16 * s.strike + 32 * s.reverse;
      if (bits > 0 || !s.colour.empty())
        out += std::to_string(row) + ',' + std::to_string(column) + ':' + std::to_string(bits) + s.colour + ' ';
    }
  }
  return out;
}

}  // namespace tessera::testing
