// Heads of requests: the bytes up to the blank line are collected, checked and parsed here. Pure code over bytes, which
// a connection, tests and a fuzzer call.
//
// This is a complete parser instead of a check before Beast's: two parsers of one head may disagree, and the
// disagreement of two parsers is what request smuggling lives on. It also needs no buffer per idle connection.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/server/http/message.h"

namespace tessera::server {

struct HeadLimits {
  size_t head_bytes = 16 << 10;
  size_t n_fields = 100;
  size_t target_bytes = 8 << 10;
};

/// A refused head. The target is as far as it was read.
struct HeadError {
  int status = 400;
  std::string message{};
  std::string target{};
};

struct RequestHead {
  std::string method{};
  std::string path{};  // percent-decoded
  std::vector<HttpField> query{};
  std::vector<HttpField> fields{};  // names in lower case
  std::string host{};               // the value of Host
  int minor_version = 1;            // HTTP/1.0 or HTTP/1.1
  bool is_chunked = false;
  uint64_t content_length = 0;
  bool keeps_alive = true;
  bool expects_continue = false;

  bool has_body() const { return is_chunked || content_length > 0; }
};

/// Parses a head that ends with its blank line. Refuses all that section 2.2 of the rules refuses (docs/serving.md):
/// 400, 414 (target), 415 (Content-Encoding), 417 (Expect), 431 (bytes, fields).
std::expected<RequestHead, HeadError> parse_head(std::string_view bytes, const HeadLimits& limits);

/// Collects a head from pieces of any size. A byte that no head may hold, and a limit that is passed, are found at
/// once.
class HeadReader {
 public:
  explicit HeadReader(const HeadLimits& limits) : limits_(limits) {}

  /// Takes bytes up to the end of the head, or up to the first error, and returns their number.
  size_t push(std::string_view bytes);

  bool has_begun() const { return !bytes_.empty() || skipped_ > 0 || error_.has_value(); }
  bool is_complete() const { return is_complete_; }
  const std::optional<HeadError>& error() const { return error_; }

  /// Parses the complete head and begins with the next one.
  std::expected<RequestHead, HeadError> take();
  void reset();

 private:
  void fail(int status, std::string message);
  void accept(char c);
  void check_limits();

  HeadLimits limits_;
  std::string bytes_{};
  size_t line_bytes_ = 0;  // of the present line so far
  size_t n_lines_ = 0;     // complete ones
  int skipped_ = 0;        // bytes of an empty line before the head
  bool is_complete_ = false;
  std::optional<HeadError> error_{};
};

/// Whether a text is a token of RFC 9110, such as a method or the name of a field.
bool is_http_token(std::string_view text);
bool equal_ignoring_case(std::string_view a, std::string_view b);
std::string_view trim_blanks(std::string_view text);

/// Splits a list of comma-separated values; blanks around them and empty ones are left out.
std::vector<std::string_view> split_list(std::string_view text);

}  // namespace tessera::server
