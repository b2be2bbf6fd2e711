#include "tessera/server/http/head.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tessera/server/http/target.h"

namespace tessera::server {
namespace {

constexpr size_t kMaxMethodBytes = 32;
constexpr size_t kMaxLengthDigits = 19;  // fits uint64_t

using Failure = std::optional<HeadError>;

HeadError head_error(int status, std::string message) { return {.status = status, .message = std::move(message)}; }

bool is_token_char(char c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return true;
  return c != 0 && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_digit_char(char c) { return c >= '0' && c <= '9'; }
bool is_visible_ascii(char c) { return c > ' ' && c < 0x7f; }
// Field values: visible characters, blanks, and bytes from 128 on.
bool is_value_char(char c) { return c == '\t' || (static_cast<unsigned char>(c) >= ' ' && c != 0x7f); }

char lower_char(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lower_text(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), lower_char);
  return out;
}

// Cuts a line with its CR LF off; nothing without one, or if the line has a bare CR or LF.
std::optional<std::string_view> take_line(std::string_view& bytes) {
  const size_t end = bytes.find_first_of("\r\n");
  if (end == std::string_view::npos || bytes.substr(end, 2) != "\r\n") return std::nullopt;
  const std::string_view line = bytes.substr(0, end);
  bytes.remove_prefix(end + 2);
  return line;
}

// "host", "host:port", "[v6]", "[v6]:port".
bool is_host_value(std::string_view value) {
  std::string_view name = value, port;
  if (value.starts_with('[')) {
    const size_t end = value.find(']');
    if (end == std::string_view::npos || end == 1) return false;
    name = value.substr(1, end - 1);
    port = value.substr(end + 1);
    const auto is_v6_char = [](char c) {
      return is_digit_char(c) || c == ':' || c == '.' || (lower_char(c) >= 'a' && lower_char(c) <= 'f');
    };
    if (!std::ranges::all_of(name, is_v6_char)) return false;
    if (!port.empty() && !port.starts_with(':')) return false;
    if (!port.empty()) port.remove_prefix(1);
  } else if (const size_t colon = value.find(':'); colon != std::string_view::npos) {
    name = value.substr(0, colon);
    port = value.substr(colon + 1);
  }
  const auto is_name_char = [](char c) {
    return is_token_char(c) || std::string_view("(),;=:").find(c) != std::string_view::npos;
  };
  return !name.empty() && std::ranges::all_of(name, is_name_char) && port.size() <= 5 &&
         std::ranges::all_of(port, is_digit_char);
}

// The parser of one head. Each step returns the error that it meets.
class HeadParser {
 public:
  HeadParser(std::string_view bytes, const HeadLimits& limits) : rest_(bytes), limits_(limits) {}

  std::expected<RequestHead, HeadError> run() {
    for (auto step :
         {&HeadParser::parse_request_line, &HeadParser::parse_fields, &HeadParser::parse_path, &HeadParser::check_host,
          &HeadParser::check_framing, &HeadParser::check_connection, &HeadParser::check_expectations}) {
      if (Failure failure = (this->*step)()) {
        failure->target = std::string(target_);
        return std::unexpected(std::move(*failure));
      }
    }
    return std::move(head_);
  }

 private:
  Failure parse_request_line() {
    const auto line = take_line(rest_);
    if (!line) return head_error(400, "Request line: want CR LF at its end");
    const size_t first = line->find(' '), last = line->rfind(' ');
    if (first == std::string_view::npos || first == last)
      return head_error(400, "Request line: want a method, a target and a version");
    const std::string_view method = line->substr(0, first), version = line->substr(last + 1);
    target_ = line->substr(first + 1, last - first - 1);
    if (!is_http_token(method) || method.size() > kMaxMethodBytes)
      return head_error(400, fmt::format("Method: want a token of at most {} bytes", kMaxMethodBytes));
    if (target_.size() > limits_.target_bytes)
      return head_error(414, fmt::format("Target: {} bytes, limit {}", target_.size(), limits_.target_bytes));
    if (!std::ranges::all_of(target_, is_visible_ascii) || target_.find('#') != std::string_view::npos)
      return head_error(400, "Target: want visible ASCII characters without '#'");
    if (version != "HTTP/1.1" && version != "HTTP/1.0") return head_error(400, "Version: want HTTP/1.1 or HTTP/1.0");
    head_.method = std::string(method);
    head_.minor_version = version.back() - '0';
    return std::nullopt;
  }

