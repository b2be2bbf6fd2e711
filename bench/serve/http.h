// HTTP/1.1 as a client speaks it, without sockets: the text of a request, and incremental parsers of an answer and of
// the events of a stream. client.h feeds them with bytes in any pieces.
//
// The parsers accept what servers send in practice and fail on everything else. They never guess a body's end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::load {

/// One request. `raw` replaces the rest: its bytes are sent as they are.
struct Request {
  std::string method = "POST";
  std::string target;
  std::string body;
  std::string api_key;  // sent as a bearer token unless empty
  std::string source;   // local address to bind; empty: the system's choice
  std::string raw;
  bool fresh = false;             // opens a new connection even if one is idle
  int64_t read_bytes_per_s = -1;  // a slow reader: that many bytes, once a second; -1: reads at once
};

/// Returns the bytes of a request to `host` ("127.0.0.1:8080").
std::string request_text(const Request& request, std::string_view host);

/// Parses one answer. Feed it until it is done or failed; reset() prepares it for the next answer of the connection.
class AnswerParser {
 public:
  enum class State { head, body, done, failed };
  enum class Body { allowed, none };  // none: the answer to HEAD

  void reset(Body body = Body::allowed);
  /// Consumes bytes up to the end of the answer and appends the decoded body to `body`.
  ///   returns the number of bytes consumed: less than all when the answer is done or failed
  size_t feed(std::string_view bytes, std::string& body);
  /// Notes the end of the connection. It completes a body without stated length and fails any other.
  void end_of_file();

  State state() const { return state_; }
  int status() const { return status_; }
  /// Whether the connection may carry another request after this answer.
  bool keeps_alive() const { return keeps_alive_; }
  /// The value of Retry-After in seconds, or -1.
  int64_t retry_after_s() const { return retry_after_s_; }

 private:
  enum class Framing { length, chunk_size, chunk, chunk_end, trailer, until_close };

  void read_head();
  bool read_status_line(std::string_view line);
  bool read_field(std::string_view line);
  void begin_body();
  size_t feed_body(std::string_view bytes, std::string& body);
  size_t feed_line(std::string_view bytes);
  void end_line();

  State state_ = State::head;
  Body body_ = Body::allowed;
  Framing framing_ = Framing::length;
  int status_ = 0;
  bool keeps_alive_ = true;
  bool is_chunked_ = false;
  int64_t length_ = -1;  // Content-Length; -1: absent
  int64_t retry_after_s_ = -1;
  uint64_t n_left_ = 0;  // bytes of the body or chunk that have not come
  std::string text_;     // the head, or a line of the chunked coding, so far
};

/// Splits a text/event-stream body into the data of its events (WHATWG HTML, section 9.2).
class EventSplitter {
 public:
  /// Calls f(data) for each event that is complete; data of several lines are joined by newlines.
  template <class F>
  void feed(std::string_view bytes, F f) {
    while (!bytes.empty()) {
      const size_t end = bytes.find('\n');
      if (end == std::string_view::npos) break;
      line_.append(bytes.substr(0, end));
      bytes.remove_prefix(end + 1);
      if (take_line()) f(std::string_view(event_));
    }
    line_.append(bytes);
  }
  void reset();

  int64_t n_comments() const { return n_comments_; }

 private:
  /// Adds line_ to the event. Returns whether the line ends an event with data, which is then in event_.
  bool take_line();

  std::string line_, data_, event_;
  bool has_data_ = false;
  int64_t n_comments_ = 0;  // pings
};

}  // namespace tessera::load
