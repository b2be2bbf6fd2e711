// The chat page over HTTP: encodings, caching, the policy, and keys.
#include <gtest/gtest.h>

#include "tests/server/api_support.h"

namespace tessera {
namespace {

using namespace testing;

class PageRoutes : public ApiTest {};

TEST_F(PageRoutes, ThePageOpensWithoutAKey) {
  ApiSetup setup;
  setup.options.http.api_keys = {"secret"};
  start(std::move(setup));
  const Answer plain = get("/");
  EXPECT_EQ(plain.status, 200);
  EXPECT_EQ(plain.reply.field("content-type"), "text/html; charset=utf-8");
  EXPECT_NE(plain.reply.body.find("<!doctype html>"), std::string::npos) << plain.reply.body.substr(0, 100);
  EXPECT_NE(plain.reply.field("content-security-policy").find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(plain.reply.field("cache-control"), "no-cache");
  EXPECT_EQ(get("/index.html").reply.body, plain.reply.body);
}

TEST_F(PageRoutes, FilesComeCompressedOrInflated) {
  start();
  const Answer index = get("/");
  const size_t begin = index.reply.body.find("/assets/page-");
  ASSERT_NE(begin, std::string::npos);
  const std::string path = index.reply.body.substr(begin, index.reply.body.find('"', begin) - begin);
  const Answer gzip = get(path, "Accept-Encoding: br, gzip;q=0.8\r\n"), plain = get(path);
  EXPECT_EQ(gzip.reply.field("content-encoding"), "gzip");
  EXPECT_EQ(gzip.reply.body.substr(0, 2), "\x1f\x8b");
  EXPECT_EQ(plain.reply.field("content-encoding"), "");
  size_t n_inflated = 0;  // the last four bytes of gzip
  for (size_t i = 0; i < 4; ++i)
    n_inflated |= size_t{static_cast<unsigned char>(gzip.reply.body[gzip.reply.body.size() - 4 + i])} << (8 * i);
  EXPECT_EQ(plain.reply.body.size(), n_inflated);
  EXPECT_NE(gzip.reply.field("cache-control").find("immutable"), std::string::npos);
  EXPECT_EQ(plain.reply.field("etag"), gzip.reply.field("etag"));
  EXPECT_EQ(get(path, "If-None-Match: " + gzip.reply.field("etag") + "\r\n").status, 304);
  EXPECT_EQ(get(path, "If-None-Match: \"other\"\r\n").status, 200);
}

TEST_F(PageRoutes, ThePageCanBeLeftOut) {
  ApiSetup setup;
  setup.options.api.has_page = false;
  start(std::move(setup));
  EXPECT_EQ(get("/").status, 404);
  EXPECT_EQ(get("/props").json["ui"], false);
}

}  // namespace
}  // namespace tessera
