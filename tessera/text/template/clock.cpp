#include "tessera/text/template/clock.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "tessera/base/index.h"
#include "tessera/text/utf8.h"

namespace tessera::text::jinja {
namespace {

constexpr std::array<std::string_view, 7> kDays{"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> kMonths{"January",   "February", "March",    "April",
                                                   "May",       "June",     "July",     "August",
                                                   "September", "October",  "November", "December"};

std::string number(int value, int width, char pad, bool is_bare) {
  if (is_bare) return fmt::format("{}", value);
  return pad == '0' ? fmt::format("{:0{}}", value, width) : fmt::format("{:{}}", value, width);
}

std::string offset_text(long seconds) {
  const long minutes = std::abs(seconds) / 60;
  return fmt::format("{}{:02}{:02}", seconds < 0 ? '-' : '+', minutes / 60, minutes % 60);
}

// One conversion; empty for an unknown one.
std::string convert(const std::tm& t, char conversion, bool is_bare) {
  const std::string_view day = kDays[to_size(t.tm_wday) % 7], month = kMonths[to_size(t.tm_mon) % 12];
  const int hour12 = t.tm_hour % 12 == 0 ? 12 : t.tm_hour % 12;
  const auto two = [&](int value) { return number(value, 2, '0', is_bare); };
  switch (conversion) {
    case 'a':
      return std::string(day.substr(0, 3));
    case 'A':
      return std::string(day);
    case 'b':
      return std::string(month.substr(0, 3));
    case 'B':
      return std::string(month);
    case 'd':
      return two(t.tm_mday);
    case 'e':
      return number(t.tm_mday, 2, ' ', is_bare);
    case 'H':
      return two(t.tm_hour);
    case 'I':
      return two(hour12);
    case 'j':
      return number(t.tm_yday + 1, 3, '0', is_bare);
    case 'm':
      return two(t.tm_mon + 1);
    case 'M':
      return two(t.tm_min);
    case 'p':
      return t.tm_hour < 12 ? "AM" : "PM";
    case 'S':
      return two(t.tm_sec);
    case 'y':
      return two((t.tm_year + 1900) % 100);
    case 'Y':
      return fmt::format("{}", t.tm_year + 1900);
    case 'z':
      return offset_text(t.tm_gmtoff);
    case 'Z':
      return t.tm_zone == nullptr ? "UTC" : t.tm_zone;
    case '%':
      return "%";
    default:
      return "";
  }
}

// Conversions that stand for several others.
std::string_view expansion(char conversion) {
  switch (conversion) {
    case 'c':
      return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x':
      return "%m/%d/%y";
    case 'F':
      return "%Y-%m-%d";
    case 'T':
    case 'X':
      return "%H:%M:%S";
    default:
      return "";
  }
}

}  // namespace

Result<std::string> format_time(const std::tm& time, std::string_view format) {
  std::string expanded;
  for (size_t i = 0; i < format.size(); ++i) {
    const std::string_view whole = format[i] == '%' && i + 1 < format.size() ? expansion(format[i + 1]) : "";
    if (!whole.empty()) {
      expanded += whole;
      ++i;
    } else {
      expanded += format[i];
      if (format[i] == '%' && i + 1 < format.size()) expanded += format[++i];
    }
  }
  std::string out;
  for (size_t i = 0; i < expanded.size(); ++i) {
    if (expanded[i] != '%') {
      out += expanded[i];
      continue;
    }
    const bool is_bare = i + 1 < expanded.size() && expanded[i + 1] == '-';
    const size_t at = i + (is_bare ? 2 : 1);
    const std::string text = at < expanded.size() ? convert(time, expanded[at], is_bare) : "";
    if (text.empty())
      return fail(ErrorCode::invalid_argument, "unknown conversion {} in a date format",
                  quote_text(std::string_view(expanded).substr(i, 3)));
    out += text;
    i = at;
  }
  return out;
}

}  // namespace tessera::text::jinja
