// The plan of a server's own memory, compared with what it allocates.
#include "tessera/server/server_memory.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include "tests/server/api_support.h"

namespace tessera {
namespace {

using namespace testing;
using server::server_memory;

TEST(ServerMemory, FollowsTheOptions) {
  server::ServerOptions options;
  const auto usual = server_memory(options, {});
  EXPECT_EQ(usual.http, size_t{256} << 20);
  EXPECT_EQ(usual.queue, size_t{4 << 20} * 2 * sizeof(int32_t));
  EXPECT_EQ(usual.total(), usual.http + usual.connections + usual.queue + usual.responses + usual.grammars);
  options.http.limits.held_bytes = 1000;
  options.http.limits.n_connections = 16;
  options.api.stored_response_bytes = 0;
  const auto small = server_memory(options, {.n_tokens = 100});
  EXPECT_EQ(small.http, 1000u);
  EXPECT_EQ(small.connections * 512, usual.connections);
  EXPECT_EQ(small.responses, 0u);
  EXPECT_EQ(small.queue, 800u);
  options.http.tls_certificate_file = "cert.pem";
  EXPECT_GT(server_memory(options, {}).connections, small.connections);
}

TEST(ServerMemory, OfConnectionsIsThatOfEachAndOfTheirHeads) {
  server::ServerOptions options;
  options.http.limits.n_connections = 400;
  options.http.limits.head_bytes = 1000;
  EXPECT_EQ(server_memory(options, {}).connections, 400u * 1024 + 100u * 1000);
  options.http.tls_certificate_file = "cert.pem";
  EXPECT_EQ(server_memory(options, {}).connections, 400u * (1024 + 48 * 1024) + 100u * 1000);
}

class AllocatedByTheServer : public ApiTest {};

// The client's side of the connections is counted as well, so this is above what the server takes.
TEST_F(AllocatedByTheServer, IdleConnectionsTakeLessThanPlanned) {
  start();
  EXPECT_EQ(get("/health").status, 200);
  constexpr size_t kClients = 200;
  std::vector<HttpClient> clients;
  clients.reserve(kClients);
  const auto before = ::mallinfo2().uordblks;
  for (size_t i = 0; i < kClients; ++i) {
    clients.push_back(connect());
    ASSERT_TRUE(clients.back().get("/health", ""));
    EXPECT_EQ(clients.back().read_answer().status, 200);
  }
  const auto after = ::mallinfo2().uordblks;
  server::ServerOptions options;
  options.http.limits.n_connections = kClients;
  EXPECT_LE(after, before + server_memory(options, {}).connections);
}

}  // namespace
}  // namespace tessera
