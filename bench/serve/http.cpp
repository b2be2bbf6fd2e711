// Parsers of HTTP/1.1 answers and of event streams (http.h). The framing follows RFC 9112, sections 6 and 7.
#include "bench/serve/http.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace tessera::load {
namespace {

constexpr size_t kMaxHeadBytes = 64 << 10, kMaxLineBytes = 4 << 10;

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// Reads a whole text as a number that is not negative.
template <class T>
bool read_number(std::string_view text, int base, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size() && !text.starts_with('-');
}

}  // namespace

std::string request_text(const Request& request, std::string_view host) {
  if (!request.raw.empty()) return request.raw;
  std::string text = fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n", request.method, request.target, host);
  if (!request.api_key.empty()) text += fmt::format("Authorization: Bearer {}\r\n", request.api_key);
  if (request.method == "POST") {
    text += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", request.body.size());
  }
  return text + "\r\n" + request.body;
}

void AnswerParser::reset(Body body) {
  *this = {};
  body_ = body;
}

size_t AnswerParser::feed(std::string_view bytes, std::string& body) {
  size_t n_used = 0;
  while (state_ == State::head && n_used < bytes.size()) {
    const size_t n_before = text_.size();
    text_.append(bytes.substr(n_used, kMaxHeadBytes + 4 - n_before));
    const size_t end = text_.find("\r\n\r\n", n_before < 3 ? 0 : n_before - 3);
    if (end == std::string::npos) {
      n_used += text_.size() - n_before;
      if (text_.size() >= kMaxHeadBytes) state_ = State::failed;
      continue;
    }
    n_used += end + 4 - n_before;
    text_.resize(end + 2);  // each line ends with CR LF
    read_head();
  }
  while (state_ == State::body && n_used < bytes.size()) n_used += feed_body(bytes.substr(n_used), body);
  return n_used;
}

void AnswerParser::read_head() {
  const std::string head = std::exchange(text_, {});
  std::string_view rest = head;
  for (bool is_first = true; !rest.empty(); is_first = false) {
    const size_t end = rest.find("\r\n");
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 2);
    if (is_first ? read_status_line(line) : read_field(line)) continue;
    state_ = State::failed;
    return;
  }
  if (status_ >= 200) return begin_body();
  reset(body_);  // an interim answer, such as 100 Continue
}

bool AnswerParser::read_status_line(std::string_view line) {
  if (!line.starts_with("HTTP/1.") || line.size() < 12 || line[8] != ' ') return false;
  keeps_alive_ = line[7] == '1';
  return read_number(line.substr(9, 3), 10, status_) && status_ >= 100 && (line.size() == 12 || line[12] == ' ');
}

bool AnswerParser::read_field(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view name = line.substr(0, colon), value = trimmed(line.substr(colon + 1));
  if (equals_ignoring_case(name, "Content-Length")) return length_ < 0 && read_number(value, 10, length_);
  if (equals_ignoring_case(name, "Transfer-Encoding")) {
    is_chunked_ = equals_ignoring_case(value, "chunked");
    return is_chunked_;
  }
  if (equals_ignoring_case(name, "Connection")) keeps_alive_ = !equals_ignoring_case(value, "close");
  if (equals_ignoring_case(name, "Retry-After")) read_number(value, 10, retry_after_s_);
  return true;
}

void AnswerParser::begin_body() {
  state_ = State::body;
  if (body_ == Body::none || status_ == 204 || status_ == 304) {
    state_ = State::done;
  } else if (is_chunked_) {
    framing_ = Framing::chunk_size;
    if (length_ >= 0) state_ = State::failed;  // two statements of the length
  } else if (length_ >= 0) {
    framing_ = Framing::length;
    n_left_ = static_cast<uint64_t>(length_);
    if (length_ == 0) state_ = State::done;
  } else {
    framing_ = Framing::until_close;
    keeps_alive_ = false;
  }
}

size_t AnswerParser::feed_body(std::string_view bytes, std::string& body) {
  if (framing_ == Framing::until_close) {
    body += bytes;
    return bytes.size();
  }
  if (framing_ != Framing::length && framing_ != Framing::chunk) return feed_line(bytes);
  const auto n = static_cast<size_t>(std::min<uint64_t>(bytes.size(), n_left_));
  body += bytes.substr(0, n);
  n_left_ -= n;
  if (n_left_ > 0) return n;
  if (framing_ == Framing::length) {
    state_ = State::done;
  } else {
    framing_ = Framing::chunk_end;
  }
  return n;
}

/// Collects a line of the chunked coding in text_.
size_t AnswerParser::feed_line(std::string_view bytes) {
  const size_t newline = bytes.find('\n');
  const size_t n = newline == std::string_view::npos ? bytes.size() : newline + 1;
  text_ += bytes.substr(0, n);
  if (text_.size() > kMaxLineBytes) state_ = State::failed;
  if (newline != std::string_view::npos && state_ == State::body) end_line();
  return n;
}

void AnswerParser::end_line() {
  const std::string line = std::exchange(text_, {});
  if (!line.ends_with("\r\n")) {
    state_ = State::failed;
  } else if (framing_ == Framing::chunk_end) {
    framing_ = Framing::chunk_size;
    if (line.size() != 2) state_ = State::failed;
  } else if (framing_ == Framing::trailer) {
    if (line.size() == 2) state_ = State::done;
  } else {
    const std::string_view size = trimmed(std::string_view(line).substr(0, line.find_first_of(";\r")));
    if (!read_number(size, 16, n_left_)) state_ = State::failed;
    framing_ = n_left_ > 0 ? Framing::chunk : Framing::trailer;
  }
}

void AnswerParser::end_of_file() {
  const bool completes = state_ == State::done || (state_ == State::body && framing_ == Framing::until_close);
  state_ = completes ? State::done : State::failed;
}

bool EventSplitter::take_line() {
  std::string_view line = line_;
  if (line.ends_with('\r')) line.remove_suffix(1);
  const bool ends_event = line.empty() && has_data_;
  if (ends_event) {
    event_.swap(data_);
    data_.clear();
    has_data_ = false;
  } else if (line.starts_with("data:")) {
    line.remove_prefix(line.starts_with("data: ") ? 6 : 5);
    if (has_data_) data_ += '\n';
    data_ += line;
    has_data_ = true;
  } else if (line.starts_with(':')) {
    ++n_comments_;
  }
  line_.clear();
  return ends_event;
}

void EventSplitter::reset() { *this = {}; }

}  // namespace tessera::load
