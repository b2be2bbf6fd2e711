#include "tessera/server/http/transport.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

namespace tessera::server {
namespace {

constexpr size_t kMaxRecord = 16 << 10;  // of TLS

IoResult socket_result(ssize_t returned, IoResult::State wait) {
  using State = IoResult::State;
  if (returned > 0) return {State::done, static_cast<size_t>(returned)};
  if (returned == 0) return {State::end, 0};
  return {errno == EAGAIN || errno == EINTR ? wait : State::failed, 0};
}

}  // namespace

IoResult Transport::handshake() {
  if (!session_) return {IoResult::State::done, 0};
  return session_->handshake();
}

IoResult Transport::read(char* into, size_t n) {
  if (session_) return session_->read(into, n);
  return socket_result(::recv(descriptor_, into, n, 0), IoResult::State::wait_readable);
}

IoResult Transport::write(std::string_view a, std::string_view b) {
  if (session_) {
    // A record costs more than a copy: small parts share one. After a wait the same parts come again.
    if (a.empty()) return session_->write(b.data(), b.size());
    if (b.empty() || a.size() + b.size() > kMaxRecord) return session_->write(a.data(), a.size());
    char both[kMaxRecord];
    std::memcpy(both, a.data(), a.size());
    std::memcpy(both + a.size(), b.data(), b.size());
    return session_->write(both, a.size() + b.size());
  }
  iovec parts[2] = {{const_cast<char*>(a.data()), a.size()}, {const_cast<char*>(b.data()), b.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  return socket_result(::sendmsg(descriptor_, &message, MSG_NOSIGNAL), IoResult::State::wait_writable);
}

void Transport::end_writing() {
  if (session_) session_->close();
  ::shutdown(descriptor_, SHUT_WR);
}

}  // namespace tessera::server
