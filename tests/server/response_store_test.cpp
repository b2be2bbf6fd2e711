// Stored answers of the Responses API: their limit of bytes, and the order in which they go.
#include "tessera/server/api/response_store.h"

#include <gtest/gtest.h>

namespace tessera::server {
namespace {

constexpr size_t kOverhead = 512;  // of an entry

// An answer of n bytes.
StoredResponse response_of(const std::string& id, size_t n, const std::string& client = "c") {
  return {.id = id, .client = client, .object = std::string(n - kOverhead - id.size() - client.size(), 'o')};
}

TEST(ResponseStore, HoldsExactlyItsBytes) {
  ResponseStore store(2000);
  store.put(response_of("a", 1000));
  store.put(response_of("b", 1000));
  EXPECT_TRUE(store.find("a", "c"));
  EXPECT_TRUE(store.find("b", "c"));
  store.put(response_of("d", 600));  // "a" was used longest ago
  EXPECT_FALSE(store.find("a", "c"));
  EXPECT_TRUE(store.find("b", "c"));
  store.put(response_of("e", 2000));
  EXPECT_TRUE(store.find("e", "c"));
  EXPECT_FALSE(store.find("b", "c"));
  store.put(response_of("f", 2001));
  EXPECT_FALSE(store.find("f", "c"));
  EXPECT_TRUE(store.find("e", "c"));
}

TEST(ResponseStore, ErasedOnesGiveTheirBytesBack) {
  ResponseStore store(2000);
  store.put(response_of("a", 1000));
  store.put(response_of("b", 1000));
  EXPECT_TRUE(store.erase("b", "c"));
  EXPECT_FALSE(store.erase("b", "c"));
  store.put(response_of("d", 1000));
  EXPECT_TRUE(store.find("a", "c"));
  EXPECT_TRUE(store.find("d", "c"));
}

TEST(ResponseStore, AClientSeesOnlyItsOwn) {
  ResponseStore store(10'000);
  store.put(response_of("a", 1000, "one"));
  EXPECT_FALSE(store.find("a", "two"));
  EXPECT_FALSE(store.erase("a", "two"));
  EXPECT_EQ(store.find("a", "one")->id, "a");
}

TEST(ResponseStore, WithoutBytesNothingIsStored) {
  ResponseStore store(0);
  store.put(response_of("a", 1000));
  EXPECT_FALSE(store.find("a", "c"));
}

}  // namespace
}  // namespace tessera::server
