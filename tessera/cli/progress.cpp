#include "tessera/cli/progress.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "tessera/cli/cluster.h"
#include "tessera/cli/console.h"

namespace tessera::cli {

int64_t StatusLine::max_columns() {
  constexpr int kUsualColumns = 80;
  winsize size{};
  const bool is_known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return (is_known ? size.ws_col : kUsualColumns) - 1;  // some terminals wrap after the last column
}

void StatusLine::draw(std::string_view line) {
  std::string text;
  int64_t n_free = max_columns();
  while (!line.empty()) {
    const Cluster cluster = first_cluster(line);
    n_free -= cluster.n_columns;
    if (n_free < 0) break;
    text += cluster.bytes;
    line.remove_prefix(cluster.bytes.size());
  }
  std::fputs(("\r\033[K" + text).c_str(), stderr);
  is_drawn_ = true;
}

void StatusLine::erase() {
  if (std::exchange(is_drawn_, false)) std::fputs("\r\033[K", stderr);
}

std::optional<std::chrono::seconds> time_left(const ByteProgress& bytes, std::chrono::duration<double> elapsed) {
  if (bytes.n_done == 0 || elapsed.count() <= 0) return std::nullopt;
  const double rate = static_cast<double>(bytes.n_done) / elapsed.count();
  const double seconds = static_cast<double>(bytes.n_left) / rate;
  if (!(seconds < 1e9)) return std::nullopt;
  return std::chrono::seconds(static_cast<int64_t>(seconds));
}

std::string rate_text(const ByteProgress& bytes, std::chrono::duration<double> elapsed) {
  const auto left = time_left(bytes, elapsed);
  if (!left) return "";
  return fmt::format(", {}/s, {:%T} left", human_bytes(static_cast<double>(bytes.n_done) / elapsed.count()), *left);
}

std::string bar_line(std::string_view label, int percent, std::string_view rest, int64_t max_columns) {
  constexpr int64_t kLeastWidth = 10, kWidth = 40;
  constexpr int64_t kFrame = 8;  // " [", "] " and the percent
  const int64_t width = std::clamp(max_columns - n_columns(label) - kFrame - n_columns(rest), kLeastWidth, kWidth);
  const int64_t filled = percent * width / 100;
  return fmt::format("{} [{:#<{}}{:{}}] {:3}%{}", label, "", filled, "", width - filled, percent, rest);
}

std::string end_within(std::string_view text, int64_t n) {
  constexpr std::string_view kCut = "...";
  if (n_columns(text) <= n) return std::string(text);
  const int64_t n_free = std::max<int64_t>(n - static_cast<int64_t>(kCut.size()), 0);
  while (n_columns(text) > n_free) text.remove_prefix(first_cluster(text).bytes.size());
  return std::string(kCut) + std::string(text);
}

ProgressBar::ProgressBar(std::string label, bool hidden, uint64_t n_bytes)
    : label_(std::move(label)), hidden_(hidden || !stderr_is_terminal()), n_bytes_(n_bytes) {}

void ProgressBar::update(float share) {
  constexpr std::chrono::milliseconds kRedraw(500);
  if (hidden_) return;
  const auto now = Clock::now();
  if (!first_share_) {
    first_share_ = share;
    start_ = now;
  }
  const int percent = static_cast<int>(share * 100.0f);
  if (percent == shown_percent_ && (n_bytes_ == 0 || now - drawn_at_ < kRedraw)) return;
  shown_percent_ = percent;
  drawn_at_ = now;
  const auto bytes_of = [&](float part) { return static_cast<uint64_t>(part * static_cast<double>(n_bytes_)); };
  const ByteProgress bytes{.n_done = bytes_of(share - *first_share_), .n_left = bytes_of(1 - share)};
  line_.draw(bar_line(label_, percent, rate_text(bytes, now - start_), StatusLine::max_columns()));
}

}  // namespace tessera::cli
