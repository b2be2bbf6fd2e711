#include "tessera/server/http/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <memory>
#include <string_view>
#include <utility>

namespace tessera::server {
namespace {

constexpr unsigned char kAlpnHttp11[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

int choose_http11(SSL*, const unsigned char** out, unsigned char* n_out, const unsigned char* offered,
                  unsigned n_offered, void*) {
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, n_out, kAlpnHttp11, sizeof kAlpnHttp11, offered, n_offered) !=
      OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_NOACK;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

// Without this, OpenSSL asks for the password of an encrypted key on the terminal.
int refuse_password(char*, int, int, void*) { return -1; }

std::string tls_error_text() {
  const unsigned long code = ERR_get_error();
  const char* reason = code != 0 ? ERR_reason_error_string(code) : nullptr;
  ERR_clear_error();
  return reason != nullptr ? reason : "unusable";
}

Result<> load_files(SSL_CTX* context, const std::string& key_file, const std::string& certificate_file) {
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(context, certificate_file.c_str()) != 1)
    return fail(ErrorCode::io, "--ssl-cert-file {}: {}", certificate_file, tls_error_text());
  if (SSL_CTX_use_PrivateKey_file(context, key_file.c_str(), SSL_FILETYPE_PEM) != 1)
    return fail(ErrorCode::io, "--ssl-key-file {}: {}", key_file, tls_error_text());
  if (SSL_CTX_check_private_key(context) != 1)
    return fail(ErrorCode::io, "--ssl-key-file {}: {}", key_file, tls_error_text());
  return {};
}

// The socket under OpenSSL. OpenSSL's own uses write(), which raises SIGPIPE.
int write_socket(BIO* bio, const char* bytes, int n) {
  BIO_clear_retry_flags(bio);
  const int descriptor = static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio)));
  const ssize_t sent = ::send(descriptor, bytes, static_cast<size_t>(n), MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int read_socket(BIO* bio, char* into, int n) {
  BIO_clear_retry_flags(bio);
  const int descriptor = static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio)));
  const ssize_t got = ::recv(descriptor, into, static_cast<size_t>(n), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

long control_socket(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

// One table for the process, which lives until its end.
const BIO_METHOD* socket_methods() {
  static const BIO_METHOD* const methods = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tessera socket");
    if (made == nullptr) return made;
    BIO_meth_set_write(made, write_socket);
    BIO_meth_set_read(made, read_socket);
    BIO_meth_set_ctrl(made, control_socket);
    return made;
  }();
  return methods;
}

SSL* as_ssl(void* session) { return static_cast<SSL*>(session); }

}  // namespace

Result<std::shared_ptr<TlsContext>> TlsContext::load(const std::string& key_file, const std::string& certificate_file) {
  SSL_CTX* made = SSL_CTX_new(TLS_server_method());
  if (made == nullptr) return fail(ErrorCode::io, "TLS: {}", tls_error_text());
  std::shared_ptr<TlsContext> context(new TlsContext(made));
  SSL_CTX_set_min_proto_version(made, TLS1_2_VERSION);
  SSL_CTX_set_options(made, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(made,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);  // tickets resume sessions without memory here
  SSL_CTX_set_alpn_select_cb(made, choose_http11, nullptr);
  SSL_CTX_set_default_passwd_cb(made, refuse_password);
  TESSERA_TRY(load_files(made, key_file, certificate_file));
  return context;
}

TlsContext::~TlsContext() { SSL_CTX_free(static_cast<SSL_CTX*>(context_)); }

Result<std::unique_ptr<TlsSession>> TlsSession::create(std::shared_ptr<const TlsContext> context, int descriptor) {
  SSL* session = SSL_new(static_cast<SSL_CTX*>(context->context_));
  if (session == nullptr) return fail(ErrorCode::io, "TLS: {}", tls_error_text());
  std::unique_ptr<TlsSession> made(new TlsSession(std::move(context), session));
  const BIO_METHOD* methods = socket_methods();
  BIO* bio = methods != nullptr ? BIO_new(methods) : nullptr;
  if (bio == nullptr) return fail(ErrorCode::io, "TLS: {}", tls_error_text());
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)));
  BIO_set_init(bio, 1);
  SSL_set_bio(session, bio, bio);
  SSL_set_accept_state(session);
  return made;
}

TlsSession::~TlsSession() { SSL_free(as_ssl(session_)); }

IoResult TlsSession::result_of(int returned) {
  using State = IoResult::State;
  if (returned > 0) return {State::done, static_cast<size_t>(returned)};
  switch (SSL_get_error(as_ssl(session_), returned)) {
    case SSL_ERROR_WANT_READ:
      return {State::wait_readable, 0};
    case SSL_ERROR_WANT_WRITE:
      return {State::wait_writable, 0};
    case SSL_ERROR_ZERO_RETURN:
      return {State::end, 0};
    default:
      has_failed_ = true;
      ERR_clear_error();
      return {State::failed, 0};
  }
}

IoResult TlsSession::handshake() {
  ERR_clear_error();
  const IoResult result = result_of(SSL_do_handshake(as_ssl(session_)));
  is_ready_ |= result.state == IoResult::State::done;
  return result;
}

IoResult TlsSession::read(char* into, size_t n) {
  ERR_clear_error();
  return result_of(SSL_read(as_ssl(session_), into, static_cast<int>(std::min<size_t>(n, INT_MAX))));
}

IoResult TlsSession::write(const char* from, size_t n) {
  ERR_clear_error();
  return result_of(SSL_write(as_ssl(session_), from, static_cast<int>(std::min<size_t>(n, INT_MAX))));
}

bool TlsSession::has_pending() const { return SSL_pending(as_ssl(session_)) > 0; }

void TlsSession::close() {
  if (!is_ready_ || has_failed_) return;
  has_failed_ = true;
  ERR_clear_error();
  SSL_shutdown(as_ssl(session_));
}

}  // namespace tessera::server
