#include "tessera/cli/spinner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/cli/control_sequences.h"
#include "tessera/cli/text_style.h"

namespace tessera::cli {

namespace {

constexpr int64_t kDelayMs = 300;
constexpr int64_t kFrameMs = 100;
constexpr std::array<std::string_view, 8> kFrames = {"⣾", "⣽", "⣻", "⢿", "⡿", "⣟", "⣯", "⣷"};

}  // namespace

std::string grouped_digits(int64_t n) {
  std::string digits = std::to_string(n);
  const size_t n_first = n < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > n_first + 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

int64_t Spinner::next_frame_ms() const { return begin_ms_ + kDelayMs + (frame_ + 1) * kFrameMs; }

std::string Spinner::frame(int64_t now_ms, int64_t n_done, int64_t n_total) {
  if (options_.markup == Markup::plain || now_ms < next_frame_ms()) return "";
  frame_ = (now_ms - begin_ms_ - kDelayMs) / kFrameMs;
  std::string text(kFrames[to_size(frame_) % kFrames.size()]);
  if (n_done < n_total)
    text += fmt::format(" reading {} of {} tokens", grouped_digits(n_done), grouped_digits(n_total));
  // One column stays free, so the cursor is never at the edge.
  const int64_t n_columns = static_cast<int64_t>(text.size()) - 2;  // the sign has three bytes
  n_shown_ = std::clamp<int64_t>(n_columns, 1, std::max<int64_t>(1, options_.n_columns - 1));
  text.resize(to_size(n_shown_) + 2);
  if (!options_.has_colour) return fmt::format("\r{}{}", text, kEraseRowEnd);
  return fmt::format("\r{}{}{}{}", style_sequence({.dim = true}), text, style_sequence({}), kEraseRowEnd);
}

std::string Spinner::erase() {
  if (std::exchange(n_shown_, 0) == 0) return "";
  return fmt::format("\r{}", kEraseRowEnd);
}

std::string Spinner::resize(int64_t n_columns) {
  options_.n_columns = n_columns;
  const int64_t n_rows = div_ceil(std::exchange(n_shown_, 0), std::max<int64_t>(1, n_columns));
  if (n_rows == 0) return "";
  return n_rows == 1 ? fmt::format("\r{}", kEraseBelow) : fmt::format("\r\x1b[{}A{}", n_rows - 1, kEraseBelow);
}

}  // namespace tessera::cli