  Failure parse_fields() {
    for (;;) {
      const auto line = take_line(rest_);
      if (!line) return head_error(400, "Field: want CR LF at its end");
      if (line->empty()) break;
      if (head_.fields.size() == limits_.n_fields)
        return head_error(431, fmt::format("Fields: more than {}", limits_.n_fields));
      if (line->front() == ' ' || line->front() == '\t') return head_error(400, "Field: folded lines are refused");
      const size_t colon = line->find(':');
      if (colon == std::string_view::npos || !is_http_token(line->substr(0, colon)))
        return head_error(400, fmt::format("Field {}: want a name and a colon", head_.fields.size() + 1));
      const std::string_view value = trim_blanks(line->substr(colon + 1));
      if (!std::ranges::all_of(value, is_value_char))
        return head_error(400, fmt::format("Field {}: control characters are refused", head_.fields.size() + 1));
      head_.fields.push_back({lower_text(line->substr(0, colon)), std::string(value)});
    }
    if (!rest_.empty()) return head_error(400, "Head: bytes after its blank line");
    return std::nullopt;
  }

  // "/path", "*" of OPTIONS, or "http://host/path" with the host of the field Host.
  Failure parse_path() {
    std::string_view target = target_;
    if (!target.starts_with('/') && !(target == "*" && head_.method == "OPTIONS")) {
      const size_t scheme = target.find("://");
      if (scheme == std::string_view::npos || (!equal_ignoring_case(target.substr(0, scheme), "http") &&
                                               !equal_ignoring_case(target.substr(0, scheme), "https")))
        return head_error(400, "Target: want a path that begins with /");
      target.remove_prefix(scheme + 3);
      const size_t slash = std::min(target.find_first_of("/?"), target.size());
      authority_ = target.substr(0, slash);
      target.remove_prefix(slash);
    }
    auto parsed = parse_target(target);
    if (!parsed)
      return head_error(400, fmt::format("Target: want percent-encoding other than %00, and at most {} query values",
                                         kMaxQueryValues));
    head_.path = parsed->path.empty() ? "/" : std::move(parsed->path);
    head_.query = std::move(parsed->query);
    return std::nullopt;
  }

  Failure check_host() {
    const auto hosts = values_of("host");
    if (hosts.size() != 1) return head_error(400, fmt::format("Host: got {} fields, want 1", hosts.size()));
    if (!is_host_value(hosts[0])) return head_error(400, "Host: want a name or address, and perhaps a port");
    if (!authority_.empty() && !equal_ignoring_case(authority_, hosts[0]))
      return head_error(400, "Host: differs from that of the target");
    if (authority_.empty() && !target_.starts_with('/') && target_ != "*")
      return head_error(400, "Target: want a host");
    head_.host = std::string(hosts[0]);
    return std::nullopt;
  }

  Failure check_framing() {
    const auto lengths = values_of("content-length"), encodings = values_of("transfer-encoding");
    if (lengths.size() > 1) return head_error(400, "Content-Length: more than one field");
    if (!lengths.empty() && !encodings.empty()) return head_error(400, "Content-Length with Transfer-Encoding");
    if (!encodings.empty()) {
      if (head_.minor_version == 0) return head_error(400, "Transfer-Encoding: not in HTTP/1.0");
      if (encodings.size() > 1 || encodings[0] != "chunked")
        return head_error(400, "Transfer-Encoding: want exactly 'chunked'");
      head_.is_chunked = true;
    }
    if (lengths.empty()) return std::nullopt;
    const std::string_view digits = lengths[0];
    if (digits.empty() || digits.size() > kMaxLengthDigits || !std::ranges::all_of(digits, is_digit_char))
      return head_error(400, fmt::format("Content-Length: want 1 to {} digits", kMaxLengthDigits));
    for (const char c : digits) head_.content_length = head_.content_length * 10 + static_cast<uint64_t>(c - '0');
    return std::nullopt;
  }

  Failure check_connection() {
    head_.keeps_alive = head_.minor_version == 1;
    for (const std::string_view value : values_of("connection")) {
      for (const std::string_view option : split_list(value)) {
        if (equal_ignoring_case(option, "close")) {
          head_.keeps_alive = false;
          return std::nullopt;
        }
        if (equal_ignoring_case(option, "keep-alive")) head_.keeps_alive = true;
      }
    }
    return std::nullopt;
  }

