#include "tessera/server/http/answer_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <iterator>

#include "tessera/server/http/head.h"
#include "tessera/server/http/status.h"

namespace tessera::server {
namespace {

// A value with CR, LF or NUL could end the head early.
bool is_safe_field(std::string_view name, std::string_view value) {
  const auto ends_line = [](char c) { return c == '\r' || c == '\n' || c == '\0'; };
  return is_http_token(name) && std::ranges::none_of(value, ends_line);
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  if (!is_safe_field(name, value)) return;
  out.append(name).append(": ").append(value).append("\r\n");
}

}  // namespace

std::string http_date(int64_t seconds) {
  constexpr std::string_view kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::string_view kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const time_t time = seconds;
  tm parts{};
  gmtime_r(&time, &parts);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[parts.tm_wday], parts.tm_mday,
                     kMonths[parts.tm_mon], parts.tm_year + 1900, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string write_answer_head(const HttpAnswer& answer, const AnswerFraming& framing) {
  std::string out;
  out.reserve(512);
  fmt::format_to(std::back_inserter(out), "HTTP/1.1 {} {}\r\n", answer.status, status_phrase(answer.status));
  if (!framing.date.empty()) append_field(out, "Date", framing.date);
  append_field(out, "Server", "tessera");
  append_field(out, "X-Request-Id", framing.request_id);
  append_field(out, "Request-Id", framing.request_id);
  const bool has_body = status_has_body(answer.status);
  if (has_body && !answer.content_type.empty()) append_field(out, "Content-Type", answer.content_type);
  if (has_body && framing.content_length)
    fmt::format_to(std::back_inserter(out), "Content-Length: {}\r\n", *framing.content_length);
  else if (has_body && framing.minor_version > 0)
    append_field(out, "Transfer-Encoding", "chunked");
  if (answer.content_type == kEventStreamType) {
    append_field(out, "Cache-Control", "no-cache");
    append_field(out, "X-Accel-Buffering", "no");
  }
  if (!framing.keeps_alive) append_field(out, "Connection", "close");
  if (framing.keeps_alive && framing.minor_version == 0) append_field(out, "Connection", "keep-alive");
  for (const HttpField& field : answer.fields) append_field(out, field.name, field.value);
  if (framing.cors != nullptr)
    for (const HttpField& field : *framing.cors) append_field(out, field.name, field.value);
  return out += "\r\n";
}

}  // namespace tessera::server
