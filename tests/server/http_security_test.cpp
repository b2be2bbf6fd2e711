// Access to the HTTP server: checks at its start, keys, hosts, origins, TLS and Unix sockets.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/http_server_fixture.h"

namespace tessera::testing {
namespace {

using server::HttpOptions;
using server::HttpServer;

class HttpSecurity : public HttpServerTest {
 protected:
  int status_of(const std::string& line, const std::string& fields) {
    return answer_to(line + " HTTP/1.1\r\n" + fields + "\r\n").status;
  }
};

std::string key_file_with(const std::string& name, const std::string& text) {
  const std::string path = write_temporary(name, text);
  ::chmod(path.c_str(), 0600);
  return path;
}

// Writes a self-signed certificate and its key; returns their paths.
std::pair<std::string, std::string> make_certificate(const std::string& name) {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* subject = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"), -1, -1,
                             0);
  X509_set_issuer_name(certificate, subject);
  X509_sign(certificate, key, EVP_sha256());
  std::pair<std::string, std::string> paths(temporary_path(name + ".key"), temporary_path(name + ".crt"));
  std::FILE* file = std::fopen(paths.first.c_str(), "w");
  PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
  file = std::fopen(paths.second.c_str(), "w");
  PEM_write_X509(file, certificate);
  std::fclose(file);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return paths;
}

HttpOptions tls_options(const std::string& name) {
  HttpOptions options;
  std::tie(options.tls_key_file, options.tls_certificate_file) = make_certificate(name);
  return options;
}

Result<std::unique_ptr<HttpServer>> start_with(HttpOptions options) {
  options.port = 0;
  return HttpServer::start(std::move(options), {});
}

TEST(HttpStart, OtherAddressesWantAKey) {
  for (const std::string host : {"0.0.0.0", "::", "192.0.2.1"}) {
    const auto started = start_with({.hosts = {"127.0.0.1", host}});
    ASSERT_FALSE(started) << host;
    EXPECT_EQ(started.error().code(), ErrorCode::invalid_argument);
    for (const std::string_view flag : {"--host", "--api-key", "--insecure"})
      EXPECT_NE(started.error().message().find(flag), std::string::npos) << started.error().message();
  }
  EXPECT_OK(start_with({.hosts = {"0.0.0.0"}, .api_keys = {"k"}}));
  EXPECT_OK(start_with({.hosts = {"0.0.0.0"}, .insecure = true}));
}

TEST(HttpStart, RefusesBadOptions) {
  EXPECT_ERROR(start_with({.hosts = {}}), "--host");
  EXPECT_ERROR(start_with({.hosts = {""}}), "--host");
  EXPECT_ERROR(start_with({.hosts = {"no such host"}}), "--host no such host");
  EXPECT_ERROR(start_with({.api_prefix = "api"}), "--api-prefix");
  EXPECT_ERROR(start_with({.api_prefix = "/api/"}), "--api-prefix");
  EXPECT_ERROR(start_with({.n_threads = 0}), "--threads-http");
  EXPECT_ERROR(start_with({.n_threads = 65}), "--threads-http");
  EXPECT_ERROR(start_with({.api_keys = {"a", ""}}), "--api-key 2");
  EXPECT_ERROR(start_with({.api_key_file = "/absent/keys"}), "--api-key-file: /absent/keys");
  EXPECT_ERROR(start_with({.tls_key_file = "/absent/key"}), "--ssl-cert-file");
  EXPECT_ERROR(start_with({.tls_key_file = "/absent/key", .tls_certificate_file = "/absent/crt"}),
               "--ssl-cert-file /absent/crt");
  EXPECT_ERROR(start_with({.limits = {.n_connections = 0}}), "--max-connections");
}

TEST(HttpStart, RefusesAPortInUse) {
  const auto first = start_with({});
  ASSERT_OK(first);
  HttpOptions options;
  options.port = (*first)->port();
  const auto second = HttpServer::start(options, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), ErrorCode::io);
  EXPECT_NE(second.error().message().find(std::to_string(options.port)), std::string::npos);
}

TEST(HttpStart, ListensToSeveralAddresses) {
  const std::string path = temporary_path("many.sock");
  const auto server = start_with({.hosts = {"127.0.0.1", "127.0.0.2", path}});
  ASSERT_OK(server);
  const std::string port = std::to_string((*server)->port());
  EXPECT_EQ((*server)->addresses(),
            (std::vector<std::string>{"http://127.0.0.1:" + port, "http://127.0.0.2:" + port, "unix:" + path}));
}

