// A server of HTTP on loopback that answers what a test writes, byte by byte: for answers that no honest hub gives.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/testing.h"

namespace tessera::hub {

class ScriptedServer {
 public:
  /// Returns the bytes of an answer. The connection is closed after them, or stays open if they end with kHang.
  using Handler = std::function<std::string(const std::string& request)>;
  static constexpr std::string_view kHang = "<hang>";

  explicit ScriptedServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;
  ~ScriptedServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
    for (const int open : open_) ::close(open);
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  /// First lines of the requests.
  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void serve() {
    while (true) {
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) return;
      std::string request(8192, '\0');
      size_t n = 0;
      while (n < request.size() && request.find("\r\n\r\n") == std::string::npos) {
        const ssize_t got = ::recv(connection, request.data() + n, request.size() - n, 0);
        if (got <= 0) break;
        n += static_cast<size_t>(got);
      }
      request.resize(n);
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request.substr(0, request.find("\r\n")));
      }
      std::string answer = handler_(request);
      const bool hangs = answer.ends_with(kHang);
      if (hangs) answer.resize(answer.size() - kHang.size());
      for (size_t sent = 0; sent < answer.size();) {
        const ssize_t now = ::send(connection, answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
        if (now <= 0) break;
        sent += static_cast<size_t>(now);
      }
      if (hangs)
        open_.push_back(connection);
      else
        ::close(connection);
    }
  }

  Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  std::mutex mutex_;
  std::vector<std::string> requests_;
  std::vector<int> open_;
  std::thread thread_;
};

/// An answer with a body and its length. fields: "A: b\r\n".
inline std::string answer_of(const std::string& status, const std::string& body, const std::string& fields = "") {
  return "HTTP/1.1 " + status + "\r\n" + fields + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace tessera::hub
