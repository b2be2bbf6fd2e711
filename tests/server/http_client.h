// A blocking HTTP client for tests, over TCP, TLS or a Unix socket. It sends any bytes and reads answers as they come,
// so that tests see what the server does to broken requests. Each wait ends after a minute.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::testing {

struct HttpReply {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> fields{};  // names in lower case
  std::string body{};                                         // decoded from chunks
  bool is_complete = false;                                   // false: the connection ended before its end

  /// The value of the first field of a name in lower case; "" without one.
  std::string field(std::string_view name) const;
  bool is_chunked() const { return field("transfer-encoding") == "chunked"; }
};

enum class ClientTls { off, on };  // on: any certificate is accepted

class HttpClient {
 public:
  /// Connects to 127.0.0.1. is_open() is false after a failure.
  static HttpClient connect(uint16_t port, ClientTls tls = ClientTls::off);
  static HttpClient connect_unix(const std::string& path);
  HttpClient(HttpClient&& other) noexcept;
  HttpClient& operator=(HttpClient&& other) noexcept;
  ~HttpClient();

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  /// The version of TLS in use, "TLSv1.3".
  std::string tls_version() const;

  /// Sends all bytes; false if the server has closed the connection.
  bool send(std::string_view bytes);
  /// Sends GET, with fields such as "Origin: http://a\r\n".
  bool get(std::string_view path, std::string_view fields = "");
  bool post(std::string_view path, std::string_view body, std::string_view fields = "");

  /// Reads one answer with its whole body. Status 0: the connection ended, or nothing came in time.
  HttpReply read_answer();
  /// Reads an answer to HEAD, which has no body.
  HttpReply read_head();

  /// Streams: read_head(), then the pieces. A piece is the data of a chunk, or all that has come of a body without
  /// chunks. Nothing at the end of the stream.
  std::optional<std::string> read_piece(const HttpReply& head);

  /// Reads up to n bytes, as the socket has them; "" at the end.
  std::string read_some(size_t n = 1 << 16);
  /// Reads up to the end of the connection.
  std::string read_all();
  /// Waits for the end of the connection; false if bytes come before, or nothing in time.
  bool wait_for_end();

  /// Ends the client's side; answers may still be read.
  void end_sending();
  void close();
  /// Closes with a reset.
  void reset();

 private:
  explicit HttpClient(int descriptor) : descriptor_(descriptor) {}
  bool fill();
  std::optional<std::string> take_line();
  std::optional<std::string> take_bytes(size_t n);
  HttpReply read_body(HttpReply head);

  int descriptor_ = -1;
  SSL_CTX* tls_context_ = nullptr;
  SSL* tls_ = nullptr;
  std::string buffer_{};
  bool is_at_end_ = false;
};

