#include "tessera/cli/console.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
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

struct Log {
  std::mutex mutex;
  LogStyle style;
  int file = -1;
};
Log g_log;  // lines come from all parts of the program and from several threads

std::string without_controls(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F) {
      out += fmt::format("\\x{:02X}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

std::string styled(std::string text, const LogStyle& style) {
  using Clock = std::chrono::steady_clock;
  static const Clock::time_point start = Clock::now();
  std::string_view level = "info";
  if (text.starts_with("error:")) level = "error";
  if (text.starts_with("warning:")) level = "warning";
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (style.is_json)
    return nlohmann::ordered_json{{"t", seconds}, {"level", level}, {"message", std::move(text)}}.dump(
        -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string prefix;
  if (style.has_time) prefix += fmt::format("{:.3f} ", seconds);
  if (style.has_level) prefix += fmt::format("{} ", static_cast<char>(level[0] - 'a' + 'A'));
  return prefix + text;
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

void set_log_style(const LogStyle& style) {
  const std::lock_guard lock(g_log.mutex);
  g_log.style = style;
}

Result<> set_log_file(const std::string& path) {
  constexpr mode_t kOwnerOnly = 0600;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kOwnerOnly);
  if (fd < 0)
    return fail(ErrorCode::io, "{}: cannot open for appending: {}", path, std::generic_category().message(errno));
  const std::lock_guard lock(g_log.mutex);
  if (g_log.file >= 0) ::close(g_log.file);
  g_log.file = fd;
  return {};
}

void log(std::string_view text) {
  const std::lock_guard lock(g_log.mutex);
  const std::string line = styled(without_controls(text), g_log.style) + "\n";
  write_stderr(line);
  // A full disk must not end what is logged.
  if (g_log.file >= 0) [[maybe_unused]]
    const auto outcome = write_all(g_log.file, line.data(), line.size());
}

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

std::string human_bytes(double bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < kUnits.size(); ++unit) bytes /= 1000;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.2f} {}", bytes, kUnits[unit]);
}

}  // namespace tessera::cli
