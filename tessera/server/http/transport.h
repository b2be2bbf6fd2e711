// The bytes of a connection: a socket that does not block, plain or under TLS.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "tessera/server/http/tls.h"

namespace tessera::server {

class Transport {
 public:
  /// The descriptor stays the caller's. Without a session the bytes are plain.
  Transport(int descriptor, std::unique_ptr<TlsSession> session)
      : descriptor_(descriptor), session_(std::move(session)) {}

  /// Done at once for a plain socket.
  IoResult handshake();
  IoResult read(char* into, size_t n);
  /// Writes the beginning of a and b, in one call of the system if the socket is plain.
  IoResult write(std::string_view a, std::string_view b);
  bool has_pending() const { return session_ && session_->has_pending(); }
  bool is_tls() const { return session_ != nullptr; }
  /// Sends the end of the stream; reads may go on.
  void end_writing();

 private:
  int descriptor_;
  std::unique_ptr<TlsSession> session_;
};

}  // namespace tessera::server
