#include "tessera/cli/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "tessera/base/index.h"

namespace tessera::cli {

namespace {

Result<> write_all(int fd, const char* data, size_t n) {
  while (n > 0) {
    const ssize_t written = ::write(fd, data, n);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail(ErrorCode::io, "cannot write to stdout: {}", std::generic_category().message(errno));
    data += written;
    n -= to_size(written);
  }
  return {};
}

void write_stderr(std::string_view text) {
  // A closed stderr cannot be reported anywhere.
  [[maybe_unused]] const auto outcome = write_all(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

Result<> print(std::string_view text) { return write_all(STDOUT_FILENO, text.data(), text.size()); }

Result<> print_bytes(std::span<const std::byte> bytes) {
  return write_all(STDOUT_FILENO, reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<> Output::append(std::string_view text) {
  constexpr size_t kPieceBytes = size_t{64} << 10;
  pending_ += text;
  return pending_.size() < kPieceBytes ? Result<>() : finish();
}

Result<> Output::finish() {
  const std::string text = std::exchange(pending_, {});
  return print(text);
}

std::string format_table(std::span<const std::vector<std::string>> rows, std::string_view align) {
  // Each code point, not each byte, fills one column.
  const auto width = [](std::string_view cell) {
    return to_size(std::ranges::count_if(cell, [](char c) { return (c & 0xC0) != 0x80; }));
  };
  std::vector<size_t> widths(align.size(), 0);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - width(row[i]), ' ');
      const bool is_last = i + 1 == row.size();
      if (align[i] == 'r')
        text += padding + row[i];
      else
        text += row[i] + (is_last ? "" : padding);
      text += is_last ? "\n" : "  ";
    }
  }
  return text;
}

void log(std::string_view text) { write_stderr(std::string(text) + "\n"); }

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

std::string human_bytes(double bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < kUnits.size(); ++unit) bytes /= 1000;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.2f} {}", bytes, kUnits[unit]);
}

ProgressBar::ProgressBar(std::string label, bool hidden)
    : label_(std::move(label)), hidden_(hidden || !stderr_is_terminal()) {}

ProgressBar::~ProgressBar() {
  if (shown_percent_ >= 0) write_stderr("\r\033[K");
}

void ProgressBar::update(float share) {
  constexpr int kWidth = 40;
  const int percent = static_cast<int>(share * 100.0f);
  if (hidden_ || percent == shown_percent_) return;
  shown_percent_ = percent;
  const int filled = percent * kWidth / 100;
  write_stderr(fmt::format("\r{} [{:#<{}}{:{}}] {:3}%", label_, "", filled, "", kWidth - filled, percent));
}

}  // namespace tessera::cli
