#include "tessera/cli/diffusion_view.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tessera/base/index.h"
#include "tessera/cli/console.h"
#include "tessera/cli/word_wrap.h"
#include "tessera/text/utf8.h"

namespace tessera::cli {

namespace {

void write_to_terminal(std::string_view bytes) {
  std::fwrite(bytes.data(), 1, bytes.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

DiffusionView::DiffusionView(bool is_on) : is_on_(is_on) {
  const char* term = std::getenv("TERM");
  const bool is_dumb = term == nullptr || std::string_view(term).empty() || std::string_view(term) == "dumb";
  if (!is_on || !stderr_is_terminal() || is_dumb) return;
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 && size.ws_row > 1) {
    n_columns_ = size.ws_col;
    n_rows_ = size.ws_row;
  }
  rows_.emplace(n_columns_, n_rows_, std::getenv("NO_COLOR") == nullptr);
}

// Of a text that is longer than the screen, the end is shown: rows that have left the screen cannot change.
void DiffusionView::show(int64_t step, int64_t n_steps, std::string_view text) {
  if (!is_on_) return;
  const std::string head = fmt::format("step {} of {}", step, n_steps);
  if (!rows_) return log(fmt::format("{}: {}", head, text::quote_text(text, text.size())));
  WordWrap wrap(n_columns_ - 1, WrapMode::words);
  wrap.add(head, {.dim = true});
  wrap.end_line();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    wrap.add(text.substr(begin, end - begin), {});
    wrap.end_line();
    begin = end + 1;
  }
  const std::vector<ScreenRow> rows = wrap.take_rows();
  const size_t n_shown = std::min(rows.size(), to_size(n_rows_ - 1));
  write_to_terminal(rows_->update({}, std::span(rows).last(n_shown)));
}

void DiffusionView::erase() {
  if (rows_) write_to_terminal(rows_->update({}, {}));
}

}  // namespace tessera::cli
