// TLS by OpenSSL over a socket that does not block. A context holds the certificate; a reload makes a new context,
// which later connections use.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "tessera/base/result.h"

namespace tessera::server {

/// The outcome of a read, write or handshake on a socket.
struct IoResult {
  enum class State { done, wait_readable, wait_writable, end, failed };
  State state = State::failed;
  size_t n = 0;  // bytes, if done
};

class TlsContext {
 public:
  /// Reads PEM files. Error: io with the name of the file that is unusable.
  static Result<std::shared_ptr<TlsContext>> load(const std::string& key_file, const std::string& certificate_file);
  ~TlsContext();

 private:
  friend class TlsSession;
  explicit TlsContext(void* context) : context_(context) {}
  void* context_;  // SSL_CTX
};

class TlsSession {
 public:
  /// Error: io (no memory).
  static Result<std::unique_ptr<TlsSession>> create(std::shared_ptr<const TlsContext> context, int descriptor);
  ~TlsSession();

  IoResult handshake();
  IoResult read(char* into, size_t n);
  /// After wait_writable or wait_readable the same bytes must be written again.
  IoResult write(const char* from, size_t n);
  /// Whether decrypted bytes wait in memory, for which the socket does not become readable.
  bool has_pending() const;
  /// Sends the end of the session once, without waiting for that of the client.
  void close();

 private:
  TlsSession(std::shared_ptr<const TlsContext> context, void* session)
      : context_(std::move(context)), session_(session) {}
  IoResult result_of(int returned);

  std::shared_ptr<const TlsContext> context_;
  void* session_;  // SSL
  bool is_ready_ = false, has_failed_ = false;
};

}  // namespace tessera::server