TEST_F(HttpSecurity, WantsAKey) {
  HttpOptions options;
  options.api_keys = {"key-a", "key-b"};
  start(std::move(options));
  const std::string host = "Host: anything\r\n";
  EXPECT_EQ(status_of("GET /health", host), 200);
  HttpClient client = connect();
  ASSERT_TRUE(client.post("/echo", "body"));
  const auto reply = client.read_answer();
  EXPECT_EQ(reply.status, 401);
  EXPECT_EQ(reply.body, R"({"error":{"code":401,"message":"Invalid API Key","type":"authentication_error"}})");
  EXPECT_EQ(reply.field("www-authenticate"), "Bearer");
  EXPECT_TRUE(client.wait_for_end());
  EXPECT_EQ(status_of("GET /none", host), 401);
  EXPECT_EQ(status_of("GET /none", host + "X-Api-Key: key-a\r\n"), 404);
  EXPECT_EQ(status_of("POST /echo", host + "Authorization: Bearer key-b\r\n"), 200);
  EXPECT_EQ(status_of("POST /echo", host + "Authorization: Bearer key-c\r\n"), 401);
  EXPECT_EQ(status_of("OPTIONS /echo", host), 200);
}

TEST_F(HttpSecurity, NamesTheClient) {
  HttpOptions options;
  options.api_keys = {"k"};
  options.api_key_file = key_file_with("client_keys", "k2 name=ann best=2\n");
  start(std::move(options));
  const auto client_of = [&](const std::string& fields) {
    return answer_to("GET /client HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n").body;
  };
  EXPECT_EQ(client_of("Authorization: Bearer k\r\n"), "key-1 -10 key here");
  EXPECT_EQ(client_of("Authorization: Bearer k2\r\n"), "ann 2 key here");
  EXPECT_EQ(client_of("Authorization: Bearer k3\r\n"), "127.0.0.1 0 here");
}

TEST_F(HttpSecurity, ReadsKeysAgain) {
  HttpOptions options;
  options.api_key_file = key_file_with("reload_keys", "old\n");
  const std::string path = options.api_key_file;
  start(std::move(options));
  const auto status = [&](const std::string& key) {
    return status_of("POST /echo", "Host: localhost\r\nX-Api-Key: " + key + "\r\n");
  };
  EXPECT_EQ(status("old"), 200);
  key_file_with("reload_keys", "new best=99\n");
  EXPECT_ERROR(server_->reload(), "line 1");
  EXPECT_EQ(status("old"), 200);
  key_file_with("reload_keys", "new\n");
  ASSERT_OK(server_->reload());
  EXPECT_EQ(status("old"), 401);
  EXPECT_EQ(status("new"), 200);
  ::unlink(path.c_str());
  EXPECT_FALSE(server_->reload());
  EXPECT_EQ(status("new"), 200);
}

TEST_F(HttpSecurity, RefusesForeignHosts) {
  HttpOptions options;
  options.allowed_hosts = {"my.host"};
  start(std::move(options));
  EXPECT_EQ(status_of("GET /health", "Host: evil.com\r\n"), 403);
  EXPECT_EQ(status_of("GET /health", "Host: my.host:99\r\n"), 200);
  EXPECT_EQ(status_of("GET /health", "Host: [::1]:8080\r\n"), 200);
}

TEST_F(HttpSecurity, RefusesForeignOrigins) {
  start();
  const std::string host = "Host: localhost\r\n";
  EXPECT_EQ(status_of("GET /health", host + "Origin: http://evil.com\r\n"), 403);
  EXPECT_EQ(status_of("POST /echo", host + "Origin: null\r\n"), 403);
  EXPECT_EQ(status_of("GET /health", host + "Sec-Fetch-Site: cross-site\r\n"), 403);
  EXPECT_EQ(status_of("GET /health", host + "Origin: http://localhost:3000\r\n"), 200);
  const auto reply = answer_to("OPTIONS /echo HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.com\r\n\r\n");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.field("access-control-allow-origin"), "");
  EXPECT_EQ(reply.field("access-control-allow-methods"), "GET, POST, DELETE, OPTIONS");
  EXPECT_EQ(reply.field("allow"), "POST, OPTIONS");
}

TEST_F(HttpSecurity, WithKeysEveryOriginIsAllowed) {
  HttpOptions options;
  options.api_keys = {"k"};
  start(std::move(options));
  const auto reply = answer_to("POST /echo HTTP/1.1\r\nHost: h\r\nOrigin: https://a.com\r\nX-Api-Key: k\r\n\r\n");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.field("access-control-allow-origin"), "https://a.com");
  EXPECT_EQ(reply.field("access-control-allow-credentials"), "true");
  const auto refused = answer_to("POST /echo HTTP/1.1\r\nHost: h\r\nOrigin: https://a.com\r\n\r\n");
  EXPECT_EQ(refused.status, 401);  // and a page may read why
  EXPECT_EQ(refused.field("access-control-allow-origin"), "https://a.com");
}

