// Rules of access: keys and their file, Host, Origin and CORS.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "tessera/server/http/access.h"
#include "tessera/server/http/keys.h"
#include "tests/support/testing.h"

namespace tessera::server {
namespace {

HttpRequest request_with(std::vector<HttpField> fields) { return {.fields = std::move(fields)}; }

TEST(HttpKeys, FindsTheOwnerOfAKey) {
  KeyRing ring;
  ASSERT_OK(ring.add("first", {}));
  ASSERT_OK(ring.add("second", {.name = "ann", .best_priority = 3}));
  ASSERT_NE(ring.find("second"), nullptr);
  EXPECT_EQ(ring.find("second")->name, "ann");
  EXPECT_EQ(ring.find("second")->best_priority, 3);
  EXPECT_EQ(ring.find("first")->name, "key-1");
  EXPECT_EQ(ring.find("first")->best_priority, -10);
  for (const std::string_view other : {"", "firs", "first ", "First", "firstsecond"})
    EXPECT_EQ(ring.find(other), nullptr);
}

TEST(HttpKeys, RefusesBadKeys) {
  KeyRing ring;
  ASSERT_OK(ring.add("a", {}));
  EXPECT_ERROR(ring.add("", {}), "0 bytes");
  EXPECT_ERROR(ring.add(std::string(4097, 'a'), {}), "4097 bytes");
  EXPECT_ERROR(ring.add("a b", {}), "visible ASCII");
  EXPECT_ERROR(ring.add("a\x7f", {}), "visible ASCII");
  EXPECT_OK(ring.add("!~", {}));
  EXPECT_OK(ring.add(std::string(4096, 'a'), {}));
  EXPECT_ERROR(ring.add("a", {}), "given before");
}

TEST(HttpKeys, ReadsLinesWithNamesAndPriorities) {
  KeyRing ring;
  ASSERT_OK(ring.add_lines("# comment\n\nsecret1\n  secret#2 name=ann best=-3 # hers\r\nsecret3\tbest=10\n"));
  EXPECT_EQ(ring.find("secret1")->name, "key-1");
  EXPECT_EQ(ring.find("secret#2")->name, "ann");
  EXPECT_EQ(ring.find("secret#2")->best_priority, -3);
  EXPECT_EQ(ring.find("secret3")->best_priority, 10);
  EXPECT_EQ(ring.find("#"), nullptr);
}

TEST(HttpKeys, NamesHaveFewCharacters) {
  for (const std::string& name : {std::string("azAZ09._-"), std::string("a"), std::string("Z"), std::string("0"),
                                  std::string("."), std::string("-"), std::string(64, 'n')}) {
    KeyRing ring;
    ASSERT_OK(ring.add_lines("secret name=" + name));
    EXPECT_EQ(ring.find("secret")->name, name);
  }
  for (const std::string& name : {std::string("`"), std::string("{"), std::string("@"), std::string("["),
                                  std::string("/"), std::string(":"), std::string(65, 'n')}) {
    KeyRing ring;
    EXPECT_ERROR(ring.add_lines("secret name=" + name), "name=");
  }
  KeyRing ring;
  ASSERT_OK(ring.add_lines("secret best=-10"));
  EXPECT_EQ(ring.find("secret")->best_priority, -10);
}

TEST(HttpKeys, AFileHasAMostSize) {
  const auto add = [](size_t n_bytes) {
    const std::string path = testing::write_temporary("large_keys", "secret\n" + std::string(n_bytes - 7, '\n'));
    EXPECT_EQ(::chmod(path.c_str(), 0600), 0);
    KeyRing ring;
    return add_key_file(ring, path);
  };
  EXPECT_OK(add(kMaxKeyFileBytes));
  EXPECT_ERROR(add(kMaxKeyFileBytes + 1), "over");
}

TEST(HttpKeys, ErrorsOfLinesNameTheLineButNotTheKey) {
  for (const std::string_view bad :
       {"secret best=11", "secret best=-11", "secret best=", "secret best=1x", "secret name=", "secret name=a/b",
        "secret other", "secret priority=1", "s\xc3\xa4\x63ret"}) {
    KeyRing ring;
    const auto added = ring.add_lines("ok\n" + std::string(bad) + "\n");
    ASSERT_FALSE(added) << bad;
    EXPECT_NE(added.error().message().find("line 2"), std::string::npos) << added.error().message();
    EXPECT_EQ(added.error().message().find("ret"), std::string::npos) << added.error().message();
  }
}

TEST(HttpKeys, RefusesFilesThatOthersMayRead) {
  const std::string path = testing::write_temporary("keys", "secret name=ann\n");
  for (const mode_t mode : {0604, 0602, 0601, 0644, 0777}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    KeyRing ring;
    EXPECT_ERROR(add_key_file(ring, path), "other users");
    EXPECT_TRUE(ring.empty());
  }
  for (const mode_t mode : {0600, 0400, 0640}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    KeyRing ring;
    ASSERT_OK(add_key_file(ring, path));
    EXPECT_EQ(ring.find("secret")->name, "ann");
  }
}

TEST(HttpKeys, RefusesFilesWithoutAKey) {
  const std::string path = testing::write_temporary("no_keys", "# none\n");
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  KeyRing ring;
  EXPECT_ERROR(add_key_file(ring, path), "no key");
  EXPECT_ERROR(add_key_file(ring, path + ".absent"), "No such file");
  ASSERT_EQ(::chmod(testing::temporary_dir().c_str(), 0700), 0);
  EXPECT_ERROR(add_key_file(ring, testing::temporary_dir()), "regular file");
  const std::string pipe = testing::temporary_path("key_pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_ERROR(add_key_file(ring, pipe), "regular file");
}

TEST(HttpKeys, ReadsTheKeyOfARequest) {
  KeyRing ring;
  ASSERT_OK(ring.add("k1", {}));
  EXPECT_NE(find_sent_key(ring, request_with({{"authorization", "Bearer k1"}})), nullptr);
  EXPECT_NE(find_sent_key(ring, request_with({{"authorization", "bearer  k1"}})), nullptr);
  EXPECT_NE(find_sent_key(ring, request_with({{"x-api-key", "k1"}})), nullptr);
  EXPECT_NE(find_sent_key(ring, request_with({{"authorization", "Bearer x"}, {"x-api-key", "k1"}})), nullptr);
  EXPECT_EQ(find_sent_key(ring, request_with({{"authorization", "Basic k1"}})), nullptr);
  EXPECT_EQ(find_sent_key(ring, request_with({{"authorization", "Bearer"}})), nullptr);
  EXPECT_EQ(find_sent_key(ring, request_with({{"authorization", "k1"}})), nullptr);
  EXPECT_EQ(find_sent_key(ring, request_with({})), nullptr);
}

TEST(HttpHost, LoopbackNamesAreAllowed) {
  const HostRules rules{.machine_name = "box"};
  for (const std::string_view host : {"localhost", "LOCALHOST:80", "localhost.", "a.localhost", "127.0.0.1",
                                      "127.9.9.9:1", "[::1]:80", "[::ffff:127.0.0.1]", "box", "Box:9"})
    EXPECT_TRUE(is_host_allowed(rules, host)) << host;
  for (const std::string_view host :
       {"evil.com", "localhost.evil.com", "xlocalhost", ".localhost", "128.0.0.1", "127.0.0.1.evil.com", "[::2]",
        "[::7f00:1]", "[::ffff:128.0.0.1]", "0.0.0.0", "127.1", "2130706433", "boxx", ""})
    EXPECT_FALSE(is_host_allowed(rules, host)) << host;
}

TEST(HttpHost, MoreNamesCanBeAllowed) {
  const HostRules rules{.allowed = {"My.Host", "with.port:80"}};
  EXPECT_TRUE(is_host_allowed(rules, "my.host:1234"));
  EXPECT_TRUE(is_host_allowed(rules, "with.port:80"));
  EXPECT_FALSE(is_host_allowed(rules, "with.port:81"));
  EXPECT_FALSE(is_host_allowed(rules, "other.host"));
  EXPECT_TRUE(is_host_allowed({.allowed = {"any"}}, "other.host"));
}

TEST(HttpCors, LocalhostHasAnyPort) {
  const CorsRules rules{.origins = "localhost"};
  for (const std::string_view origin :
       {"http://localhost", "https://localhost:3000", "http://127.0.0.1:1", "http://[::1]:5173"})
    EXPECT_TRUE(is_origin_allowed(rules, origin)) << origin;
  for (const std::string_view origin : {"http://evil.com", "http://localhost.evil.com", "null", "file://localhost",
                                        "localhost", "http://a.localhost", "http://127.0.0.2"})
    EXPECT_FALSE(is_origin_allowed(rules, origin)) << origin;
}

TEST(HttpCors, OriginsAreExactOrAll) {
  EXPECT_TRUE(is_origin_allowed({.origins = "*"}, "null"));
  const CorsRules rules{.origins = "https://a.com, https://b.com:8443"};
  EXPECT_TRUE(is_origin_allowed(rules, "https://b.com:8443"));
  EXPECT_FALSE(is_origin_allowed(rules, "https://b.com"));
  EXPECT_FALSE(is_origin_allowed(rules, "http://a.com"));
}

TEST(HttpCors, PagesOfOtherSitesAreNotAllowed) {
  const CorsRules rules{.origins = "localhost"};
  const auto allowed = [&](std::vector<HttpField> fields) { return is_page_allowed(rules, fields, "my.host:80"); };
  EXPECT_TRUE(allowed({}));
  EXPECT_TRUE(allowed({{"origin", "http://localhost:5"}}));
  EXPECT_TRUE(allowed({{"origin", "http://my.host:80"}}));
  EXPECT_FALSE(allowed({{"origin", "http://my.host"}}));
  EXPECT_FALSE(allowed({{"origin", "http://evil.com"}}));
  EXPECT_FALSE(allowed({{"origin", "http://localhost"}, {"origin", "http://localhost"}}));
  EXPECT_FALSE(allowed({{"sec-fetch-site", "cross-site"}}));
  EXPECT_TRUE(allowed({{"sec-fetch-site", "same-origin"}}));
  EXPECT_TRUE(allowed({{"sec-fetch-site", "cross-site"}, {"origin", "http://localhost"}}));
}

std::string cors_value(const std::vector<HttpField>& fields, std::string_view name) {
  for (const HttpField& field : fields)
    if (field.name == name) return field.value;
  return "";
}

TEST(HttpCors, AnAllowedOriginIsSentBack) {
  const CorsRules rules{.origins = "localhost", .methods = "GET", .headers = "*"};
  const auto plain = cors_fields(rules, {{"origin", "http://localhost:1"}}, false);
  EXPECT_EQ(cors_value(plain, "Access-Control-Allow-Origin"), "http://localhost:1");
  EXPECT_EQ(cors_value(plain, "Access-Control-Allow-Credentials"), "true");
  EXPECT_EQ(cors_value(plain, "Vary"), "Origin");
  EXPECT_EQ(cors_value(plain, "Access-Control-Allow-Methods"), "");
  const auto refused = cors_fields(rules, {{"origin", "http://evil.com"}}, true);
  EXPECT_EQ(cors_value(refused, "Access-Control-Allow-Origin"), "");
  EXPECT_EQ(cors_value(refused, "Access-Control-Allow-Methods"), "GET");
  EXPECT_TRUE(cors_fields(rules, {}, false).empty());
}

// Browsers do not take "*" for Authorization, nor in requests with credentials.
TEST(HttpCors, APreflightNamesTheHeadersThatItAllows) {
  const CorsRules rules{.origins = "*", .headers = "*"};
  EXPECT_EQ(cors_value(cors_fields(rules, {}, true), "Access-Control-Allow-Headers"), "*");
  const auto fields = cors_fields(rules, {{"access-control-request-headers", "authorization, b@d, x-a"}}, true);
  EXPECT_EQ(cors_value(fields, "Access-Control-Allow-Headers"), "*, authorization, x-a");
}

TEST(HttpRequestId, HasFewCharacters) {
  EXPECT_TRUE(is_request_id("azAZ09._-"));
  EXPECT_TRUE(is_request_id(std::string(64, 'a')));
  for (const std::string& id :
       {std::string(), std::string(65, 'a'), std::string("a b"), std::string("a\""), std::string("`"), std::string("{"),
        std::string("@"), std::string("["), std::string("/"), std::string(":")})
    EXPECT_FALSE(is_request_id(id)) << id;
}

}  // namespace
}  // namespace tessera::server