  Failure check_expectations() {
    for (const std::string_view value : values_of("content-encoding"))
      for (const std::string_view coding : split_list(value))
        if (!equal_ignoring_case(coding, "identity"))
          return head_error(415, "Content-Encoding: only 'identity' is supported");
    for (const std::string_view value : values_of("expect")) {
      if (!equal_ignoring_case(value, "100-continue")) return head_error(417, "Expect: want '100-continue'");
      head_.expects_continue = head_.minor_version == 1;
    }
    return std::nullopt;
  }

  std::vector<std::string_view> values_of(std::string_view name) const {
    std::vector<std::string_view> values;
    for (const HttpField& field : head_.fields)
      if (field.name == name) values.push_back(field.value);
    return values;
  }

  std::string_view rest_;
  HeadLimits limits_;
  std::string_view target_{}, authority_{};
  RequestHead head_{};
};

}  // namespace

bool is_http_token(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_token_char); }

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower_char(x) == lower_char(y); });
}

std::string_view trim_blanks(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> items;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    if (const std::string_view item = trim_blanks(text.substr(0, comma)); !item.empty()) items.push_back(item);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return items;
}

std::expected<RequestHead, HeadError> parse_head(std::string_view bytes, const HeadLimits& limits) {
  if (bytes.size() > limits.head_bytes)
    return std::unexpected(head_error(431, fmt::format("Head: {} bytes, limit {}", bytes.size(), limits.head_bytes)));
  return HeadParser(bytes, limits).run();
}

size_t HeadReader::push(std::string_view bytes) {
  size_t n = 0;
  while (n < bytes.size() && !is_complete_ && !error_) {
    accept(bytes[n++]);
    check_limits();
  }
  return n;
}

void HeadReader::accept(char c) {
  if (bytes_.empty() && skipped_ < 2 && c == "\r\n"[skipped_]) {  // one empty line before the head is allowed
    ++skipped_;
    return;
  }
  const bool after_cr = bytes_.empty() ? skipped_ == 1 : bytes_.back() == '\r';
  if (after_cr != (c == '\n')) return fail(400, after_cr ? "Head: bare CR" : "Head: bare LF");
  if (c == 0) return fail(400, "Head: NUL");
  bytes_ += c;
  if (c != '\n') {
    line_bytes_ += c == '\r' ? 0 : 1;
    return;
  }
  is_complete_ = line_bytes_ == 0;
  line_bytes_ = 0;
  ++n_lines_;
}

void HeadReader::check_limits() {
  if (error_) return;
  // The shortest rest of a request line is a blank and a version.
  constexpr size_t kVersionBytes = 9;
  if (n_lines_ == 0 && line_bytes_ > limits_.target_bytes + kVersionBytes) {
    const size_t blank = bytes_.find(' ');
    const size_t begin = blank == std::string::npos ? 0 : blank + 1;
    const size_t target_bytes = std::min(bytes_.find(' ', begin), bytes_.size()) - begin;
    if (target_bytes > limits_.target_bytes)
      return fail(414, fmt::format("Target: more than {} bytes", limits_.target_bytes));
  }
  if (!is_complete_ && n_lines_ > limits_.n_fields + (line_bytes_ == 0 ? 1 : 0))
    return fail(431, fmt::format("Fields: more than {}", limits_.n_fields));
  if (bytes_.size() > limits_.head_bytes) fail(431, fmt::format("Head: more than {} bytes", limits_.head_bytes));
}

void HeadReader::fail(int status, std::string message) {
  error_ = head_error(status, std::move(message));
  const size_t blank = bytes_.find(' ');
  if (blank == std::string::npos) return;
  const size_t end = std::min(bytes_.find_first_of(" \r", blank + 1), bytes_.size());
  error_->target = bytes_.substr(blank + 1, std::min(end - blank - 1, limits_.target_bytes));
}

std::expected<RequestHead, HeadError> HeadReader::take() {
  auto head = parse_head(bytes_, limits_);
  reset();
  return head;
}

void HeadReader::reset() {
  std::string().swap(bytes_);  // an idle connection holds no buffer
  line_bytes_ = n_lines_ = 0;
  skipped_ = 0;
  is_complete_ = false;
  error_.reset();
}

}  // namespace tessera::server