namespace http_detail {

inline constexpr int kClientSeconds = 60;

inline int open_client_socket(int family) {
  const int descriptor = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval limit{.tv_sec = kClientSeconds, .tv_usec = 0};
  ::setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  const int on = 1;
  if (family == AF_INET) ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return descriptor;
}

inline std::string lower_ascii(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace http_detail

inline std::string HttpReply::field(std::string_view name) const {
  for (const auto& [key, value] : fields)
    if (key == name) return value;
  return "";
}

inline HttpClient HttpClient::connect(uint16_t port, ClientTls tls) {
  HttpClient client(http_detail::open_client_socket(AF_INET));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(client.descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) client.close();
  if (tls == ClientTls::off || !client.is_open()) return client;
  client.tls_context_ = SSL_CTX_new(TLS_client_method());
  client.tls_ = SSL_new(client.tls_context_);
  SSL_set_fd(client.tls_, client.descriptor_);
  if (SSL_connect(client.tls_) != 1) client.close();
  return client;
}

inline HttpClient HttpClient::connect_unix(const std::string& path) {
  HttpClient client(http_detail::open_client_socket(AF_UNIX));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  if (::connect(client.descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) client.close();
  return client;
}

inline HttpClient::HttpClient(HttpClient&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      tls_context_(std::exchange(other.tls_context_, nullptr)),
      tls_(std::exchange(other.tls_, nullptr)),
      buffer_(std::move(other.buffer_)),
      is_at_end_(other.is_at_end_) {}

inline HttpClient& HttpClient::operator=(HttpClient&& other) noexcept {
  close();
  descriptor_ = std::exchange(other.descriptor_, -1);
  tls_context_ = std::exchange(other.tls_context_, nullptr);
  tls_ = std::exchange(other.tls_, nullptr);
  buffer_ = std::move(other.buffer_);
  is_at_end_ = other.is_at_end_;
  return *this;
}

inline HttpClient::~HttpClient() { close(); }

inline void HttpClient::close() {
  if (tls_ != nullptr) SSL_free(std::exchange(tls_, nullptr));
  if (tls_context_ != nullptr) SSL_CTX_free(std::exchange(tls_context_, nullptr));
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

inline void HttpClient::reset() {
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close();
}

inline void HttpClient::end_sending() { ::shutdown(descriptor_, SHUT_WR); }

inline std::string HttpClient::tls_version() const { return tls_ != nullptr ? SSL_get_version(tls_) : ""; }

inline bool HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    errno = 0;
    const ssize_t n = tls_ != nullptr ? SSL_write(tls_, bytes.data(), static_cast<int>(bytes.size()))
                                      : ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

inline bool HttpClient::get(std::string_view path, std::string_view fields) {
  return send(
      std::string("GET ").append(path).append(" HTTP/1.1\r\nHost: localhost\r\n").append(fields).append("\r\n"));
}

inline bool HttpClient::post(std::string_view path, std::string_view body, std::string_view fields) {
  std::string request = std::string("POST ").append(path).append(" HTTP/1.1\r\nHost: localhost\r\n");
  request.append(fields).append("Content-Length: ").append(std::to_string(body.size())).append("\r\n\r\n");
  return send(request.append(body));
}

inline bool HttpClient::fill() {
  if (is_at_end_) return false;
  char bytes[1 << 14];
  ssize_t n;
  do {  // a timer of the process, such as libFuzzer's, may interrupt it
    errno = 0;
    n = tls_ != nullptr ? SSL_read(tls_, bytes, sizeof bytes) : ::recv(descriptor_, bytes, sizeof bytes, 0);
  } while (n < 0 && errno == EINTR);
  if (n <= 0) {
    is_at_end_ = true;
    return false;
  }
  buffer_.append(bytes, static_cast<size_t>(n));
  return true;
}

inline std::string HttpClient::read_some(size_t n) {
  if (buffer_.empty()) fill();
  const std::string bytes = buffer_.substr(0, n);
  buffer_.erase(0, n);
  return bytes;
}

inline std::string HttpClient::read_all() {
  while (fill()) {
  }
  return std::exchange(buffer_, {});
}

inline bool HttpClient::wait_for_end() {
  if (!buffer_.empty()) return false;
  errno = 0;
  return !fill() && errno != EAGAIN;
}

inline std::optional<std::string> HttpClient::take_line() {
  size_t end;
  while ((end = buffer_.find("\r\n")) == std::string::npos)
    if (!fill()) return std::nullopt;
  const std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return line;
}

inline std::optional<std::string> HttpClient::take_bytes(size_t n) {
  while (buffer_.size() < n)
    if (!fill()) return std::nullopt;
  const std::string bytes = buffer_.substr(0, n);
  buffer_.erase(0, n);
  return bytes;
}

inline HttpReply HttpClient::read_head() {
  HttpReply reply;
  const auto status = take_line();
  if (!status || status->size() < 12 || !status->starts_with("HTTP/1.1 ")) return reply;
  for (auto line = take_line(); line; line = take_line()) {
    if (line->empty()) {
      reply.status = std::atoi(status->c_str() + 9);
      reply.is_complete = true;
      return reply;
    }
    const size_t colon = line->find(": ");
    if (colon == std::string::npos) return reply;
    reply.fields.emplace_back(http_detail::lower_ascii(line->substr(0, colon)), line->substr(colon + 2));
  }
  return reply;
}

inline std::optional<std::string> HttpClient::read_piece(const HttpReply& head) {
  if (!head.is_chunked()) {
    std::string piece = read_some();
    if (piece.empty()) return std::nullopt;
    return piece;
  }
  const auto size = take_line();
  if (!size) return std::nullopt;
  const auto piece = take_bytes(std::strtoull(size->c_str(), nullptr, 16) + 2);
  if (!piece || piece->size() == 2) return std::nullopt;
  return piece->substr(0, piece->size() - 2);
}

inline HttpReply HttpClient::read_body(HttpReply reply) {
  if (reply.status == 0 || reply.status == 100 || reply.status == 204 || reply.status == 304) return reply;
  if (reply.is_chunked() || reply.field("content-length").empty()) {
    while (const auto piece = read_piece(reply)) reply.body += *piece;
    reply.is_complete = reply.is_chunked() ? !is_at_end_ : true;
    return reply;
  }
  const auto body = take_bytes(std::strtoull(reply.field("content-length").c_str(), nullptr, 10));
  reply.is_complete = body.has_value();
  reply.body = body.value_or("");
  return reply;
}

inline HttpReply HttpClient::read_answer() { return read_body(read_head()); }

}  // namespace tessera::testing