TEST_F(HttpSecurity, RoutesAreBelowThePrefix) {
  HttpOptions options;
  options.api_prefix = "/api";
  start(std::move(options));
  EXPECT_EQ(status_of("GET /api/health", "Host: localhost\r\n"), 200);
  for (const std::string path : {"/health", "/apihealth", "/api", "/api/api/health"})
    EXPECT_EQ(status_of("GET " + path, "Host: localhost\r\n"), 404) << path;
  EXPECT_EQ(finished()[0].path, "/health");
}

TEST_F(HttpSecurity, GivesEachRequestAnId) {
  start();
  const auto id_of = [&](const std::string& given) {
    return answer_to("GET /health HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: " + given + "\r\n\r\n")
        .field("request-id");
  };
  EXPECT_EQ(id_of("my-id.1"), "my-id.1");
  const std::string first = id_of("not an id"), second = id_of(std::string(65, 'a'));
  EXPECT_TRUE(first.starts_with("req_")) << first;
  EXPECT_NE(first, second);
}

TEST_F(HttpSecurity, SpeaksTls) {
  start(tls_options("plain"));
  EXPECT_TRUE(server_->addresses()[0].starts_with("https://"));
  HttpClient client = HttpClient::connect(server_->port(), ClientTls::on);
  ASSERT_TRUE(client.is_open());
  EXPECT_EQ(client.tls_version(), "TLSv1.3");
  std::string body(3 << 20, 'x');
  ASSERT_TRUE(client.post("/echo", body));
  EXPECT_TRUE(client.read_answer().body == body);
  ASSERT_TRUE(client.get("/hold"));
  const auto exchange = next_exchange();
  exchange->begin_stream({.body = "a"});
  const auto head = client.read_head();
  EXPECT_EQ(client.read_piece(head), "a");
  for (int i = 0; i < 100; ++i) {
    exchange->write(std::to_string(i));
    ASSERT_EQ(client.read_piece(head), std::to_string(i));
  }
  client.close();
  EXPECT_TRUE(wait_until([&] { return exchange->is_gone(); }));
}

TEST_F(HttpSecurity, PlainBytesToTlsEndTheConnection) {
  start(tls_options("strict"));
  HttpClient client = connect();
  ASSERT_TRUE(client.get("/health"));
  EXPECT_EQ(client.read_answer().status, 0);
}

TEST_F(HttpSecurity, AHandshakeHasATime) {
  HttpOptions options = tls_options("slow");
  options.limits.head_ms = 150;
  start(std::move(options));
  HttpClient client = connect();
  EXPECT_TRUE(client.wait_for_end());
}

TEST_F(HttpSecurity, ReadsCertificatesAgain) {
  HttpOptions options = tls_options("renewed");
  const std::string path = options.tls_certificate_file;
  start(std::move(options));
  HttpClient before = HttpClient::connect(server_->port(), ClientTls::on);
  write_temporary("renewed.crt", "no certificate");
  EXPECT_ERROR(server_->reload(), path);
  ASSERT_TRUE(HttpClient::connect(server_->port(), ClientTls::on).is_open());
  make_certificate("renewed");
  ASSERT_OK(server_->reload());
  EXPECT_TRUE(HttpClient::connect(server_->port(), ClientTls::on).is_open());
  ASSERT_TRUE(before.get("/health"));  // an open connection keeps its certificate
  EXPECT_EQ(before.read_answer().status, 200);
}

TEST_F(HttpSecurity, ServesAUnixSocketOfItsOwnerOnly) {
  const std::string path = temporary_path("server.sock");
  HttpOptions options;
  options.hosts = {path};
  start(std::move(options));
  EXPECT_EQ(server_->addresses(), std::vector<std::string>{"unix:" + path});
  EXPECT_EQ(server_->port(), 0);
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  HttpClient client = HttpClient::connect_unix(path);
  ASSERT_TRUE(client.send("GET /client HTTP/1.1\r\nHost: any.name\r\n\r\n"));
  EXPECT_EQ(client.read_answer().body, "unix 0 here");
  server_->stop();
  EXPECT_NE(::stat(path.c_str(), &status), 0);  // removed
}

TEST_F(HttpSecurity, ReplacesOnlyAStaleSocket) {
  const std::string path = temporary_path("stale.sock");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(descriptor, 1), 0);
  HttpOptions options;
  options.hosts = {path};
  EXPECT_ERROR(start_with(options), "another server answers");
  ::close(descriptor);  // its file stays
  start(options);
  HttpClient client = HttpClient::connect_unix(path);
  ASSERT_TRUE(client.get("/health"));
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST(HttpStart, KeepsFilesThatAreNoSockets) {
  const std::string path = write_temporary("file.sock", "precious");
  EXPECT_ERROR(start_with({.hosts = {path}}), "not a socket");
  EXPECT_EQ(read_all(path), "precious");
  EXPECT_ERROR(start_with({.hosts = {"/" + std::string(200, 'a') + ".sock"}}), "limit 107");
}

}  // namespace
}  // namespace tessera::testing
