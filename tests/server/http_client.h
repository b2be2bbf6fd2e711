// A blocking HTTP client for tests, over TCP, TLS or a Unix socket. It sends any bytes and reads answers as they come,
// so that tests see what the server does to broken requests. Each wait ends after a minute.
#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>
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

}  // namespace tessera::testing
